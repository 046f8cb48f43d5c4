/**
 * Config entries: read, written and removed as `/v1/config` does, with the checks that Consul makes
 * when one is written. What they mean for a proxy or a chain is left to the modules that read them.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { normalEntry } from "./config_normal.ts";
import { CONFIG_SHAPES, READ_ONLY_KINDS } from "./config_shapes.ts";
import { DecodeError, decodeObject, isObject, type JsonObject, parseJson } from "../http/decode.ts";
import { Refusal } from "../http/refusal.ts";
import { numberAt, textAt } from "../http/fields.ts";
import { providersIn } from "./jwt_provider.ts";
import type { Store } from "../catalog/store.ts";

export type FindEntry = (kind: string, name: string) => JsonObject | undefined;

export class ConfigEntries {
  readonly #store: Store;
  readonly #entries = new Map<string, JsonObject>();
  /** Throws where the entries, seen through `find`, would not fit together. */
  readonly #validate: (find: FindEntry, names: ReadonlySet<string>) => void;
  readonly #onChange: ((kind: string, name: string) => void)[] = [];

  constructor(
    store: Store,
    validate: (find: FindEntry, names: ReadonlySet<string>) => void,
  ) {
    this.#store = store;
    this.#validate = validate;
  }

  /** As they are now, over a copy of the store; only to be read. */
  copy(store: Store): ConfigEntries {
    const copy = new ConfigEntries(store, this.#validate);
    for (const [key, entry] of this.#entries) copy.#entries.set(key, entry);
    return copy;
  }

  /** `fn` is called after each write and removal. */
  onChange(fn: (kind: string, name: string) => void): void {
    this.#onChange.push(fn);
  }

  find(kind: string, name: string): JsonObject | undefined {
    return this.#entries.get(keyOf(kind, name));
  }

  list(kind: string): readonly JsonObject[] {
    return [...this.#entries.values()].filter((entry) => entry["Kind"] === kind)
      .sort((a, b) => textAt(a, "Name") < textAt(b, "Name") ? -1 : 1);
  }

  /** Writes an entry as decoded; returns false where `cas` does not fit. */
  put(entry: JsonObject, cas?: number): boolean {
    const kind = textAt(entry, "Kind");
    const name = nameOf(entry);
    const old = this.find(kind, name);
    if (cas !== undefined && cas !== (old ? numberAt(old, "ModifyIndex") : 0)) return false;
    const content = normalEntry(entry);
    this.#fits(
      (otherKind, otherName) =>
        keyOf(otherKind, otherName) === keyOf(kind, name)
          ? content
          : this.find(otherKind, otherName),
      name,
    );
    if (old && sameEntry(old, content)) return true;
    const index = this.#store.commit("config", topicsOf(kind, name));
    const createIndex = old ? numberAt(old, "CreateIndex") : index;
    this.#entries.set(keyOf(kind, name), {
      ...content,
      Hash: hashOf(content),
      CreateIndex: createIndex,
      ModifyIndex: index,
    });
    for (const fn of this.#onChange) fn(kind, name);
    return true;
  }

  /** Removes an entry; an absent one is no error. */
  remove(kind: string, name: string): void {
    const old = this.find(kind, name);
    if (!old) return;
    if (kind === "jwt-provider") this.#isUnused(name);
    this.#fits(
      (otherKind, otherName) =>
        keyOf(otherKind, otherName) === keyOf(kind, name)
          ? undefined
          : this.find(otherKind, otherName),
      name,
    );
    this.#entries.delete(keyOf(kind, name));
    this.#store.commit("config", topicsOf(kind, name));
    for (const fn of this.#onChange) fn(kind, name);
  }

  /** Refuses where an intention refers to the provider. */
  #isUnused(provider: string): void {
    const user = this.list("service-intentions")
      .find((entry) => providersIn(entry).includes(provider));
    if (!user) return;
    throw new Refusal(
      500,
      "cannot delete jwt provider config entry referenced by an intention. " +
        `Provider name: ${provider}, intention name: ${textAt(user, "Name")}`,
    );
  }

  #fits(find: FindEntry, changed: string): void {
    const names = new Set<string>([changed]);
    for (
      const kind of ["service-router", "service-splitter", "service-resolver", "service-intentions"]
    ) {
      for (const entry of this.list(kind)) names.add(textAt(entry, "Name"));
    }
    names.delete("*");
    names.delete("global");
    this.#validate(find, names);
  }
}

/** The topic that a read of this entry watches. */
export function configTopic(kind: string, name: string): string {
  return `config:${keyOf(kind, name)}`;
}

/** Decodes the body of `PUT /v1/config`. */
export function readEntry(text: string): JsonObject {
  const raw = decoding(() => parseJson(text));
  const kindKey = isObject(raw) ? raw["Kind"] ?? raw["kind"] : undefined;
  if (!isObject(raw) || typeof kindKey !== "string") {
    throw new Refusal(
      400,
      "Request decoding failed: Payload does not contain a kind/Kind key at the top level",
    );
  }
  const shape = CONFIG_SHAPES[kindKey];
  if (!shape) {
    if (!READ_ONLY_KINDS.has(kindKey)) {
      throw new Refusal(400, `Request decoding failed: invalid config entry kind: ${kindKey}`);
    }
    throw new Refusal(500, `config entry kind ${kindKey} cannot be written on the embedded agent`);
  }
  for (const key of ["Namespace", "Partition", "namespace", "partition"]) {
    if (!(key in raw) || kindKey === "mesh") continue;
    throw new Refusal(400, badKey(key, `, ${key.toLowerCase()}s are a consul enterprise feature`));
  }
  return decoding(() => decodeObject(text, shape));
}

/** The kind and name of a path; 500 for kinds that Consul does not know. */
export function checkKind(kind: string): void {
  if (kind in CONFIG_SHAPES || READ_ONLY_KINDS.has(kind)) return;
  throw new Refusal(500, `invalid config entry kind: ${kind}`);
}

function decoding<T>(decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    const text = error.unknownKey === undefined
      ? `Request decoding failed: ${error.message}`
      : badKey(error.unknownKey, "");
    throw new Refusal(400, text);
  }
}

function badKey(key: string, reason: string): string {
  return `Request decoding failed: 1 error occurred:\n\t* invalid config key "${key}"${reason}\n\n`;
}

function keyOf(kind: string, name: string): string {
  return `${kind}/${kind === "service-intentions" ? name.toLowerCase() : name}`;
}

function topicsOf(kind: string, name: string): readonly string[] {
  return [configTopic(kind, name), `config:${kind}`];
}

function nameOf(entry: JsonObject): string {
  const kind = textAt(entry, "Kind");
  const name = textAt(entry, "Name");
  if (kind === "mesh") return "mesh";
  if (name === "") throw new Refusal(500, "Name is required");
  if (kind === "proxy-defaults" && name !== "global") {
    throw new Refusal(500, `invalid name ("${name}"), only "global" is supported`);
  }
  return name;
}

function sameEntry(old: JsonObject, content: JsonObject): boolean {
  const { Hash: _h, CreateIndex: _c, ModifyIndex: _m, ...rest } = old;
  return JSON.stringify(rest) === JSON.stringify(content);
}

/** A 64-bit number, like Consul's larger than a JSON number keeps exactly. */
function hashOf(content: JsonObject): number {
  const digest = createHash("sha256").update(JSON.stringify(content)).digest();
  return Number(digest.readBigUInt64BE());
}
