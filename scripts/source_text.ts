/**
 * TypeScript source with everything that is not code blanked out, so that rules about code can be simple
 * searches. Knows comments, strings, templates and (by the code before them) regular expressions;
 * positions and lines are kept.
 *
 * @module
 */

/** The place of an import, and the module that it names. */
interface Import {
  readonly specifier: string;
  readonly line: number;
  /** A `type` import is gone when the program runs; a `dynamic` one may never be made. */
  readonly kind: "value" | "type" | "dynamic";
}

/** Comments and the contents of strings, templates and regular expressions become spaces. */
export function blankNonCode(text: string): string {
  const out = text.split("");
  const blank = (from: number, to: number) => {
    for (let i = from; i < Math.min(to, out.length); i++) if (out[i] !== "\n") out[i] = " ";
  };
  // For each open template around this place, the depth of braces inside its `${ }`.
  const templates: number[] = [];
  let at = 0;
  while (at < text.length) {
    const char = text[at];
    const two = text.slice(at, at + 2);
    let end: number;
    if (two === "//") {
      end = endOr(text.indexOf("\n", at), text);
      blank(at, end);
    } else if (two === "/*") {
      end = endOr(text.indexOf("*/", at + 2), text) + 2;
      blank(at, end);
    } else if (char === '"' || char === "'") {
      end = endOfQuoted(text, at + 1, char) + 1;
      blank(at + 1, end - 1);
    } else if (char === "/" && startsRegex(out, at)) {
      end = endOfRegex(text, at + 1) + 1;
      blank(at + 1, end - 1);
    } else if (char === "`" || (char === "}" && templates.at(-1) === 0)) {
      if (char === "}") templates.pop();
      const stop = endOfTemplateText(text, at + 1);
      blank(at + 1, stop);
      const opens = text[stop] === "$";
      if (opens) templates.push(0);
      end = stop + (opens ? 2 : 1);
    } else {
      const depth = templates.at(-1);
      if (depth !== undefined && char === "{") templates[templates.length - 1] = depth + 1;
      if (depth !== undefined && char === "}") templates[templates.length - 1] = depth - 1;
      end = at + 1;
    }
    at = end;
  }
  return out.join("");
}

/** Every module that `text` imports, re-exports from or loads, types included. */
export function importsOf(text: string, code = blankNonCode(text)): Import[] {
  const pattern = /\bfrom\s*(["'])|\bimport\s*(\()?\s*(["'])/g;
  return [...code.matchAll(pattern)].map((match) => {
    const start = match.index + match[0].length;
    const end = code.indexOf(match[1] ?? match[3] ?? '"', start);
    const isType = /.*\b(?:import|export)\s+type\s+[\w{*][^;"']*$/s.test(
      code.slice(code.lastIndexOf(";", match.index) + 1, match.index),
    );
    const kind = match[2] ? "dynamic" : isType ? "type" : "value";
    return { specifier: text.slice(start, end), line: lineAt(text, start), kind };
  });
}

/** The line (from 1) that `index` is on. */
export function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}

function endOr(index: number, text: string): number {
  return index === -1 ? text.length : index;
}

function endOfQuoted(text: string, from: number, quote: string): number {
  let at = from;
  while (at < text.length && text[at] !== quote && text[at] !== "\n") {
    at += text[at] === "\\" ? 2 : 1;
  }
  return at;
}

function endOfTemplateText(text: string, from: number): number {
  let at = from;
  while (at < text.length && text[at] !== "`" && text.slice(at, at + 2) !== "${") {
    at += text[at] === "\\" ? 2 : 1;
  }
  return at;
}

function endOfRegex(text: string, from: number): number {
  let inClass = false;
  let at = from;
  for (; at < text.length && text[at] !== "\n"; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "[") inClass = true;
    else if (text[at] === "]") inClass = false;
    else if (text[at] === "/" && !inClass) break;
  }
  return at;
}

/** A slash divides after a value and starts a regular expression anywhere else. */
function startsRegex(out: readonly string[], at: number): boolean {
  const before = out.slice(Math.max(0, at - 200), at).join("").trimEnd();
  if (/\b(return|typeof|case|in|of|await|yield|throw|else|do)$/.test(before)) return true;
  return before === "" || !/[\w$)\]}"'`]$/.test(before);
}
