/**
 * Writes heads: one text, in one piece of memory that all connections share, which the stream copies at
 * once. No field can end its line, whatever its source.
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import { FIELD, type Fields } from "../head.ts";
import { writeLatin1 } from "../latin1.ts";
import { isLawful, readyOctets } from "../ready_values.ts";

const CR = 13;
const LF = 10;
/** Placeholder for the end of a line, until all text of others has been checked. */
const GAP = "  ";

let scratch = new Uint8Array(16 * 1024);

/**
 * Writes a head: its first line and fields, and the codec's own lines, each with its end; `second`: one
 * more line before the fields. False: stop until the stream drains; undefined: a part cannot be written,
 * and nothing was.
 */
export function writeHead(
  stream: Stream,
  first: string,
  fields: Fields,
  own: string,
  second = "",
): boolean | undefined {
  let text = first + GAP;
  if (second) text += second + GAP;
  let at = 0;
  for (let i = 0; i < fields.length; i += FIELD) {
    const value = fields[i + 1] ?? "";
    const octets = readyOctets(value);
    if (!octets) {
      text += `${fields[i + 2]}: ${value}${GAP}`;
      continue;
    }
    text += `${fields[i + 2]}: `;
    if (!isLawful(text)) return undefined;
    at = put(text, at);
    reserve(octets.length, at);
    scratch.set(octets, at);
    at += octets.length;
    text = GAP;
  }
  if (!isLawful(text)) return undefined;
  at = put(text, at);
  if (own) at = put(own, at);
  reserve(2, at);
  let end = first.length;
  endLine(end);
  if (second) endLine(end += GAP.length + second.length);
  for (let i = 0; i < fields.length; i += FIELD) {
    end += (fields[i + 2]?.length ?? 0) + (fields[i + 1]?.length ?? 0) + 2 + GAP.length;
    endLine(end);
  }
  endLine(at);
  return stream.write(scratch.subarray(0, at + 2));
}

/** Writes a text and returns its end. */
function put(text: string, at: number): number {
  reserve(text.length, at);
  return at + writeLatin1(scratch, text, at);
}

function endLine(at: number): void {
  scratch[at] = CR;
  scratch[at + 1] = LF;
}

/** Makes room for `length` bytes after the first `used`, which are kept. */
function reserve(length: number, used: number): void {
  if (scratch.length >= used + length) return;
  const larger = new Uint8Array(2 * (used + length));
  larger.set(scratch.subarray(0, used));
  scratch = larger;
}

/** Writes a text of the codec's own, unchecked. */
export function writeText(stream: Stream, text: string): boolean {
  return stream.write(scratch.subarray(0, put(text, 0)));
}
