/**
 * Heads as they go out: one text, in one piece of memory that all connections share, taken by the stream
 * before anybody else can need it. Whatever brought a field here, it cannot end its line.
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import { FIELD, type Fields } from "../head.ts";
import { writeLatin1 } from "../latin1.ts";

const CR = 13;
const LF = 10;
/** Stands for the end of a line until all that is not ours has been judged. */
const GAP = "  ";
/** No control character, nothing that latin1 cannot say; TAB is lawful within a value. */
// deno-lint-ignore no-control-regex
const UNLAWFUL = /[\0-\x08\x0a-\x1f\x7f\u0100-\uffff]/;

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
  for (let i = 0; i < fields.length; i += FIELD) text += `${fields[i + 2]}: ${fields[i + 1]}${GAP}`;
  if (UNLAWFUL.test(text)) return undefined;
  const size = text.length + own.length + 2;
  if (scratch.length < size) scratch = new Uint8Array(2 * size);
  const bytes = scratch;
  writeLatin1(bytes, `${text}${own}\r\n`, 0);
  let end = first.length;
  bytes[end] = CR;
  bytes[end + 1] = LF;
  if (second) {
    end += second.length + GAP.length;
    bytes[end] = CR;
    bytes[end + 1] = LF;
  }
  for (let i = 0; i < fields.length; i += FIELD) {
    end += (fields[i + 2]?.length ?? 0) + (fields[i + 1]?.length ?? 0) + 2 + GAP.length;
    bytes[end] = CR;
    bytes[end + 1] = LF;
  }
  return stream.write(bytes.subarray(0, size));
}

/** Writes what is all the codec's own. */
export function writeText(stream: Stream, text: string): boolean {
  if (scratch.length < text.length) scratch = new Uint8Array(2 * text.length);
  writeLatin1(scratch, text, 0);
  return stream.write(scratch.subarray(0, text.length));
}
