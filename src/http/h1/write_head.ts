/**
 * Heads as they go out: one text, in one piece of memory that all connections share, taken by the stream
 * before anybody else can need it. Whatever brought a field here, it cannot end its line.
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import { FIELD, type Fields } from "../head.ts";
import { writeLatin1 } from "../latin1.ts";
import { isLawful, readyOctets } from "../ready_values.ts";

const CR = 13;
const LF = 10;
/** Stands for the end of a line until all that is not ours has been judged. */
const GAP = "  ";

let scratch = new Uint8Array(16 * 1024);

/**
 * Writes a head: its first line and fields, and lines of the codec's own, each with its end; `second`:
 * one more line before the fields. False: stop until the stream drains; undefined: something of it cannot
 * be written, and nothing was.
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

/** Where it ends. */
function put(text: string, at: number): number {
  reserve(text.length, at);
  return at + writeLatin1(scratch, text, at);
}

function endLine(at: number): void {
  scratch[at] = CR;
  scratch[at + 1] = LF;
}

/** Makes room for `length` more bytes behind the first `used`, which stay. */
function reserve(length: number, used: number): void {
  if (scratch.length >= used + length) return;
  const larger = new Uint8Array(2 * (used + length));
  larger.set(scratch.subarray(0, used));
  scratch = larger;
}

/** Writes what is all the codec's own. */
export function writeText(stream: Stream, text: string): boolean {
  return stream.write(scratch.subarray(0, put(text, 0)));
}
