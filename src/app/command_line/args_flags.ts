/**
 * Flags as Go programs take them: `-x` and `--x` are the same, `-x=v` and `-x v` too; a switch takes a
 * value only with `=`; `--` ends the flags. What a flag means is said by its table, not here.
 *
 * @module
 */

import { nearest, ProxyError } from "../../base/mod.ts";

export interface FlagSpec {
  readonly name: string;
  /** `switch`: on or off. `list`: may be repeated; of the others the last one counts. */
  readonly kind: "text" | "switch" | "list";
  /** How help calls the value: `ADDRESS`. */
  readonly value?: string;
  /** Environment variable that gives the value where the flag is not given. */
  readonly env?: string;
  /** Shown by help. */
  readonly byDefault?: string;
  readonly help: string;
}

export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly FlagSpec[];
}

export interface ParseFlagsOptions {
  /** How errors name the command: `postern proxy`. */
  readonly command: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Says what to do instead, for a flag that is known but not taken here. */
  readonly replaced?: (name: string) => string | undefined;
  /** What stands alone, as the first argument, the second: the names that such values have. */
  readonly bare?: readonly string[];
}

const TRUE = new Set(["1", "t", "T", "true", "TRUE", "True"]);
const FALSE = new Set(["0", "f", "F", "false", "FALSE", "False"]);

/** The values that were given, by flag or else by environment. */
export class FlagValues {
  readonly #given: ReadonlyMap<string, readonly string[]>;
  readonly #specs: ReadonlyMap<string, FlagSpec>;
  readonly #env: Readonly<Record<string, string | undefined>>;
  /** `-help` or `-h` was among the flags. */
  readonly helpWanted: boolean;

  constructor(
    given: ReadonlyMap<string, readonly string[]>,
    specs: ReadonlyMap<string, FlagSpec>,
    options: {
      readonly env: Readonly<Record<string, string | undefined>>;
      readonly helpWanted: boolean;
    },
  ) {
    this.#given = given;
    this.#specs = specs;
    this.#env = options.env;
    this.helpWanted = options.helpWanted;
  }

  /** Was it on the command line, whatever its value? */
  given(name: string): boolean {
    return this.#given.has(name);
  }

  /** The value; an empty one counts as none, but hides the environment's. */
  text(name: string): string | undefined {
    const values = this.#given.get(name);
    const value = values ? values.at(-1) : this.#fromEnv(name);
    if (value !== undefined) refuseControlCharacters(this.origin(name), value);
    return value === "" ? undefined : value;
  }

  on(name: string): boolean {
    return readSwitch(this.text(name) ?? "false") ?? false;
  }

  list(name: string): readonly string[] {
    return this.#given.get(name) ?? [];
  }

  /** How to name where a value came from: `-proxy-id`, or `CONNECT_PROXY_ID`. */
  origin(name: string): string {
    const env = this.#specs.get(name)?.env;
    return this.given(name) || env === undefined ? `-${name}` : env;
  }

  #fromEnv(name: string): string | undefined {
    const env = this.#specs.get(name)?.env;
    return env === undefined ? undefined : this.#env[env];
  }
}

/** Reads `argv`; throws `usage` for anything that is not a flag of `groups` with a proper value. */
export function parseFlags(
  argv: readonly string[],
  groups: readonly FlagGroup[],
  options: ParseFlagsOptions,
): FlagValues {
  const specs = new Map(groups.flatMap(({ flags }) => flags.map((flag) => [flag.name, flag])));
  const given = new Map<string, string[]>();
  let helpWanted = false;
  for (let index = 0; index < argv.length; index++) {
    const word = argv[index] ?? "";
    if (word === "--" && index + 1 === argv.length) break;
    const match = /^--?([^-=][^=]*)(?:=([^]*))?$/.exec(word);
    const bare = options.bare?.find((name) => !given.has(name));
    if (!match && bare !== undefined && !word.startsWith("-")) {
      refuseControlCharacters("the argument", word);
      given.set(bare, [word]);
      continue;
    }
    if (!match || word === "--") {
      throw notAFlag(word === "--" ? argv[index + 1] ?? "" : word, [...specs.keys()], options);
    }
    const [, name = "", inline] = match;
    if (name === "h" || name === "help") {
      helpWanted = true;
      continue;
    }
    const spec = specs.get(name);
    if (!spec) throw unknownFlag(name, [...specs.keys()], options);
    let value = inline;
    if (spec.kind === "switch") {
      value ??= "true";
      if (readSwitch(value) === undefined) {
        throw new ProxyError("usage", `Cannot read -${name}=${quote(value)}: want true or false`);
      }
    } else if (value === undefined) {
      value = argv[++index];
      if (value === undefined) {
        throw new ProxyError(
          "usage",
          `Cannot read -${name}: it needs a value, ${spec.value ?? ""}`,
        );
      }
    }
    refuseControlCharacters(`-${name}`, value);
    const earlier = given.get(name);
    if (earlier) earlier.push(value);
    else given.set(name, [value]);
  }
  return new FlagValues(given, specs, { env: options.env, helpWanted });
}

/** A value shown in an error: quoted, one line, not longer than a person reads. */
export function quote(value: string): string {
  const text = JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}...` : value);
  // What JSON leaves and a terminal obeys: DEL, C1 controls, line separators, changes of direction.
  return text.replace(
    /[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** No value of ours has any, and they would end up in paths, headers and log lines. */
export function refuseControlCharacters(origin: string, value: string): void {
  // deno-lint-ignore no-control-regex -- that is what is looked for
  if (!/[\x00-\x1f\x7f]/.test(value)) return;
  throw new ProxyError("usage", `Cannot read ${origin}: its value holds a control character`);
}

function readSwitch(value: string): boolean | undefined {
  if (TRUE.has(value)) return true;
  return FALSE.has(value) ? false : undefined;
}

function notAFlag(
  word: string,
  names: readonly string[],
  options: ParseFlagsOptions,
): ProxyError {
  const meant = word.endsWith(".json") && names.includes("config")
    ? "-config FILE"
    : names.includes(word) && `-${word}`;
  const hint = meant ? `did you mean ${meant}?` : `see "${options.command} -help"`;
  return new ProxyError(
    "usage",
    `Cannot take the argument ${quote(word)}: ${options.command} takes only flags; ${hint}`,
  );
}

function unknownFlag(
  name: string,
  names: readonly string[],
  options: ParseFlagsOptions,
): ProxyError {
  const instead = options.replaced?.(name);
  if (instead !== undefined) {
    return new ProxyError("usage", `Cannot take the flag -${name}: ${instead}`);
  }
  const near = nearest(name, names);
  const shown = quote(name).slice(1, -1);
  const hint = near === undefined ? `see "${options.command} -help"` : `did you mean -${near}?`;
  return new ProxyError("usage", `Cannot take the flag -${shown}: there is none; ${hint}`);
}
