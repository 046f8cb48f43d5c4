/**
 * JSON from outside: its cost in memory is bounded before it is parsed, because a few megabytes of brackets
 * become some hundred megabytes of empty lists; and the line and column of members, errors and duplicate keys.
 *
 * @module
 */

/** Far deeper than any reply of Consul. */
const DEPTH_LIMIT = 64;
/** Lists and objects of a text; one of eight characters holds something already. */
const FEW_CONTAINERS = 1_024;
const CHARACTERS_PER_CONTAINER = 8;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Throws a SyntaxError; for an exceeded bound its message quotes nothing. */
export function parseJson(text: string): unknown {
  const fault = jsonCost(text);
  if (fault !== undefined) throw new SyntaxError(fault);
  return JSON.parse(text);
}

/** The bound that the text exceeds; undefined: none, whether it is JSON or not. */
export function jsonCost(text: string): string | undefined {
  const most = FEW_CONTAINERS + text.length / CHARACTERS_PER_CONTAINER;
  let depth = 0;
  let containers = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = stringEnd(text, at);
        break;
      case OPEN_LIST:
      case OPEN_OBJECT:
        if (++depth > DEPTH_LIMIT) return "it is nested too deeply";
        if (++containers > most) return "it has too many lists and objects";
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth--;
    }
  }
  return undefined;
}

/** End of the string that begins there; a string without an end takes the rest of the text. */
function stringEnd(text: string, at: number): number {
  let end = text.indexOf('"', at + 1);
  while (end > 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++;
  return backslashes % 2 === 1;
}

export interface JsonPosition {
  readonly line: number;
  readonly column: number;
}

export type JsonPositions =
  | {
    readonly kind: "valid";
    readonly value: unknown;
    /** Position of a value by its path, else of the nearest value around it. */
    placeOf(path: readonly (string | number)[]): JsonPosition;
    readonly duplicates: readonly { readonly path: readonly (string | number)[] }[];
  }
  | { readonly kind: "invalid"; readonly reason: string; readonly place: JsonPosition };

/** Deeper nesting of a text with positions is an error; no configuration of ours comes near. */
const CONFIG_DEPTH_LIMIT = 32;
/** Reported duplicate keys; one is enough to refuse a text. */
const DUPLICATE_LIMIT = 100;
const ESCAPE = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

type Path = readonly (string | number)[];

/**
 * The text with a space in place of each character of a comment, of a line or of a block as in JavaScript, so
 * that positions stay. A block without an end stays, and is an error of the JSON.
 */
export function withoutComments(text: string): string {
  let kept = "";
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) === QUOTE) {
      at = stringEnd(text, at);
      continue;
    }
    const mark = text.slice(at, at + 2);
    if (mark !== "//" && mark !== "/*") continue;
    const found = mark === "//" ? text.indexOf("\n", at) : text.indexOf("*/", at + 2);
    if (mark === "/*" && found < 0) break;
    const end = found < 0 ? text.length : mark === "//" ? found : found + 2;
    kept += text.slice(from, at) + text.slice(at, end).replace(/[^\r\n]/g, " ");
    from = end;
    at = end - 1;
  }
  return kept + text.slice(from);
}

export function readJson(text: string): JsonPositions {
  const scanner = new Scanner(text);
  const fault = scanner.scan();
  if (fault) return { kind: "invalid", reason: fault, place: placeAt(text, scanner.offset) };
  const cost = jsonCost(text);
  if (cost) return { kind: "invalid", reason: cost, place: placeAt(text, 0) };
  return {
    kind: "valid",
    value: JSON.parse(text),
    duplicates: scanner.duplicates,
    // Parsed again: few positions are ever needed, and to keep all would take more memory than the text.
    placeOf(path) {
      const search = new Scanner(text, path);
      search.scan();
      return placeAt(text, search.found);
    },
  };
}

/**
 * Offset of the first JSON error, or of a value that is nested too deep; without one, the length of the
 * text. Replaces the engines' messages for texts that may contain private keys, because those messages
 * quote the text around an error.
 */
