/** Config entries of the agent in memory: read, written and deleted as by `/v1/config`. @module */

import { CONFIG, configTopic, type Store } from "../store.ts";
import { type JsonObject, numberAt, stableJson, textAt } from "../json.ts";
import { HttpRefusal } from "../refusal.ts";
import { decodeAs, parseBody } from "../shapes.ts";
import type { FindEntry } from "./chain_targets.ts";
import { checkEntries, checkEntry } from "./check_entries.ts";

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
    this.#change(kind, name, content);
    return true;
  }

  remove(kind: string, name: string): void {
    if (this.find(kind, name)) this.#change(kind, name, undefined);
  }

  /** Writes or removes an entry, unless the others do not fit together then. */
  #change(kind: string, name: string, content: JsonObject | undefined): void {
    const key = configTopic(kind, name);
    const find: FindEntry = (otherKind, otherName) =>
      configTopic(otherKind, otherName) === key ? content : this.find(otherKind, otherName);
    const names = [...this.#entries.values()].map((entry) => textAt(entry, "Name"));
    checkEntries(find, new Set([...names, name]), this.#datacenter);
    const old = this.#entries.get(key);
    const index = this.#store.commit([CONFIG, configTopic(kind), key]);
    const CreateIndex = old ? numberAt(old, "CreateIndex") : index;
    if (content) this.#entries.set(key, { ...content, CreateIndex, ModifyIndex: index });
    else this.#entries.delete(key);
    for (const fn of this.#onChange) fn(kind);
  }
}

/** Decodes the body of `PUT /v1/config`. */
export function readEntryBody(text: string): JsonObject {
  const body = parseBody(text);
  const kind = body["Kind"] ?? body["kind"];
  if (typeof kind !== "string") {
    throw new HttpRefusal(400, "Cannot read the config entry: Kind is missing");
  }
  checkKind(kind);
  return decodeAs(withoutIndexes(body), kind);
}

export function checkKind(kind: string): void {
  if (KINDS.includes(kind)) return;
  throw new HttpRefusal(
    400,
    `Cannot keep config entries of kind "${kind}": want ${KINDS.join(", ")}`,
  );
}

function nameOf(entry: JsonObject): string {
  const kind = textAt(entry, "Kind");
  if (kind === "mesh") return "mesh";
  const name = textAt(entry, "Name");
  if (name === "") throw new HttpRefusal(400, `Cannot keep the ${kind} entry: Name is missing`);
  if (kind === "proxy-defaults" && name !== "global") {
    throw new HttpRefusal(
      400,
      `Cannot keep the proxy-defaults entry "${name}": its Name is "global"`,
    );
  }
  return name;
}

function withoutIndexes(entry: JsonObject): JsonObject {
  const { CreateIndex: _c, ModifyIndex: _m, ...content } = entry;
  return content;
}
