/**
 * One-line mutations of a source text: each is the smallest change that should make some test fail. Pure;
 * works on lines, so only what is clear from a line alone is tried.
 *
 * @module
 */

import type { Random } from "../../src/base/mod.ts";

export interface Mutation {
  readonly file: string;
  /** The line number, from 1. */
  readonly line: number;
  readonly before: string;
  readonly after: string;
}

type Operator = readonly [pattern: RegExp, replace: string | ((text: string) => string)];

/** Spaces around an operator tell it from brackets of types and from arrows. */
const OPERATORS: readonly Operator[] = [
  [/ === /, " !== "],
  [/ !== /, " === "],
  [/ < /, " <= "],
  [/ <= /, " < "],
  [/ > /, " >= "],
  [/ >= /, " > "],
  [/ && /, " || "],
  [/ \|\| /, " && "],
  [/ \+ 1\b/, ""],
  [/ - 1\b/, ""],
  [/\+\+/, "--"],
  [/--(?=[\w#;)]|$)/, "++"],
  [/ \+= /, " -= "],
  [/ -= /, " += "],
  [/\bMath\.min\(/, "Math.max("],
  [/\bMath\.max\(/, "Math.min("],
  [/\breturn true;/, "return false;"],
  [/\breturn false;/, "return true;"],
  [/ = true;/, " = false;"],
  [/ = false;/, " = true;"],
  [
    /\bif \(.*\) (?=return|throw|continue|break|\{$|\w.*;$)/,
    (text) => `if (!(${text.slice(4, -2)})) `,
  ],
  [/\.some\(/, ".every("],
  [/\.every\(/, ".some("],
];

/** A whole statement on its line: a call or an assignment, whose absence is no fault of syntax. */
const STATEMENT =
  /^(\s+)(?:await |void )?(?:this|[a-z]\w*)(?:\??\.#?\w+|\[\w+\])*(?:\(.*\)| [-+?]?\??= .*);$/;
/** Lines that mean nothing to the machine, or are no place for an operator. */
const IDLE =
  /^\s*(?:\*|\/\/|\/\*|import\b|export \{|export type\b|type\b|interface\b|readonly \w+\??:)/;
/** Text, where an operator's sign means nothing. */
const TEXT = /"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|\/\/.*$/g;

export function mutationsOf(file: string, source: string): Mutation[] {
  return source.split("\n").flatMap((before, index) => {
    if (IDLE.test(before)) return [];
    // The same length, so that places in it are places in the line.
    const code = before.replace(TEXT, (text) => "_".repeat(text.length));
    const afters = OPERATORS.flatMap(([pattern, replace]) => {
      const found = pattern.exec(code);
      if (!found) return [];
      const end = found.index + found[0].length;
      const text = before.slice(found.index, end);
      const changed = typeof replace === "string" ? replace : replace(text);
      return [before.slice(0, found.index) + changed + before.slice(end)];
    });
    const dropped = STATEMENT.exec(code);
    if (dropped) afters.push(`${dropped[1]};`);
    return afters.map((after) => ({ file, line: index + 1, before, after }));
  });
}

/** So many of them, each as likely as the others. */
export function draw(mutations: readonly Mutation[], count: number, random: Random): Mutation[] {
  const rest = [...mutations];
  return Array.from(
    { length: Math.min(count, rest.length) },
    () => rest.splice(Math.floor(random() * rest.length), 1),
  ).flat();
}
