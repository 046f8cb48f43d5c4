/**
 * The filter language of Consul's list endpoints, as far as subsets and clients use it: comparisons,
 * `in`, `contains`, `is empty`, `matches`, joined by and, or, not and parentheses.
 *
 * @module
 */

import { isObject, type Json } from "./decode.ts";
import { isEmpty } from "../catalog/records.ts";

export type Bexpr =
  | { readonly kind: "and" | "or"; readonly left: Bexpr; readonly right: Bexpr }
  | { readonly kind: "not"; readonly of: Bexpr }
  | {
    readonly kind: "match";
    readonly operator: "equal" | "in" | "empty" | "matches";
    readonly selector: readonly string[];
    readonly value: string;
  };

/** Fields that a selector may name; `true` for a leaf, list or map, where anything below is fine. */
export interface Known {
  readonly [field: string]: true | Known;
}

const MAX_LENGTH = 4096;
const MAX_DEPTH = 64;

/** Parses an expression. Throws an `Error` whose text has the position, as Consul's has. */
export function parseBexpr(text: string): Bexpr {
  if (text.length > MAX_LENGTH) throw new Error("expression is too long");
  const parser = new Parser(text);
  const expression = parser.or(0);
  parser.end();
  return expression;
}

/** Throws where a selector names a field that does not exist. */
export function checkSelectors(expression: Bexpr, known: Known): void {
  switch (expression.kind) {
    case "and":
    case "or":
      checkSelectors(expression.left, known);
      checkSelectors(expression.right, known);
      return;
    case "not":
      return checkSelectors(expression.of, known);
    case "match": {
      let at: true | Known | undefined = known;
      for (const part of expression.selector) {
        if (at === true || at === undefined) break;
        at = Object.hasOwn(at, part) ? at[part] : undefined;
      }
      if (at === undefined) {
        throw new Error(`Selector "${expression.selector.join(".")}" is not valid`);
      }
      return;
    }
    default:
      expression satisfies never;
  }
}

/** Whether the value fits. Fields that are left out when empty count as their empty value. */
export function matchesBexpr(expression: Bexpr, value: Json): boolean {
  switch (expression.kind) {
    case "and":
      return matchesBexpr(expression.left, value) && matchesBexpr(expression.right, value);
    case "or":
      return matchesBexpr(expression.left, value) || matchesBexpr(expression.right, value);
    case "not":
      return !matchesBexpr(expression.of, value);
    case "match":
      return matchesOne(expression, value);
    default:
      return expression satisfies never;
  }
}

const MAPS = ["Meta", "ServiceMeta", "NodeMeta", "TaggedAddresses"];

function matchesOne(match: Extract<Bexpr, { kind: "match" }>, root: Json): boolean {
  let value: Json = root;
  let parent = "";
  let absentKey = false;
  for (const part of match.selector) {
    const next: Json | undefined = isObject(value) ? value[part] : undefined;
    absentKey = next === undefined && MAPS.includes(parent);
    value = next ?? null;
    parent = part;
  }
  switch (match.operator) {
    case "empty":
      return isEmpty(value);
    case "in":
      if (Array.isArray(value)) return value.includes(match.value);
      if (isObject(value)) return Object.hasOwn(value, match.value);
      return typeof value === "string" && value.includes(match.value);
    case "matches":
      try {
        return typeof value === "string" && goPattern(match.value).test(value);
      } catch {
        // An expression that JavaScript cannot read matches nothing.
        return false;
      }
    case "equal":
      if (absentKey) return false;
      if (typeof value === "boolean") return String(value) === match.value;
      if (typeof value === "number") return Number(match.value) === value;
      return (value ?? "") === match.value;
    default:
      return match.operator satisfies never;
  }
}

class Parser {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  or(depth: number): Bexpr {
    if (depth > MAX_DEPTH) throw new Error("expression is nested too deeply");
    let left = this.#and(depth);
    while (this.#word("or")) left = { kind: "or", left, right: this.#and(depth) };
    return left;
  }

