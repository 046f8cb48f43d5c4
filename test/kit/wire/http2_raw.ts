/**
 * HTTP/2 as frames, for stories about heads that no library would send: fields as literals, nothing
 * checked. The answer is recorded as the types of its frames.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Place } from "./echo.ts";
import { openClient } from "../engine/data_path.ts";
import { deadline } from "../process/process.ts";

export const FRAME = {
  data: 0,
  headers: 1,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG = { ack: 1, endStream: 1, endHeaders: 4 } as const;

interface RawFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export type RawField = readonly [name: string, value: string];

function frameBytes(frame: Omit<RawFrame, "payload"> & { payload?: Uint8Array }): Buffer {
  const payload = Buffer.from(frame.payload ?? []);
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = frame.type;
  head[4] = frame.flags;
  head.writeUInt32BE(frame.stream, 5);
  return Buffer.concat([head, payload]);
}

/** Literals without indexing or Huffman codes (RFC 7541 6.2.2); octets are characters. */
function headerBlock(fields: readonly RawField[]): Buffer {
  const text = (value: string) => {
    const bytes = Buffer.from(value, "latin1");
    if (bytes.length < 127) return Buffer.concat([Buffer.of(bytes.length), bytes]);
    const length: number[] = [127];
    let rest = bytes.length - 127;
    for (; rest > 127; rest >>= 7) length.push(0x80 | (rest & 0x7f));
    return Buffer.concat([Buffer.from([...length, rest]), bytes]);
  };
  return Buffer.concat(
    fields.flatMap(([name, value]) => [Buffer.of(0), text(name), text(value)]),
  );
}

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const ANSWER_TIMEOUT_MS = 20_000;

/** The outcome of a stream: answered, reset, or ended with its connection. */
export type StreamEnd = "headers" | "reset" | "closed";

/** A connection by prior knowledge, settings sent. */
export class RawHttp2Client implements AsyncDisposable {
  readonly frames: RawFrame[] = [];
  readonly #client: Awaited<ReturnType<typeof openClient>>;
  #rest = Buffer.alloc(0);
  #over = false;
  #wake = () => {};

  private constructor(client: Awaited<ReturnType<typeof openClient>>) {
    this.#client = client;
    client.socket.on("data", (chunk: Buffer) => {
      this.#rest = Buffer.concat([this.#rest, chunk]);
      this.#read();
      this.#wake();
    });
    void client.gone.then(() => {
      this.#over = true;
      this.#wake();
    });
  }

  static async open({ host, port }: Place): Promise<RawHttp2Client> {
    const client = new RawHttp2Client(await openClient(port, host));
    client.write(PREFACE);
    client.frame({ type: FRAME.settings, flags: 0, stream: 0 });
    return client;
  }

  write(bytes: Uint8Array): void {
    this.#client.socket.write(bytes);
  }

  frame(frame: Parameters<typeof frameBytes>[0]): void {
    this.write(frameBytes(frame));
  }

  /** A head in one frame. */
  headers(stream: number, fields: readonly RawField[], endStream: boolean): void {
    const flags = FLAG.endHeaders | (endStream ? FLAG.endStream : 0);
    this.frame({ type: FRAME.headers, flags, stream, payload: headerBlock(fields) });
  }

  /** Waits until the server has answered or ended the stream, or the connection is over. */
  async ended(stream: number): Promise<StreamEnd> {
    const answer = await this.until(() => {
      const types = this.frames.filter((frame) => frame.stream === stream).map(({ type }) => type);
      if (types.includes(FRAME.headers)) return "headers";
      if (types.includes(FRAME.rstStream)) return "reset";
      return undefined;
    });
    return answer ?? "closed";
  }

  /** The first value that `look` gives; undefined: the connection ended without. */
  async until<T>(look: () => T | undefined): Promise<T | undefined> {
    const until = performance.now() + ANSWER_TIMEOUT_MS;
    for (;;) {
      const found = look();
      if (found !== undefined || this.#over) return found;
      const change = new Promise<true>((resolve) => this.#wake = () => resolve(true));
      if (!await deadline(change, Math.max(1, until - performance.now()))) {
        throw new Error(`Nothing in time after frames ${this.frames.map(({ type }) => type)}`);
      }
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#client.socket.destroy();
    return Promise.resolve();
  }

  #read(): void {
    while (this.#rest.length >= 9) {
      const length = this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < 9 + length) return;
      const [type = 0, flags = 0] = this.#rest.subarray(3, 5);
      const stream = this.#rest.readUInt32BE(5) & 0x7fffffff;
      this.frames.push({ type, flags, stream, payload: this.#rest.subarray(9, 9 + length) });
      this.#rest = this.#rest.subarray(9 + length);
      if (type === FRAME.settings && (flags & FLAG.ack) === 0) {
        this.frame({ type: FRAME.settings, flags: FLAG.ack, stream: 0 });
      }
    }
  }
}
