/**
 * Config entries: read, written and removed as `/v1/config` does. What they mean for a proxy or a chain
 * is left to the modules that read them.
 *
 * @module
 */

import type { Store } from "../catalog/store.ts";
import { type JsonObject, numberAt, stableJson, textAt } from "../json.ts";
import { Refusal } from "../refusal.ts";
import { decodeAs, parseBody } from "../shapes.ts";
import { checkEntries, checkEntry, providersIn } from "./check_entries.ts";
import { CONFIG, configTopic } from "../topics.ts";
import type { FindEntry } from "./chain_targets.ts";

const KINDS = [
  "service-defaults",
  "proxy-defaults",
  "mesh",
  "service-resolver",
  "service-splitter",
  "service-router",
  "service-intentions",
  "jwt-provider",
];

export class ConfigEntries {
  readonly #store: Store;
  readonly #datacenter: string;
  readonly #entries: Map<string, JsonObject>;
  readonly #onChange: ((kind: string) => void)[] = [];

  /** `from`: entries to be copied as they are now. */
  constructor(store: Store, datacenter: string, from?: ConfigEntries) {
    this.#store = store;
    this.#datacenter = datacenter;
    this.#entries = new Map(from && from.#entries);
  }

  /** `fn` is called with the kind of every entry that is written or removed. */
  onChange(fn: (kind: string) => void): void {
    this.#onChange.push(fn);
  }

  find(kind: string, name: string): JsonObject | undefined {
    return this.#entries.get(configTopic(kind, name));
  }

  list(kind: string): readonly JsonObject[] {
    return [...this.#entries.values()].filter((entry) => entry["Kind"] === kind)
      .sort((a, b) => textAt(a, "Name") < textAt(b, "Name") ? -1 : 1);
  }

  /** Writes a decoded entry. An equal one changes nothing; false: `cas` is not its index. */
  put(entry: JsonObject, cas?: number): boolean {
    const kind = textAt(entry, "Kind");
    const name = nameOf(entry);
    const old = this.find(kind, name);
    if (cas !== undefined && cas !== (old ? numberAt(old, "ModifyIndex") : 0)) return false;
    const content = {
      ...withoutIndexes(entry),
      ...kind === "service-defaults" ? { Protocol: textAt(entry, "Protocol").toLowerCase() } : {},
    };
    if (old && stableJson(withoutIndexes(old)) === stableJson(content)) return true;
    checkEntry(content);
    this.#change(kind, name, content, (index) => ({
      ...content,
      CreateIndex: old ? numberAt(old, "CreateIndex") : index,
      ModifyIndex: index,
    }));
    return true;
  }

  /** Removes an entry; an absent one is no error. */
  remove(kind: string, name: string): void {
    if (!this.find(kind, name)) return;
    if (kind === "jwt-provider") {
      const user = this.list("service-intentions").find((entry) =>
        providersIn(entry).includes(name)
      );
      if (user) {
        const fact = `the intentions of ${textAt(user, "Name")} refer to it`;
        throw new Refusal(500, `Cannot remove the jwt-provider "${name}": ${fact}`);
      }
    }
    this.#change(kind, name, undefined, () => undefined);
  }

  /** Checks all entries as they would be with `content`, then writes what `entryAt` gives. */
  #change(
    kind: string,
    name: string,
    content: JsonObject | undefined,
    entryAt: (index: number) => JsonObject | undefined,
  ): void {
    const key = configTopic(kind, name);
    const find: FindEntry = (otherKind, otherName) =>
      configTopic(otherKind, otherName) === key ? content : this.find(otherKind, otherName);
    const named = [...this.#entries.values()].filter(({ Kind }) =>
      CHAIN_KINDS.includes(String(Kind))
    )
      .map((entry) => textAt(entry, "Name"));
    checkEntries(find, new Set([...named, name]), this.#datacenter);
    const entry = entryAt(this.#store.commit([CONFIG, configTopic(kind), configTopic(kind, name)]));
    if (entry) this.#entries.set(key, entry);
    else this.#entries.delete(key);
    for (const fn of this.#onChange) fn(kind);
  }
}

/** Kinds whose entries have to fit together. */
const CHAIN_KINDS = [
  "service-router",
  "service-splitter",
  "service-resolver",
  "service-intentions",
];

/** Decodes the body of `PUT /v1/config`. */
export function readEntryBody(text: string): JsonObject {
  const body = parseBody(text);
  const kind = body["Kind"] ?? body["kind"];
  if (typeof kind !== "string") {
    throw new Refusal(400, "Cannot read the config entry: Kind is missing");
  }
  checkKind(kind);
  return decodeAs(body, kind);
}

/** Refuses kinds that are not kept here. */
export function checkKind(kind: string): void {
  if (KINDS.includes(kind)) return;
  throw new Refusal(400, `Cannot keep config entries of kind "${kind}": want ${KINDS.join(", ")}`);
}

function nameOf(entry: JsonObject): string {
  const kind = textAt(entry, "Kind");
  if (kind === "mesh") return "mesh";
  const name = textAt(entry, "Name");
  if (name === "") throw new Refusal(400, `Cannot keep the ${kind} entry: Name is missing`);
  if (kind === "proxy-defaults" && name !== "global") {
    throw new Refusal(400, `Cannot keep the proxy-defaults entry "${name}": its Name is "global"`);
  }
  return name;
}

function withoutIndexes(entry: JsonObject): JsonObject {
  const { CreateIndex: _c, ModifyIndex: _m, ...content } = entry;
  return content;
}
