/** Intentions made from the `service-intentions` entries, and the verdict by them. @module */

import { type JsonObject, numberAt, objectsAt, textAt, withoutEmpty } from "../json.ts";
import type { ConfigEntries } from "./config_entries.ts";
import { configTopic } from "../store.ts";

const KIND = "service-intentions";

export function matchTopics(by: "source" | "destination", name: string): readonly string[] {
  return by === "source" ? [configTopic(KIND)] : [configTopic(KIND, name), configTopic(KIND, "*")];
}

/** Intentions that cover `name`, in Consul's order. */
export function matchIntentions(
  config: ConfigEntries,
  by: "source" | "destination",
  name: string,
): readonly JsonObject[] {
  const side = by === "source" ? "SourceName" : "DestinationName";
  return listIntentions(config).filter((intention) =>
    ["*", name.toLowerCase()].includes(textAt(intention, side).toLowerCase())
  );
}

/** All intentions: by precedence, local sources before those of peers, then by name. */
export function listIntentions(config: ConfigEntries): readonly JsonObject[] {
  const all = config.list(KIND).flatMap((entry) =>
    objectsAt(entry, "Sources").map((source) => toIntention(entry, source))
  );
  const order = (intention: JsonObject) =>
    ["SourcePeer", "SourceName", "DestinationName"].map((key) => textAt(intention, key)).join("\0");
  return all.sort((a, b) =>
    numberAt(b, "Precedence") - numberAt(a, "Precedence") || (order(a) < order(b) ? -1 : 1)
  );
}

export function exactIntention(
  config: ConfigEntries,
  source: string,
  destination: string,
): JsonObject | undefined {
  return listIntentions(config).find((intention) =>
    textAt(intention, "SourceName") === source &&
    textAt(intention, "DestinationName") === destination && textAt(intention, "SourcePeer") === ""
  );
}

/** Adds or replaces the source of a destination's entry that has this name. */
export function putIntention(config: ConfigEntries, destination: string, source: JsonObject): void {
  const entry = config.find(KIND, destination) ?? { Kind: KIND, Name: destination };
  config.put({ ...entry, Sources: [...othersIn(entry, textAt(source, "Name")), source] });
}

/** Removes one source; the entry goes with its last one. */
export function deleteIntention(config: ConfigEntries, source: string, destination: string): void {
  const entry = config.find(KIND, destination);
  if (!entry) return;
  const left = othersIn(entry, source);
  if (left.length === 0) config.remove(KIND, destination);
  else config.put({ ...entry, Sources: left });
}

function othersIn(entry: JsonObject, name: string): readonly JsonObject[] {
  return objectsAt(entry, "Sources").filter((source) =>
    textAt(source, "Name") !== name || textAt(source, "Peer") !== ""
  );
}

/** The action of the first local intention that covers the source; undefined: none. Permissions deny. */
export function decide(
  config: ConfigEntries,
  source: { readonly namespace: string; readonly service: string },
  destination: string,
): { readonly allowed: boolean; readonly reason: string } | undefined {
  // Intentions here name no namespace: a source outside the default one is never covered.
  if (source.namespace !== "default") return undefined;
  const rule = matchIntentions(config, "destination", destination).find((intention) =>
    textAt(intention, "SourcePeer") === "" &&
    ["*", source.service].includes(textAt(intention, "SourceName"))
  );
  if (!rule) return undefined;
  const permissions = objectsAt(rule, "Permissions");
  const action = textAt(rule, "Action");
  const [layer, effect] = permissions.length > 0
    ? ["L7", `Permissions: ${permissions.length}`]
    : ["L4", `Action: ${action.toUpperCase()}`];
  return {
    allowed: action === "allow",
    reason: `Matched ${layer} intention: default/${textAt(rule, "SourceName")} => ` +
      `default/${textAt(rule, "DestinationName")} ` +
      `(Precedence: ${numberAt(rule, "Precedence")}, ${effect})`,
  };
}

function toIntention(entry: JsonObject, source: JsonObject): JsonObject {
  const destination = textAt(entry, "Name");
  const name = textAt(source, "Name");
  return withoutEmpty({
    Description: textAt(source, "Description"),
    SourceNS: "default",
    SourceName: name,
    DestinationNS: "default",
    DestinationName: destination,
    SourcePeer: textAt(source, "Peer"),
    SourceType: "consul",
    Action: textAt(source, "Action"),
    Permissions: objectsAt(source, "Permissions"),
    JWT: entry["JWT"] ?? null,
    Meta: entry["Meta"] ?? null,
    // 9, 8, 6 or 5 by how exact source and destination are; namespaces are always exact here.
    Precedence: (destination === "*" ? 6 : 9) - (name === "*" ? 1 : 0),
    CreateIndex: numberAt(entry, "CreateIndex"),
    ModifyIndex: numberAt(entry, "ModifyIndex"),
  });
}
