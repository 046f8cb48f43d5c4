/**
 * Parts of larger pieces of memory, where they have to be kept.
 *
 * @module
 */

/** A copy of what would keep four times as much memory as it has bytes from being freed; else itself. */
export function unpinned(chunk: Uint8Array): Uint8Array {
  return chunk.length * 4 < chunk.buffer.byteLength ? copyOf.call(chunk) : chunk;
}

/** A Buffer's own `slice` copies nothing. */
const copyOf = Uint8Array.prototype.slice;
