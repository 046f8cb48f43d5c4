/** Sentences about configuration keys that Postern does not follow. @module */

import { nearest } from "../../base/mod.ts";
import { CONFIG_KEYS, type ConfigKey, KEY_PLACES, type KeyPlace } from "./config_keys.ts";

const BY_PLACE: ReadonlyMap<KeyPlace, ReadonlyMap<string, ConfigKey>> = new Map(
  KEY_PLACES.map((place) => [
    place,
    new Map(CONFIG_KEYS.filter((row) => row.place === place).map((row) => [plain(row.key), row])),
  ]),
);

/** The row of `path`, in any of Consul's spellings; `block`: keys are known inside it; `undefined`: unknown. */
export function configKey(place: KeyPlace, path: string): ConfigKey | "block" | undefined {
  const wanted = plain(path);
  const keys = BY_PLACE.get(place);
  const row = keys?.get(wanted);
  if (row) return row;
  for (const key of keys?.keys() ?? []) if (key.startsWith(`${wanted}.`)) return "block";
  return undefined;
}

export function refusalReason(place: KeyPlace, path: string): string {
  const row = configKey(place, path);
  return typeof row === "object" && row.fate.kind !== "followed" ? row.fate.reason : "";
}

/** `max_connections`, `MaxConnections` and `maxConnections` are the same key. */
export function plain(key: string): string {
  return key.replaceAll("_", "").toLowerCase();
}

interface NamingOptions {
  readonly place: KeyPlace;
  /** Starts each sentence. */
  readonly where: string;
  /** Zeros and false count as written. In a config entry Consul writes those itself. */
  readonly zeroCounts?: boolean;
}

/** A sentence for each key inside `value` that is not followed. */
export function namedKeys(value: unknown, options: NamingOptions): readonly string[] {
  const { place, where, zeroCounts = false } = options;
  const sentences: string[] = [];
  const name = (path: string, inner: unknown): void => {
    const row = configKey(place, path);
    if (row === "block" && isMap(inner)) return walk(inner, `${path}.`);
    if (row === undefined || row === "block") {
      const hint = suggestion(place, path);
      sentences.push(`${where} has ${path}, which is ignored: Postern does not know it${hint}`);
    } else if (row.fate.kind === "ignored") {
      sentences.push(`${where} has ${path}${shown(inner)}, which is ignored: ${row.fate.reason}`);
    }
  };
  const walk = (map: Readonly<Record<string, unknown>>, prefix: string): void => {
    for (const [key, inner] of Object.entries(map)) {
      const isSet = zeroCounts && (inner === 0 || inner === false);
      if (isSet || !isEmpty(inner)) name(prefix + key, inner);
    }
  };
  if (isMap(value)) walk(value, "");
  return sentences;
}

function suggestion(place: KeyPlace, path: string): string {
  const keys = CONFIG_KEYS.filter((row) => row.place === place).map(({ key }) => key);
  const key = nearest(path, keys);
  return key === undefined ? "" : `; did you mean ${key}?`;
}

/** Consul writes an unset value as null, "", 0, false, or a block of those. */
function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  if (isMap(value)) return Object.values(value).every(isEmpty);
  return value === null || value === undefined || value === "" || value === 0 || value === false;
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Raw configuration is long and may hold secrets: only plain values are shown. */
function shown(value: unknown): string {
  const isPlain = ["string", "number", "boolean"].includes(typeof value);
  const json = isPlain ? JSON.stringify(value) : "";
  return json === "" || /[{[<]/.test(json) ? "" : ` ${json.slice(0, 60)}`;
}
