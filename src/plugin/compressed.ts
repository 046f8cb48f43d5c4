/** Compresses bodies. Unlike `CompressionStream`, flushes whenever the rest is not there yet. @module */

import {
  constants,
  createBrotliCompress,
  createGzip,
  createZstdCompress,
  type Gzip,
} from "node:zlib";

export type Coding = "gzip" | "br" | "zstd";

/** Base 2 logarithm of the window, which is memory of each compressed body and of its reader. */
const WINDOW_BITS = 18;

const BROTLI = { [constants.BROTLI_PARAM_QUALITY]: 3, [constants.BROTLI_PARAM_LGWIN]: WINDOW_BITS };
const ZSTD = { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_windowLog]: WINDOW_BITS };

/** Levels for a server: about 10 ms of a processor for a megabyte. */
const CODERS: Readonly<Record<Coding, { readonly make: () => Gzip; readonly flush: number }>> = {
  gzip: { make: () => createGzip({ level: 5 }), flush: constants.Z_SYNC_FLUSH },
  br: {
    make: () => createBrotliCompress({ params: BROTLI }) as Gzip,
    flush: constants.BROTLI_OPERATION_FLUSH,
  },
  zstd: {
    make: () => createZstdCompress({ params: ZSTD }) as Gzip,
    flush: constants.ZSTD_e_flush,
  },
};

/** Reads `source` only as fast as the result is read; allocates nothing before the first read. */
export function compressed(
  source: ReadableStream<Uint8Array>,
  coding: Coding,
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  let coder: Gzip | undefined;
  let output: ReadableStreamDefaultController<Uint8Array> | undefined;
  let hasOutput = false;
  /** The next read, and whether it is done. */
  let nextRead: ReturnType<typeof reader.read> | undefined;
  let isNextRead = false;
  let failed: (error: unknown) => void = () => {};

  const start = () => {
    const made = CODERS[coding].make();
    made.on("data", (chunk: Uint8Array) => {
      hasOutput = true;
      output?.enqueue(chunk);
    });
    made.on("error", (error) => failed(error));
    return made;
  };
  const isHere = () => {
    isNextRead = true;
  };
  const readNext = () => {
    isNextRead = false;
    const ahead = nextRead = reader.read();
    ahead.then(isHere, isHere);
    return ahead;
  };
  const done = (run: (over: () => void) => void) =>
    new Promise<void>((resolve, reject) => {
      failed = reject;
      run(resolve);
    });

  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      output = controller;
      hasOutput = false;
      const current = coder ??= start();
      try {
        while (!hasOutput) {
          const { done: isEnd, value } = await (nextRead ?? readNext());
          if (isEnd) {
            await done((over) => current.once("end", over).end());
            current.destroy();
            return controller.close();
          }
          readNext();
          await done((over) => current.write(value, over));
          if (!isNextRead) await done((over) => current.flush(CODERS[coding].flush, over));
        }
      } catch (error) {
        current.destroy();
        throw error;
      }
    },
    cancel(reason) {
      output = undefined;
      coder?.destroy();
      return reader.cancel(reason);
    },
  }, { highWaterMark: 0 });
}
