/**
 * Compresses bodies, and undoes it. Unlike `CompressionStream`, flushes whenever the rest is not there yet.
 *
 * @module
 */

import {
  constants,
  createBrotliCompress,
  createBrotliDecompress,
  createGunzip,
  createGzip,
  createInflate,
  createZstdCompress,
  createZstdDecompress,
  type Gunzip,
  type Gzip,
} from "node:zlib";
import { messageOf } from "../base/mod.ts";

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

/** The longest window that {@link compressed} bodies of others may ask for, as base 2 logarithm: 8 MiB. */
const MAX_WINDOW_BITS = 23;
const DECODERS: Readonly<Record<Coding | "deflate", () => Gunzip>> = {
  gzip: createGunzip,
  deflate: () => createInflate() as unknown as Gunzip,
  br: () => createBrotliDecompress() as unknown as Gunzip,
  zstd: () => {
    const params = { [constants.ZSTD_d_windowLogMax]: MAX_WINDOW_BITS };
    return createZstdDecompress({ params }) as unknown as Gunzip;
  },
};

export interface DecompressedOptions {
  readonly limitBytes: number;
  /** The error for a result with more bytes, and for a source that is not in that coding. */
  readonly tooLong: (reason: string) => Error;
  readonly broken: (reason: string) => Error;
}

/** Reads `source` only as fast as the result is read. */
export function decompressed(
  source: ReadableStream<Uint8Array>,
  coding: Coding | "deflate",
  { limitBytes, tooLong, broken }: DecompressedOptions,
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  let coder: Gunzip | undefined;
  let output: AsyncIterator<Uint8Array> | undefined;
  let sourceError: unknown;
  let isFed = () => {};
  let length = 0;
  const feed = async (to: Gunzip) => {
    for (;;) {
      const { done, value } = await reader.read();
      if (to.destroyed) return;
      if (done) return void to.end();
      // Calls back when all of the chunk is decompressed, for which the reader has to read.
      await new Promise<void>((resolve) => {
        isFed = resolve;
        to.write(value, () => resolve());
      });
    }
  };
  const start = (): AsyncIterator<Uint8Array> => {
    const made = coder = DECODERS[coding]();
    feed(made).catch((error) => {
      sourceError = error;
      made.destroy(error instanceof Error ? error : new Error(messageOf(error)));
    });
    return made[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  };
  const end = (reason: unknown) => {
    coder?.destroy();
    isFed();
    // The error of an abandoned stream does not matter.
    reader.cancel(reason).catch(() => {});
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      output ??= start();
      let next: IteratorResult<Uint8Array>;
      try {
        next = await output.next();
      } catch (error) {
        end(error);
        throw sourceError ?? broken(`body: not ${coding}: ${messageOf(error)}`);
      }
      if (next.done) return controller.close();
      length += next.value.length;
      if (length > limitBytes) {
        const error = tooLong(`body: more than ${limitBytes} bytes when decompressed`);
        end(error);
        throw error;
      }
      controller.enqueue(next.value);
    },
    cancel: end,
  }, { highWaterMark: 0 });
}
