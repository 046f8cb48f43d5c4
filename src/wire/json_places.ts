/**
 * Where things are in a JSON text: line and column of every member, of the first error, and of a key
 * that is written twice, of which a parser silently takes the last.
 *
 * @module
 */

export interface Place {
  readonly line: number;
  readonly column: number;
}

export type JsonPlaces =
  | {
    readonly kind: "valid";
    readonly value: unknown;
    /** Of a value by its path, else of the nearest value around it. */
    placeOf(path: readonly (string | number)[]): Place;
    readonly duplicates: readonly { readonly path: readonly (string | number)[] }[];
  }
  | { readonly kind: "invalid"; readonly reason: string; readonly place: Place };

/** Deeper nesting is an error; no configuration of ours comes near. */
const DEPTH_LIMIT = 32;
const ESCAPE = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

type Path = readonly (string | number)[];

export function readJson(text: string): JsonPlaces {
  const scanner = new Scanner(text);
  const fault = scanner.scan();
  if (fault) return { kind: "invalid", reason: fault, place: placeAt(text, scanner.offset) };
  return {
    kind: "valid",
    value: JSON.parse(text),
    duplicates: scanner.duplicates,
    placeOf(path) {
      for (let length = path.length; length > 0; length--) {
        const offset = scanner.offsets.get(keyOf(path.slice(0, length)));
        if (offset !== undefined) return placeAt(text, offset);
      }
      return placeAt(text, 0);
    },
  };
}

class Scanner {
  readonly offsets = new Map<string, number>();
  readonly duplicates: { readonly path: Path }[] = [];
  offset = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** What is wrong at `offset`; `undefined`: nothing. */
  scan(): string | undefined {
    const fault = this.#value([]);
    if (fault) return fault;
    this.#space();
    return this.offset < this.#text.length ? "expected the end of the text" : undefined;
  }

  #value(path: Path): string | undefined {
    this.#space();
    if (path.length > DEPTH_LIMIT) return `it is nested more than ${DEPTH_LIMIT} levels deep`;
    // A key's place is kept where there is one: that is where people look.
    if (!this.offsets.has(keyOf(path))) this.offsets.set(keyOf(path), this.offset);
    switch (this.#text[this.offset]) {
      case "{":
        return this.#members("}", () => this.#member(path));
      case "[":
        return this.#members("]", (index) => this.#value([...path, index]));
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

  #member(path: Path): string | undefined {
    this.#space();
    const start = this.offset;
    const quoted = this.#string();
    if (quoted === undefined) return "expected a key in double quotes";
    const member = [...path, JSON.parse(quoted) as string];
    const key = keyOf(member);
    if (this.offsets.has(key)) this.duplicates.push({ path: member });
    this.offsets.set(key, start);
    this.#space();
    if (!this.#skip(":")) return 'expected ":"';
    return this.#value(member);
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

function keyOf(path: Path): string {
  return JSON.stringify(path);
}

function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset);
  const line = before.split("\n").length;
  return { line, column: offset - before.lastIndexOf("\n") };
}
