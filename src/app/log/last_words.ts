/** The last message of a command that cannot go on, and its exit code. @module */

import { formatJson, messageOf, printable, ProxyError } from "../../base/mod.ts";

const USAGE_CODES = new Set(["usage", "config_invalid", "unsupported"]);

/** True when `-log-json` is among the words, also when other words are wrong. */
export function wantsJson(argv: readonly string[]): boolean {
  const last = argv.findLast((word) => /^--?log-json(=|$)/.test(word)) ?? "=false";
  return !/=(?:0|f|false)$/i.test(last);
}

/** The message for standard error: a log line in JSON, or text. */
export function lastWords(
  error: unknown,
  options: { readonly json: boolean; readonly nowMs: number },
): string {
  const message = messageOf(error);
  if (!options.json) return `postern: ${printable(message)}`;
  const fields = error instanceof ProxyError ? { code: error.code } : {};
  return formatJson({ timeMs: options.nowMs, level: "error", message, fields });
}

/** 2: usage or configuration, nothing was started; 1: everything else. */
export function exitCodeOf(error: unknown): number {
  return error instanceof ProxyError && USAGE_CODES.has(error.code) ? 2 : 1;
}
