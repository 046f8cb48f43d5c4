/**
 * Intentions as `/v1/connect/intentions` shows them, made from the `service-intentions` entries, and
 * the two verdicts that the agent itself gives: check and authorize.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { type ConfigEntries, configTopic } from "./config_entries.ts";
import type { JsonObject } from "../http/decode.ts";
import { permissionsOf, precedenceOf, sourcesOf } from "./intention_entry.ts";
import { dropEmpty } from "../catalog/records.ts";
import { numberAt, textAt } from "../http/fields.ts";

/** Topics that a match on this destination watches. */
export function matchTopics(by: "source" | "destination", name: string): readonly string[] {
  return by === "source"
    ? ["config:service-intentions"]
    : [configTopic("service-intentions", name), configTopic("service-intentions", "*")];
}

/** Intentions that cover `name`, in Consul's order. */
export function matchIntentions(
  config: ConfigEntries,
  by: "source" | "destination",
  name: string,
): readonly JsonObject[] {
  const wanted = name.toLowerCase();
  return listIntentions(config).filter((intention) => {
    const side = textAt(intention, by === "source" ? "SourceName" : "DestinationName")
      .toLowerCase();
    return side === "*" || side === wanted;
  });
}

/** All intentions, by precedence, then local before peers, then by name. */
export function listIntentions(config: ConfigEntries): readonly JsonObject[] {
  return config.list("service-intentions").flatMap((entry) =>
    sourcesOf(entry).map((source) => toIntention(entry, source))
  ).sort((a, b) =>
    numberAt(b, "Precedence") - numberAt(a, "Precedence") ||
    compare(textAt(a, "SourcePeer"), textAt(b, "SourcePeer")) ||
    compare(textAt(a, "SourceName"), textAt(b, "SourceName")) ||
    compare(textAt(a, "DestinationName"), textAt(b, "DestinationName"))
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

/** Adds or replaces one source of a destination's entry. */
export function putIntention(
  config: ConfigEntries,
  destination: string,
  source: JsonObject,
): void {
  const entry = config.find("service-intentions", destination);
  const others = (entry ? sourcesOf(entry) : []).filter((other) =>
    textAt(other, "Name") !== textAt(source, "Name") ||
    textAt(other, "Peer") !== textAt(source, "Peer")
  );
  config.put({
    ...withoutIndexes(entry ?? {}),
    Kind: "service-intentions",
    Name: destination,
    Sources: [...others, source],
  });
}

/** Removes one source; the entry goes with its last one. */
export function deleteIntention(config: ConfigEntries, source: string, destination: string): void {
  const entry = config.find("service-intentions", destination);
  if (!entry) return;
  const left = sourcesOf(entry).filter((other) =>
    textAt(other, "Name") !== source || textAt(other, "Peer") !== ""
  );
  if (left.length === sourcesOf(entry).length) return;
  if (left.length === 0) config.remove("service-intentions", destination);
  else config.put({ ...withoutIndexes(entry), Sources: left });
}

export interface Decision {
  readonly allowed: boolean;
  readonly reason: string;
}

/** The first local intention that covers the source, else `undefined`. Permissions deny at L4. */
export function decide(
  config: ConfigEntries,
  source: { readonly namespace: string; readonly service: string },
  destination: string,
): Decision | undefined {
  // No intention here can name a namespace, so one other than the default is never covered.
  if (source.namespace !== "default") return undefined;
  const rule = matchIntentions(config, "destination", destination).find((intention) =>
    textAt(intention, "SourcePeer") === "" &&
    ["*", source.service].includes(textAt(intention, "SourceName"))
  );
  if (!rule) return undefined;
  const permissions = permissionsOf(rule);
  const names = `default/${textAt(rule, "SourceName")} => default/${
    textAt(rule, "DestinationName")
  }`;
  const precedence = `Precedence: ${numberAt(rule, "Precedence")}`;
  if (permissions.length > 0) {
    const count = `Permissions: ${permissions.length}`;
    return { allowed: false, reason: `Matched L7 intention: ${names} (${precedence}, ${count})` };
  }
  const action = textAt(rule, "Action");
  return {
    allowed: action === "allow",
    reason: `Matched L4 intention: ${names} (${precedence}, Action: ${action.toUpperCase()})`,
  };
}

function toIntention(entry: JsonObject, source: JsonObject): JsonObject {
  const legacy = textAt(source, "LegacyID");
  const destination = textAt(entry, "Name");
  const name = textAt(source, "Name");
  return dropEmpty({
    CreatedAt: textAt(source, "LegacyCreateTime"),
    UpdatedAt: textAt(source, "LegacyUpdateTime"),
    ID: legacy,
    Description: textAt(source, "Description"),
    SourceNS: "default",
    SourceName: name,
    DestinationNS: "default",
    DestinationName: destination,
    SourcePeer: textAt(source, "Peer"),
    SourceType: "consul",
    Action: textAt(source, "Action"),
    Permissions: permissionsOf(source),
    JWT: entry["JWT"] ?? null,
    Meta: entry["Meta"] ?? null,
    Precedence: precedenceOf(name, destination),
    Hash: legacy === "" ? "" : createHash("sha256").update(legacy).digest("base64"),
    CreateIndex: numberAt(entry, "CreateIndex"),
    ModifyIndex: numberAt(entry, "ModifyIndex"),
  }, [
    "CreatedAt",
    "UpdatedAt",
    "ID",
    "Description",
    "SourcePeer",
    "Action",
    "Permissions",
    "JWT",
    "Meta",
    "Hash",
  ]);
}

function withoutIndexes(entry: JsonObject): JsonObject {
  const { CreateIndex: _c, ModifyIndex: _m, Hash: _h, ...rest } = entry;
  return rest;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
