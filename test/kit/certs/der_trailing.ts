/**
 * One more element at the end of every part of a DER value in turn: a strict reader refuses all of them
 * but where anything may stand.
 *
 * @module
 */

import { derElement } from "../../../src/wire/der_writer.ts";
import { type DerElement, DerReader, TAG } from "../../../src/wire/mod.ts";

const CONSTRUCTED = 0x20;
const MORE = derElement(TAG.null);

/** A copy with NULL in place of the part at `path`: `0.3` is the fourth part of the first. */
interface Trailing {
  readonly path: string;
  readonly der: Uint8Array;
}

/** `der` is one element; a sequence within an octet string or a bit string counts as its part. */
export function withTrailing(der: Uint8Array): readonly Trailing[] {
  return within(new DerReader(der).any("value"), "");
}

function within(element: DerElement, path: string): readonly Trailing[] {
  const { tag } = element;
  const { head, parts } = partsOf(element);
  if (parts.length === 0) return [];
  const raws = parts.map(({ raw }) => raw);
  return [
    { path, der: derElement(tag, head, ...raws, MORE) },
    ...parts.flatMap((part, at) =>
      within(part, path === "" ? `${at}` : `${path}.${at}`).map((inner) => ({
        path: inner.path,
        der: derElement(tag, head, ...raws.with(at, inner.der)),
      }))
    ),
  ];
}

function partsOf(
  { tag, body }: DerElement,
): { readonly head: Uint8Array; readonly parts: readonly DerElement[] } {
  // A bit string begins with how many bits are not used.
  const from = tag === TAG.bitString ? 1 : 0;
  const head = body.subarray(0, from);
  const wraps = (tag === TAG.octetString || tag === TAG.bitString) && body[from] === TAG.sequence;
  if ((tag & CONSTRUCTED) === 0 && !wraps) return { head, parts: [] };
  const reader = new DerReader(body.subarray(from));
  const parts: DerElement[] = [];
  try {
    while (!reader.done) parts.push(reader.any("part"));
  } catch {
    // Bytes that only begin as a sequence does.
    return { head, parts: [] };
  }
  return { head, parts };
}
