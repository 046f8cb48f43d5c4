/**
 * consul-dataplane's configuration file, as values of flags.
 *
 * @module
 */

import { nearest, ProxyError } from "../../base/mod.ts";
import { quote } from "../flags/parse_flags.ts";
import type { FlagSpec } from "../flags/flag_table.ts";
import { SETTINGS } from "./flags.ts";

/** Values by the names of flags; `login-meta` has one for each of its entries. */
export type FileValues = ReadonlyMap<string, readonly string[]>;

type Json = Readonly<Record<string, unknown>>;

const BY_KEY = new Map(SETTINGS.flatMap((one) => one.keys.map((key) => [key, one] as const)));
const SECTIONS = new Set([...BY_KEY.keys()].flatMap((key) => {
  const parts = key.split(".");
  return parts.slice(1).map((_part, at) => parts.slice(0, at + 1).join("."));
}));

/** `file`: its name for errors. Throws `config_invalid` for an unknown key. */
export function readConfigFile(text: string, file: string): FileValues {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // The engine's message quotes the text, and there may be a token in it.
    throw invalid(file, "it is no JSON");
  }
  if (!isObject(json)) throw invalid(file, "it must hold one object");
  const values = new Map<string, readonly string[]>();
  const walk = (section: Json, prefix: string): void => {
    for (const [name, value] of Object.entries(section)) {
      const key = `${prefix}${name}`;
      // In Go, null leaves the field as if it were not given.
      if (value === null) continue;
      const setting = BY_KEY.get(key);
      if (setting) values.set(setting.name, textsOf(setting, { key, value, file }));
      else if (!SECTIONS.has(key)) throw unknown(key, file);
      else if (isObject(value)) walk(value, `${key}.`);
      else throw invalid(file, `${quote(key)} must be an object`);
    }
  };
  walk(json, "");
  return values;
}

function textsOf({ kind, inFile }: FlagSpec, { key, value, file }: {
  readonly key: string;
  readonly value: unknown;
  readonly file: string;
}): string[] {
  const want = inFile ?? (kind === "switch" ? "boolean" : "string");
  const type = typeof value;
  if (want === "map") {
    if (!isObject(value)) throw invalid(file, `${quote(key)} must be an object`);
    return Object.entries(value).map(([name, entry]) => {
      if (typeof entry === "string") return `${name}=${entry}`;
      throw invalid(file, `${quote(`${key}.${name}`)} must be a string`);
    });
  }
  if (want === "duration" && type === "number") return [`${value}ns`];
  if (type === (want === "duration" ? "string" : want)) return [String(value)];
  const wanted = want === "duration" ? "a string or a number of nanoseconds" : `a ${want}`;
  throw invalid(file, `${quote(key)} must be ${wanted}`);
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function unknown(key: string, file: string): ProxyError {
  const near = nearest(key, [...BY_KEY.keys(), ...SECTIONS]);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  return invalid(file, `there is no key ${quote(key)}${hint}`);
}

function invalid(file: string, fact: string): ProxyError {
  return new ProxyError("config_invalid", `Cannot use -config-file ${quote(file)}: ${fact}`);
}
