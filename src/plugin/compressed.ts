/**
 * Bodies in fewer bytes. The standard's `CompressionStream` keeps what it has until there is enough of it;
 * here it leaves as soon as more of the body has to be waited for, so that events arrive when they happen.
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

/** What a coding looks back at, by logarithm: memory of each body that is compressed, and of its readers. */
const WINDOW_BITS = 18;

/** Levels that a server can bear: about 10 ms of a processor for a megabyte. */
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

/** Reads no more of `source` than whoever reads it asks for, and makes nothing before somebody does. */
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
  /** What comes next, once it is asked for, and whether it is there already. */
  #ahead: Promise<ReadableStreamReadResult<Uint8Array>> | undefined;
  #isHere = false;
  #hasPut = false;
  #failed: ((error: unknown) => void) | undefined;

  constructor(source: ReadableStream<Uint8Array>, coding: Coding) {
    this.#source = source.getReader();
    this.#coding = coding;
  }

  /** Until there is something to be read. */
  async pull(output: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#output = output;
    this.#hasPut = false;
    const coder = this.#coder ??= this.#start();
    try {
      while (!this.#hasPut) {
        const { done, value } = await (this.#ahead ?? this.#look());
        if (done) {
          await this.#await((over) => coder.once("end", over).end());
          coder.destroy();
          return output.close();
        }
        this.#look();
        await this.#await((over) => coder.write(value, over));
        if (!this.#isHere) {
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
      this.#hasPut = true;
      this.#output?.enqueue(chunk);
    });
    coder.on("error", (error) => this.#failed?.(error));
    return coder;
  }

  #look(): Promise<ReadableStreamReadResult<Uint8Array>> {
    this.#isHere = false;
    const isHere = () => {
      this.#isHere = true;
    };
    const ahead = this.#ahead = this.#source.read();
    ahead.then(isHere, isHere);
    return ahead;
  }

  #await(run: (over: () => void) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#failed = reject;
      run(resolve);
    });
  }

  /** Nobody reads on. */
  cancel(reason: unknown): Promise<void> {
    this.#output = undefined;
    this.#coder?.destroy();
    return this.#source.cancel(reason);
  }
}
