/**
 * Escapes texts of strangers for a line of a log: they cannot end the line or a quoted value, and cannot
 * control a terminal.
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

/** Escaped as in JSON, without the quotes around it. */
export function escaped(text: string): string {
  return NEEDS_CARE.test(text) ? escapedSlowly(text) : text;
}

function escapedSlowly(text: string): string {
  return escapeUnseen(JSON.stringify(asWritten(text)).slice(1, -1));
}

/** A text that is valid UTF-8 is shown decoded. */
function asWritten(text: string): string {
  if (!ABOVE_ASCII.test(text) || BEYOND_OCTETS.test(text)) return text;
  try {
    return UTF8.decode(Buffer.from(text, "latin1"));
  } catch {
    // Another encoding: each octet by itself.
    return text;
  }
}
