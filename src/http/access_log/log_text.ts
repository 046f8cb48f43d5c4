/**
 * Texts of strangers as they may stand in a line of a log: no line ends before its end, no quoted value
 * ends before its quote, and nothing acts on a terminal.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { escapeUnseen } from "../../base/mod.ts";

const NEEDS_CARE = /[^ !#-[\]-~]/;
/** Characters of heads are octets. */
const BEYOND_OCTETS = /[\u0100-\uffff]/;
const ABOVE_ASCII = /[\x80-\xff]/;
const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** Escaped as JSON does it, without the quotes around it. */
export function escaped(text: string): string {
  return NEEDS_CARE.test(text) ? escapedSlowly(text) : text;
}

function escapedSlowly(text: string): string {
  return escapeUnseen(JSON.stringify(asWritten(text)).slice(1, -1));
}

/** What was sent as UTF-8 is shown as its author wrote it. */
function asWritten(text: string): string {
  if (!ABOVE_ASCII.test(text) || BEYOND_OCTETS.test(text)) return text;
  try {
    return UTF8.decode(Buffer.from(text, "latin1"));
  } catch {
    // Another encoding: each octet by itself.
    return text;
  }
}