export function locateJsonError(text: string): number {
  const scanner = new Scanner(text);
  scanner.scan();
  return scanner.offset;
}

class Scanner {
  readonly duplicates: { readonly path: Path }[] = [];
  offset = 0;
  /** Position of `wanted`, or of the nearest value around it. */
  found = 0;
  readonly #text: string;
  readonly #wanted: Path;
  readonly #path: (string | number)[] = [];
  /** Length of the common start of {@link #path} and `wanted`, now and at {@link found}. */
  #fitting = 0;
  #nearest = 1;

  constructor(text: string, wanted: Path = []) {
    this.#text = text;
    this.#wanted = wanted;
  }

  /** The error at `offset`; `undefined`: none. */
  scan(): string | undefined {
    const fault = this.#value();
    if (fault) return fault;
    this.#space();
    return this.offset < this.#text.length ? "expected the end of the text" : undefined;
  }

  #value(): string | undefined {
    this.#space();
    if (this.#path.length > CONFIG_DEPTH_LIMIT) {
      return `it is nested more than ${CONFIG_DEPTH_LIMIT} levels deep`;
    }
    switch (this.#text[this.offset]) {
      case "{": {
        const keys = new Set<string>();
        return this.#members("}", () => this.#member(keys));
      }
      case "[":
        return this.#members("]", (index) => this.#item(index));
      case '"':
        return this.#string() === undefined ? "the string is not valid" : undefined;
      default:
        return this.#take(SCALAR) === undefined ? "expected a value" : undefined;
    }
  }

  #members(end: string, one: (index: number) => string | undefined): string | undefined {
    this.offset++;
    this.#space();
    if (this.#skip(end)) return undefined;
    for (let index = 0;; index++) {
      const fault = one(index);
      if (fault) return fault;
      this.#space();
      if (this.#skip(end)) return undefined;
      if (!this.#skip(",")) return `expected "," or "${end}"`;
    }
  }

  #member(keys: Set<string>): string | undefined {
    this.#space();
    const start = this.offset;
    const quoted = this.#string();
    if (quoted === undefined) return "expected a key in double quotes";
    const key = JSON.parse(quoted) as string;
    if (keys.has(key) && this.duplicates.length < DUPLICATE_LIMIT) {
      this.duplicates.push({ path: [...this.#path, key] });
    }
    keys.add(key);
    this.#space();
    if (!this.#skip(":")) return 'expected ":"';
    // The position of the key, not of its value: people look for the key.
    return this.#below(key, start);
  }

  #item(index: number): string | undefined {
    this.#space();
    return this.#below(index, this.offset);
  }

  #below(part: string | number, start: number): string | undefined {
    const depth = this.#path.push(part);
    const fits = this.#fitting === depth - 1 && this.#wanted[depth - 1] === part;
    if (fits) {
      this.#fitting = depth;
      // The last one of duplicate keys counts, as in parsers.
      if (depth >= this.#nearest) {
        this.#nearest = depth;
        this.found = start;
      }
    }
    const fault = this.#value();
    this.#path.pop();
    if (fits) this.#fitting = depth - 1;
    return fault;
  }

  /** The string as written. A loop, since an expression for it overflows the stack on long ones. */
  #string(): string | undefined {
    if (this.#text[this.offset] !== '"') return undefined;
    const start = this.offset++;
    while (this.offset < this.#text.length) {
      const char = this.#text[this.offset] ?? "";
      if (char < " ") return undefined;
      this.offset++;
      if (char === '"') return this.#text.slice(start, this.offset);
      if (char === "\\" && this.#take(ESCAPE) === undefined) return undefined;
    }
    return undefined;
  }

  #space(): void {
    while (" \t\r\n".includes(this.#text[this.offset] ?? "x")) this.offset++;
  }

  #skip(char: string): boolean {
    if (this.#text[this.offset] !== char) return false;
    this.offset++;
    return true;
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.offset;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.offset += found.length;
    return found;
  }
}

function placeAt(text: string, offset: number): JsonPosition {
  const before = text.slice(0, offset);
  const line = before.split("\n").length;
  return { line, column: offset - before.lastIndexOf("\n") };
}
