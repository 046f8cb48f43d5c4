/** Copies of small parts of large buffers that have to be kept. @module */

/** A copy if `chunk` would keep a buffer of more than four times its length in memory; else itself. */
export function unpinned(chunk: Uint8Array): Uint8Array {
  return chunk.length * 4 < chunk.buffer.byteLength ? copyOf.call(chunk) : chunk;
}

/** A Buffer's own `slice` copies nothing. */
const copyOf = Uint8Array.prototype.slice;