  end(): void {
    this.#space();
    if (this.#at < this.#text.length) throw this.#error();
  }

  #and(depth: number): Bexpr {
    let left = this.#not(depth);
    while (this.#word("and")) left = { kind: "and", left, right: this.#not(depth) };
    return left;
  }

  #not(depth: number): Bexpr {
    if (depth > MAX_DEPTH) throw new Error("expression is nested too deeply");
    if (this.#word("not")) return { kind: "not", of: this.#not(depth + 1) };
    if (this.#sign("(")) {
      const inner = this.or(depth + 1);
      if (!this.#sign(")")) throw this.#error();
      return inner;
    }
    return this.#match();
  }

  #match(): Bexpr {
    const start = this.#at;
    const value = this.#value();
    const negatedIn = value !== undefined && this.#words("not", "in");
    if (value !== undefined && (negatedIn || this.#word("in"))) {
      return negated(negatedIn, {
        kind: "match",
        operator: "in",
        selector: this.#selector(),
        value,
      });
    }
    this.#at = start;
    const selector = this.#selector();
    if (this.#words("is", "not", "empty")) {
      return negated(true, { kind: "match", operator: "empty", selector, value: "" });
    }
    if (this.#words("is", "empty")) {
      return { kind: "match", operator: "empty", selector, value: "" };
    }
    for (const [operator, negate, found] of this.#operators()) {
      if (!found()) continue;
      const operand = this.#value();
      if (operand === undefined) throw this.#error();
      return negated(negate, { kind: "match", operator, selector, value: operand });
    }
    throw this.#error();
  }

  #operators(): readonly (readonly ["equal" | "in" | "matches", boolean, () => boolean])[] {
    return [
      ["equal", false, () => this.#sign("==")],
      ["equal", true, () => this.#sign("!=")],
      ["in", false, () => this.#word("contains")],
      ["in", true, () => this.#words("not", "contains")],
      ["matches", false, () => this.#word("matches")],
      ["matches", true, () => this.#words("not", "matches")],
    ];
  }

  #selector(): readonly string[] {
    this.#space();
    const first = this.#take(/[a-zA-Z][a-zA-Z0-9_]*/y);
    if (first === undefined) throw this.#error();
    const parts = [first];
    while (true) {
      const dotted = this.#take(/\.[a-zA-Z0-9_/-]+/y);
      if (dotted !== undefined) parts.push(dotted.slice(1));
      else {
        const indexed = this.#take(/\[\s*(?:"[^"]*"|`[^`]*`)\s*\]/y);
        if (indexed === undefined) return parts;
        parts.push(indexed.slice(1, -1).trim().slice(1, -1));
      }
    }
  }

  #value(): string | undefined {
    this.#space();
    const quoted = this.#take(/"(?:[^"\\]|\\.)*"/y);
    if (quoted !== undefined) return unescaped(quoted.slice(1, -1));
    const raw = this.#take(/`[^`]*`/y);
    if (raw !== undefined) return raw.slice(1, -1);
    return this.#take(/[a-zA-Z0-9_./-]+/y);
  }

  #words(...words: readonly string[]): boolean {
    const start = this.#at;
    if (words.every((word) => this.#word(word))) return true;
    this.#at = start;
    return false;
  }

  #word(word: string): boolean {
    const start = this.#at;
    this.#space();
    if (this.#take(/[a-zA-Z0-9_]+/y)?.toLowerCase() === word) return true;
    this.#at = start;
    return false;
  }

  #sign(sign: string): boolean {
    this.#space();
    if (!this.#text.startsWith(sign, this.#at)) return false;
    this.#at += sign.length;
    return true;
  }

  #space(): void {
    this.#take(/\s+/y);
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #error(): Error {
    const expected = 'expected: "!=", ".", "==", "[", [ \\t\\r\\n] or [a-zA-Z0-9_]';
    return new Error(`1:${this.#at + 1} (${this.#at}): no match found, ${expected}`);
  }
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

/** Where Go's notation differs from JavaScript's: flags at the start, characters by number. */
function goPattern(text: string): RegExp {
  const [start = "", flags = ""] = /^\(\?([ims]+)\)/.exec(text) ?? [];
  const pattern = text.slice(start.length).replace(/\\x\{([0-9a-f]+)\}/gi, "\\u{$1}");
  return new RegExp(pattern, `${flags}u`);
}

function negated(negate: boolean, of: Bexpr): Bexpr {
  return negate ? { kind: "not", of } : of;
}
