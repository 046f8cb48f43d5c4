/**
 * Compresses bodies. The standard's `CompressionStream` buffers until it has a block; this one flushes
 * whenever the rest of the body is not there yet, so that events arrive when they happen.
 *
 * @module
 */

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

/** Levels for a server: about 10 ms of a processor for a megabyte. */
const CODERS: Readonly<Record<Coding, { readonly make: () => Gzip; readonly flush: number }>> = {
  gzip: { make: () => createGzip({ level: 5 }), flush: constants.Z_SYNC_FLUSH },
  br: {
    make: () =>
      createBrotliCompress({
        params: {
          [constants.BROTLI_PARAM_QUALITY]: 3,
          [constants.BROTLI_PARAM_LGWIN]: WINDOW_BITS,
        },
      }) as Gzip,
    flush: constants.BROTLI_OPERATION_FLUSH,
  },
  zstd: {
    make: () =>
      createZstdCompress({
        params: {
          [constants.ZSTD_c_compressionLevel]: 3,
          [constants.ZSTD_c_windowLog]: WINDOW_BITS,
        },
      }) as Gzip,
    flush: constants.ZSTD_e_flush,
  },
};

/** Reads `source` only as fast as the result is read; allocates nothing before the first read. */
export function compressed(
  source: ReadableStream<Uint8Array>,
  coding: Coding,
): ReadableStream<Uint8Array> {
  const compressor = new Compressor(source, coding);
  return new ReadableStream<Uint8Array>({
    pull: (controller) => compressor.pull(controller),
    cancel: (reason) => compressor.cancel(reason),
  }, { highWaterMark: 0 });
}

class Compressor {
  readonly #source: ReadableStreamDefaultReader<Uint8Array>;
  readonly #coding: Coding;
  #coder: Gzip | undefined;
  #output: ReadableStreamDefaultController<Uint8Array> | undefined;
  /** The next read, and whether it is done. */
  #nextRead: Promise<ReadableStreamReadResult<Uint8Array>> | undefined;
  #isNextRead = false;
  #hasOutput = false;
  #failed: ((error: unknown) => void) | undefined;

  constructor(source: ReadableStream<Uint8Array>, coding: Coding) {
    this.#source = source.getReader();
    this.#coding = coding;
  }

  /** Compresses until there is output. */
  async pull(output: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#output = output;
    this.#hasOutput = false;
    const coder = this.#coder ??= this.#start();
    try {
      while (!this.#hasOutput) {
        const { done, value } = await (this.#nextRead ?? this.#readNext());
        if (done) {
          await this.#await((over) => coder.once("end", over).end());
          coder.destroy();
          return output.close();
        }
        this.#readNext();
        await this.#await((over) => coder.write(value, over));
        if (!this.#isNextRead) {
          await this.#await((over) => coder.flush(CODERS[this.#coding].flush, over));
        }
      }
    } catch (error) {
      coder.destroy();
      throw error;
    }
  }

  #start(): Gzip {
    const coder = CODERS[this.#coding].make();
    coder.on("data", (chunk: Uint8Array) => {
      this.#hasOutput = true;
      this.#output?.enqueue(chunk);
    });
    coder.on("error", (error) => this.#failed?.(error));
    return coder;
  }

  #readNext(): Promise<ReadableStreamReadResult<Uint8Array>> {
    this.#isNextRead = false;
    const isHere = () => {
      this.#isNextRead = true;
    };
    const ahead = this.#nextRead = this.#source.read();
    ahead.then(isHere, isHere);
    return ahead;
  }

  #await(run: (over: () => void) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#failed = reject;
      run(resolve);
    });
  }

  cancel(reason: unknown): Promise<void> {
    this.#output = undefined;
    this.#coder?.destroy();
    return this.#source.cancel(reason);
  }
}
