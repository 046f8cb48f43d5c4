/** The filter language of Consul's list endpoints and of subsets. @module */

import { isEmpty, isObject, type JsonValue } from "./json.ts";
import { HttpRefusal } from "./refusal.ts";

export type Filter = (value: JsonValue) => boolean;

const LIMIT_CHARS = 4_096;
const LIMIT_DEPTH = 64;

/** Parses an expression; `""` fits everything. Throws a {@link HttpRefusal} that shows where it goes wrong. */
export function parseFilter(text: string): Filter {
  if (text === "") return () => true;
  if (text.length > LIMIT_CHARS) {
    throw new HttpRefusal(400, "Cannot read the filter: it is too long");
  }
  return new Parser(text).parse();
}

interface Token {
  readonly kind: "sign" | "quoted" | "word" | "end";
  readonly text: string;
  readonly at: number;
}

/** A word may end with a map key in brackets. */
const TOKEN =
  /\s*(?:(?<sign>==|!=|[()])|"(?<quoted>(?:[^"\\]|\\.)*)"|`(?<raw>[^`]*)`|(?<word>[\w./-]+(?:\[\s*(?:"[^"]*"|`[^`]*`)\s*\][\w./-]*)*))/y;

function tokensOf(text: string): readonly Token[] {
  const tokens: Token[] = [];
  for (let at = 0;;) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    if (!found) return [...tokens, { kind: "end", text: text.slice(at).trim(), at }];
    const { sign, quoted, raw, word = "" } = found.groups ?? {};
    if (sign !== undefined) tokens.push({ kind: "sign", text: sign, at });
    else if (quoted !== undefined) tokens.push({ kind: "quoted", text: unescaped(quoted), at });
    else if (raw !== undefined) tokens.push({ kind: "quoted", text: raw, at });
    else tokens.push({ kind: "word", text: word, at });
    at += found[0].length;
  }
}

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = tokensOf(text);
  }

  parse(): Filter {
    const filter = this.#or(0);
    const last = this.#token;
    if (last.kind !== "end" || last.text !== "") throw this.#unexpected();
    return filter;
  }

  get #token(): Token {
    return this.#tokens[this.#at] ?? { kind: "end", text: "", at: 0 };
  }

  #or(depth: number): Filter {
    const parts = [this.#and(depth)];
    while (this.#take("or")) parts.push(this.#and(depth));
    return (value) => parts.some((part) => part(value));
  }

  #and(depth: number): Filter {
    const parts = [this.#not(depth)];
    while (this.#take("and")) parts.push(this.#not(depth));
    return (value) => parts.every((part) => part(value));
  }

  #not(depth: number): Filter {
    if (depth > LIMIT_DEPTH) {
      throw new HttpRefusal(400, "Cannot read the filter: it is nested too deeply");
    }
    if (this.#take("not")) return opposite(this.#not(depth + 1));
    if (!this.#take("(")) return this.#match();
    const inner = this.#or(depth + 1);
    if (!this.#take(")")) throw this.#unexpected();
    return inner;
  }

  #match(): Filter {
    const operand = this.#token;
    if (operand.kind === "sign" || operand.kind === "end") throw this.#unexpected();
    this.#at++;
    if (this.#take("in")) return contains(this.#selector(), operand.text);
    if (this.#take("not", "in")) return opposite(contains(this.#selector(), operand.text));
    this.#at--;
    const selector = this.#selector();
    if (this.#take("is", "empty")) return (value) => isEmpty(valueAt(value, selector));
    if (this.#take("is", "not", "empty")) return (value) => !isEmpty(valueAt(value, selector));
    if (this.#take("==")) return equals(selector, this.#operand());
    if (this.#take("!=")) return opposite(equals(selector, this.#operand()));
    if (this.#take("contains")) return contains(selector, this.#operand());
    if (this.#take("not", "contains")) return opposite(contains(selector, this.#operand()));
    if (this.#take("matches")) return matches(selector, this.#operand());
    if (this.#take("not", "matches")) return opposite(matches(selector, this.#operand()));
    throw this.#unexpected();
  }

  #selector(): readonly string[] {
    const { kind, text } = this.#token;
    if (kind !== "word" || !/^[a-zA-Z]/.test(text)) throw this.#unexpected();
    this.#at++;
    return [...text.matchAll(/\.?([\w/-]+)|\[\s*["`]([^"`]*)["`]\s*\]/g)]
      .map(([, name, key]) => name ?? key ?? "");
  }

  #operand(): string {
    const { kind, text } = this.#token;
    if (kind !== "word" && kind !== "quoted") throw this.#unexpected();
    this.#at++;
    return text;
  }

  /** Takes all of these signs and words, or none. */
  #take(...words: readonly string[]): boolean {
    const isHere = words.every((word, index) => {
      const { kind, text = "" } = this.#tokens[this.#at + index] ?? {};
      return (kind === "word" || kind === "sign") && text.toLowerCase() === word;
    });
    if (isHere) this.#at += words.length;
    return isHere;
  }

  #unexpected(): HttpRefusal {
    const { text, at } = this.#token;
    const found = text === "" ? "it ends" : `${JSON.stringify(text)} is not expected`;
    return new HttpRefusal(400, `Cannot read the filter: ${found} at ${at}`);
  }
}

function opposite(filter: Filter): Filter {
  return (value) => !filter(value);
}

function contains(selector: readonly string[], text: string): Filter {
  return (root) => {
    const value = valueAt(root, selector);
    if (isObject(value)) return Object.hasOwn(value, text);
    return (typeof value === "string" || Array.isArray(value)) && value.includes(text);
  };
}

/** An absent field counts as empty, since empty ones are left out; an absent key of a map equals nothing. */
const MAPS = ["Meta", "ServiceMeta", "NodeMeta", "TaggedAddresses"];

function equals(selector: readonly string[], text: string): Filter {
  const isMapKey = MAPS.includes(selector.at(-2) ?? "");
  return (root) => {
    const value = valueAt(root, selector);
    if (value === undefined) return !isMapKey && text === "";
    return typeof value === "number" ? Number(text) === value : String(value ?? "") === text;
  };
}

function matches(selector: readonly string[], pattern: string): Filter {
  let expression: RegExp | undefined;
  try {
    expression = goPattern(pattern);
  } catch {
    // A pattern that JavaScript cannot read matches nothing.
  }
  return (root) => {
    const value = valueAt(root, selector);
    return typeof value === "string" && expression?.test(value) === true;
  };
}

function valueAt(root: JsonValue, selector: readonly string[]): JsonValue | undefined {
  return selector.reduce<JsonValue | undefined>(
    (value, part) => isObject(value) ? value[part] : undefined,
    root,
  );
}

const CONTROLS: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

/** A text as Go writes it between double quotes. */
function unescaped(text: string): string {
  return text.replace(
    /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|(.))/gi,
    (_all, byte?: string, unit?: string, char = "") => {
      const code = byte ?? unit;
      return code === undefined ? CONTROLS[char] ?? char : String.fromCharCode(parseInt(code, 16));
    },
  );
}

/** Converts Go's notation to JavaScript's: flags at the start, characters by number. */
function goPattern(text: string): RegExp {
  const [start = "", flags = ""] = /^\(\?([ims]+)\)/.exec(text) ?? [];
  const pattern = text.slice(start.length).replace(/\\x\{([0-9a-f]+)\}/gi, "\\u{$1}");
  return new RegExp(pattern, `${flags}u`);
}
