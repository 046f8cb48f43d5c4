/** The last filter before output: keys, tokens, passwords and invisible characters. @module */

import { escapeUnseen, maskUserinfo } from "../base/mod.ts";

export const NOT_SHOWN = "(not shown)";
const SECRET_NAME =
  /^(?:key|keypem|private_?key|secret|token|password|basicauth|auth|authorization)$/i;
/** Replaces a key in Envoy's format. */
export const REDACTED: Readonly<Record<string, string>> = { inline_string: "[redacted]" };
/** Shorter secrets would also match words. */
const SHORTEST_SECRET = 4;

/** `value` as JSON text, indented, with everything secret replaced. */
export function shownJson(value: unknown, secrets: readonly string[]): string {
  return `${shownLine(value, secrets, 2)}\n`;
}

/** The same on one line. */
export function shownLine(value: unknown, secrets: readonly string[], indent = 0): string {
  const text = JSON.stringify(
    value,
    (name, part: unknown) => {
      if (part !== undefined && part !== null && part !== "" && SECRET_NAME.test(name)) {
        // Envoy's "secret" is an object; its own fields are filtered.
        const isShape = part === REDACTED || name === "secret" && isPlainObject(part);
        return typeof part === "boolean" || isShape ? part : NOT_SHOWN;
      }
      return typeof part === "string" ? hide(part, secrets) : part;
    },
    indent,
  );
  return escapeUnseen(text);
}

/** `text` without secrets and invisible characters. */
export function shownText(text: string, secrets: readonly string[]): string {
  return escapeUnseen(hide(text, secrets));
}

/** One fact per line, for `grep` and `awk`. */
export function lines(all: readonly string[]): string {
  return all.map((line) => `${line}\n`).join("");
}

/** `text` without the secrets it holds. */
export function hide(text: string, secrets: readonly string[]): string {
  if (text.includes("PRIVATE KEY")) return NOT_SHOWN;
  let shown = text;
  for (const secret of secrets) {
    if (secret.length >= SHORTEST_SECRET) shown = shown.replaceAll(secret, NOT_SHOWN);
  }
  return maskUserinfo(shown);
}

function isPlainObject(part: unknown): boolean {
  return typeof part === "object" && part !== null && !Array.isArray(part) &&
    !(part instanceof Uint8Array);
}
