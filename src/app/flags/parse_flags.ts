/** Flags as Go takes them: `-x v`, `--x=v`; a switch takes a value only with `=`. @module */

import { nearest, ProxyError } from "../../base/mod.ts";

type Env = Readonly<Record<string, string | undefined>>;

interface ParseFlagsOptions {
  /** Name of the command in errors: `postern proxy`. */
  readonly command: string;
  readonly env: Env;
  /** The replacement of a flag that this command does not take, for the error. */
  readonly replaced?: (name: string) => string | undefined;
  /** Names of the arguments that are not flags, in their order. */
  readonly bare?: readonly string[];
}

const TRUE = new Set(["1", "t", "T", "true", "TRUE", "True"]);
const FALSE = new Set(["0", "f", "F", "false", "FALSE", "False"]);

export class FlagValues {
  readonly #given: ReadonlyMap<string, readonly string[]>;
  readonly #specs: ReadonlyMap<string, FlagSpec>;
  readonly #env: Env;
  /** `-help` or `-h` was among the flags. */
  readonly helpWanted: boolean;

  constructor(
    given: ReadonlyMap<string, readonly string[]>,
    specs: ReadonlyMap<string, FlagSpec>,
    { env, helpWanted }: { readonly env: Env; readonly helpWanted: boolean },
  ) {
    this.#given = given;
    this.#specs = specs;
    this.#env = env;
    this.helpWanted = helpWanted;
  }

  get env(): Env {
    return this.#env;
  }

  /** The flag was on the command line, with any value. */
  given(name: string): boolean {
    return this.#given.has(name);
  }

  /** The value; an empty flag counts as not given, but hides the variable. */
  text(name: string): string | undefined {
    const values = this.#given.get(name);
    const value = values ? values.at(-1) : this.#fromEnv(name);
    if (value !== undefined) refuseControlCharacters(this.origin(name), value);
    return value === "" ? undefined : value;
  }

  on(name: string): boolean {
    return readSwitch(this.text(name) ?? "false") ?? false;
  }

  /** The default that the flag's table has; it may be a sentence. */
  byDefault(name: string): string | undefined {
    return this.#specs.get(name)?.byDefault;
  }

  list(name: string): readonly string[] {
    return this.#given.get(name) ?? [];
  }

  /** The name of a value's origin: `-proxy-id`, or `CONNECT_PROXY_ID`. */
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
        throw usage(`Cannot read -${name}=${quote(value)}: want true or false`);
      }
    } else if (value === undefined) {
      value = argv[++index];
      if (value === undefined) {
        throw usage(`Cannot read -${name}: it needs a value, ${spec.value ?? ""}`);
      }
    }
    refuseControlCharacters(`-${name}`, value);
    const earlier = given.get(name);
    if (earlier) earlier.push(value);
    else given.set(name, [value]);
  }
  return new FlagValues(given, specs, { env: options.env, helpWanted });
}

/** A value for an error: quoted, on one line, and not too long to read. */
export function quote(value: string): string {
  const text = JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}...` : value);
  // Characters that JSON keeps and a terminal obeys: DEL, C1, line separators, changes of direction.
  return text.replace(
    /[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Control characters are in no valid value, and would end up in paths, headers and log lines. */
export function refuseControlCharacters(origin: string, value: string): void {
  // deno-lint-ignore no-control-regex -- the pattern looks for them
  if (!/[\x00-\x1f\x7f]/.test(value)) return;
  throw usage(`Cannot read ${origin}: its value holds a control character`);
}

function readSwitch(value: string): boolean | undefined {
  if (TRUE.has(value)) return true;
  return FALSE.has(value) ? false : undefined;
}

function notAFlag(word: string, names: readonly string[], options: ParseFlagsOptions): ProxyError {
  const meant = /\.(?:json|ya?ml)$/.test(word) && names.includes("config")
    ? "-config FILE"
    : names.includes(word) && `-${word}`;
  const hint = meant ? `did you mean ${meant}?` : `see "${options.command} -help"`;
  return usage(
    `Cannot take the argument ${quote(word)}: ${options.command} takes only flags; ${hint}`,
  );
}

function unknownFlag(
  name: string,
  names: readonly string[],
  options: ParseFlagsOptions,
): ProxyError {
  const instead = options.replaced?.(name);
  if (instead !== undefined) return usage(`Cannot take the flag -${name}: ${instead}`);
  const near = nearest(name, names);
  const hint = near === undefined ? `see "${options.command} -help"` : `did you mean -${near}?`;
  return usage(`Cannot take the flag -${quote(name).slice(1, -1)}: there is none; ${hint}`);
}

export interface FlagSpec {
  readonly name: string;
  /** `switch`: on or off. `list`: may be repeated; for the other kinds the last value counts. */
  readonly kind: "text" | "switch" | "list";
  /** Name of the value in help: `ADDRESS`, or all values there are: `allow|deny`. */
  readonly value?: string;
  /** All values there are, for completion; the reader of the value decides. */
  readonly choices?: readonly string[];
  /** Environment variable that gives the value where the flag is not given. */
  readonly env?: string;
  /** Keys in a configuration file, with dots: `consul.tls.disabled`. The first one is shown in errors. */
  readonly keys: readonly string[];
  /** Type of the value in the file; absent: a boolean for a switch, a string for other kinds. */
  readonly inFile?: "number" | "duration" | "map";
  /** Shown by help; the readers of values use it, too. */
  readonly byDefault?: string;
  readonly help: string;
}

export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly FlagSpec[];
}

const NAME = /^-(\S+)(?: ([^\s[{(]\S*))?( \.\.\.)?(?=\s)/;
const CHOICES = /^[a-z]+(?:\|[a-z]+)*$/;
const PARTS =
  /^(?: \[\$(\w+)\])?(?: \{([\w.|]+)(?: (number|duration|map))?\})?(?: \(default: ([^)]+)\))?/;

export function readFlagTable(table: string): readonly FlagGroup[] {
  return table.trim().split(/\n(?=\S)/).map((group) => {
    const [title = "", ...flags] = group.split(/\n {2}(?=-)/);
    return { title, flags: flags.map(readRow) };
  });
}

function readRow(row: string): FlagSpec {
  const [head = "", name = "", value, repeated] = NAME.exec(row) ?? [];
  const rest = row.slice(head.length).replace(/\s+/g, " ");
  const [parts = "", env, keys, inFile, byDefault] = PARTS.exec(rest) ?? [];
  const kind = repeated ? "list" : value === undefined ? "switch" : "text";
  return {
    name,
    kind,
    ...(value !== undefined && { value }),
    ...(value !== undefined && CHOICES.test(value) && { choices: value.split("|") }),
    ...(env !== undefined && { env }),
    keys: keys?.split("|") ?? [],
    ...(inFile !== undefined && { inFile: inFile as FlagSpec["inFile"] & string }),
    ...(byDefault !== undefined && { byDefault }),
    help: rest.slice(parts.length).trim(),
  };
}

export function usage(message: string): ProxyError {
  return new ProxyError("usage", message);
}
