/**
 * Parts of larger pieces of memory, where they have to be kept.
 *
 * @module
 */

/** A copy of what would keep four times as much memory as it has bytes from being freed; else itself. */
export function unpinned(chunk: Uint8Array): Uint8Array {
  return chunk.length * 4 < chunk.buffer.byteLength ? new Uint8Array(chunk) : chunk;
}
