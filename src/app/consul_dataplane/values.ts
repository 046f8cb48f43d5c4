/** Values of `postern dataplane`: flags, then variables, then the configuration file. @module */

import {
  type FlagSpec,
  type FlagValues,
  parseFlags,
  quote,
  refuseControlCharacters,
  usage,
} from "../flags/parse_flags.ts";
import { readFileSync, statSync } from "node:fs";
import { messageOf, nearest, ProxyError } from "../../base/mod.ts";
import { readPairs } from "../flags/read_values.ts";
import { DATAPLANE_FLAGS, SETTINGS } from "./flags.ts";

type Env = Readonly<Record<string, string | undefined>>;

const FILE_LIMIT_BYTES = 1 << 20;
const TRUE = /^(?:1|t|true)$/i;
const FALSE = /^(?:0|f|false)$/i;
const KEYS = new Map(SETTINGS.map(({ name, keys }) => [name, keys[0] ?? ""]));

export interface DataplaneWords {
  readonly flags: FlagValues;
  /** Words after `--`, for Envoy. */
  readonly forEnvoy: readonly string[];
}

export function parseDataplane(argv: readonly string[], env: Env): DataplaneWords {
  const end = argv.indexOf("--");
  const own = end < 0 ? argv : argv.slice(0, end);
  const flags = parseFlags(own, DATAPLANE_FLAGS, { command: "postern dataplane", env });
  return { flags, forEnvoy: end < 0 ? [] : argv.slice(end + 1) };
}

/** `readText` reads a whole file, within its bounds. */
export function dataplaneValues(
  flags: FlagValues,
  env: Env,
  readText: (path: string, flag: string) => string,
): DataplaneValues {
  const file = flags.text("config-file");
  if (file === undefined) return new DataplaneValues(flags, env, new Map());
  if (!file.endsWith(".json")) {
    throw usage(`Cannot use -config-file ${quote(file)}: want a .json file`);
  }
  return new DataplaneValues(flags, env, readConfigFile(readText(file, "-config-file"), file));
}

/** The whole file that a flag names. Throws `config_invalid`, naming the flag. */
export function readText(path: string, flag: string): string {
  try {
    if (statSync(path).size > FILE_LIMIT_BYTES) {
      throw new Error(`it is longer than ${FILE_LIMIT_BYTES} bytes`);
    }
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new ProxyError(
      "config_invalid",
      `Cannot read ${flag} ${JSON.stringify(path)}: ${messageOf(cause)}`,
      { cause },
    );
  }
}

export class DataplaneValues {
  readonly #flags: FlagValues;
  readonly #env: Env;
  readonly #file: FileValues;

  constructor(flags: FlagValues, env: Env, file: FileValues) {
    this.#flags = flags;
    this.#env = env;
    this.#file = file;
  }

  /** {@link FlagValues.text}, or else the value of the file. */
  text(name: string): string | undefined {
    const given = this.#flags.text(name);
    if (given !== undefined) return given;
    const value = this.#file.get(name)?.[0];
    if (value !== undefined) refuseControlCharacters(this.origin(name), value);
    return value === "" ? undefined : value;
  }

  byDefault(name: string): string | undefined {
    return this.#flags.byDefault(name);
  }

  on(name: string): boolean {
    const text = this.text(name) ?? this.byDefault(name) ?? "false";
    if (TRUE.test(text)) return true;
    if (FALSE.test(text)) return false;
    throw usage(`Cannot read ${this.origin(name)} ${quote(text)}: want true or false`);
  }

  /** `-login-meta`, added to the entries of variables and the file. */
  meta(): Readonly<Record<string, string>> {
    const numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    const pairs = [
      ...this.#file.get("login-meta") ?? [],
      ...numbers.map((n) => this.#env[`DP_CREDENTIAL_LOGIN_META${n}`] ?? "").filter(Boolean),
      ...this.#flags.list("login-meta"),
    ];
    for (const pair of pairs) refuseControlCharacters("-login-meta", pair);
    return readPairs(pairs, "-login-meta");
  }

  /** The name of a value's origin: flag, variable, or key of the file. */
  origin(name: string): string {
    const inFile = this.#flags.text(name) === undefined && this.#file.has(name);
    return inFile ? `${KEYS.get(name)} of -config-file` : this.#flags.origin(name);
  }
}

/** Values by the names of flags; `login-meta` has one for each of its entries. */
type FileValues = ReadonlyMap<string, readonly string[]>;

type Json = Readonly<Record<string, unknown>>;

const BY_KEY = new Map(SETTINGS.flatMap((one) => one.keys.map((key) => [key, one] as const)));
const SECTIONS = new Set([...BY_KEY.keys()].flatMap((key) => {
  const parts = key.split(".");
  return parts.slice(1).map((_part, at) => parts.slice(0, at + 1).join("."));
}));

/** `file`: its name for errors. Throws `config_invalid` for an unknown key. */
function readConfigFile(text: string, file: string): FileValues {
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
