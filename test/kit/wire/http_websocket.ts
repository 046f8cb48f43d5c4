/**
 * WebSocket (RFC 6455) as far as an echo needs it: a server that sends back every frame, and clients
 * over HTTP/1.1 and, by extended CONNECT (RFC 8441), over HTTP/2. No fragments, no extensions.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import * as http2 from "node:http2";
import type { Duplex } from "node:stream";
import type { Place, ServerOptions, TestServer } from "./echo.ts";
import { startServer } from "./echo.ts";
import { RawClient, statusOf, valuesOf } from "./http_raw.ts";
import { deadline } from "../process/process.ts";

const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const KEY = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/** The code of the close frame that an echo sends first. */
export const CLOSED_BY_ECHO = 4_001;
const ANSWER_TIMEOUT_MS = 20_000;

interface Frame {
  readonly opcode: number;
  readonly payload: Buffer;
}

/** One whole frame; clients mask. */
function frameOf({ opcode, payload }: Frame, masked: boolean): Buffer {
  const { length } = payload;
  if (length > 0xffff) throw new Error("longer than a frame of these tests may be");
  const extended = length > 125 ? Buffer.of(length >> 8, length & 0xff) : Buffer.alloc(0);
  const size = length > 125 ? 126 : length;
  const start = Buffer.of(0x80 | opcode, (masked ? 0x80 : 0) | size);
  if (!masked) return Buffer.concat([start, extended, payload]);
  const mask = Buffer.of(0x12, 0x34, 0x56, length & 0xff);
  return Buffer.concat([start, extended, mask, unmask(payload, mask)]);
}

function unmask(payload: Buffer, mask: Buffer): Buffer {
  return Buffer.from(payload.map((byte, at) => byte ^ (mask[at % 4] ?? 0)));
}

function codeOf(code: number): Buffer {
  return Buffer.of(code >> 8, code & 0xff);
}

/** Joins chunks to frames. */
class FrameReader {
  #rest = Buffer.alloc(0);

  push(chunk: Buffer): Frame[] {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    const frames: Frame[] = [];
    for (let frame = this.#next(); frame; frame = this.#next()) frames.push(frame);
    return frames;
  }

  #next(): Frame | undefined {
    const bytes = this.#rest;
    if (bytes.length < 2) return undefined;
    const masked = ((bytes[1] ?? 0) & 0x80) !== 0;
    const short = (bytes[1] ?? 0) & 0x7f;
    if (short === 127 || ((bytes[0] ?? 0) & 0xf0) !== 0x80) throw new Error("no frame of ours");
    if (short === 126 && bytes.length < 4) return undefined;
    const length = short === 126 ? bytes.readUInt16BE(2) : short;
    const maskAt = short === 126 ? 4 : 2;
    const at = maskAt + (masked ? 4 : 0);
    if (bytes.length < at + length) return undefined;
    const payload = bytes.subarray(at, at + length);
    this.#rest = bytes.subarray(at + length);
    const opcode = (bytes[0] ?? 0) & 0x0f;
    return { opcode, payload: masked ? unmask(payload, bytes.subarray(maskAt, at)) : payload };
  }
}

/** Accepts every upgrade to `websocket` and echoes; anything else is a 400. */
export function startWebSocketEcho(options: ServerOptions = {}): Promise<TestServer> {
  return startServer((socket) => {
    let head = "";
    const greet = (chunk: Buffer) => {
      head += chunk.toString("latin1");
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      socket.off("data", greet);
      if (!echoWebSocket(socket, head)) {
        socket.end("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
      } else if (head.length > end + 4) {
        socket.emit("data", Buffer.from(head.slice(end + 4), "latin1"));
      }
    };
    socket.on("data", greet);
    socket.on("end", () => socket.end());
  }, options);
}

/**
 * Answers the head of an upgrade and echoes every frame from then on; the text `close` is answered by a
 * close frame of its own, with {@link CLOSED_BY_ECHO}. False: it is no upgrade to a WebSocket.
 */
export function echoWebSocket(socket: Duplex, head: string): boolean {
  const key = /^sec-websocket-key:[ \t]*(\S+)/im.exec(head)?.[1] ?? "";
  if (!/^upgrade: websocket\r?$/im.test(head) || !/^connection:.*upgrade/im.test(head)) {
    return false;
  }
  const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
  socket.write(
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
      `Sec-WebSocket-Accept: ${accept.digest("base64")}\r\n\r\n`,
  );
  const frames = new FrameReader();
  let closing = false;
  socket.on("data", (chunk: Buffer) => {
    for (const frame of frames.push(chunk)) {
      const isAsked = frame.opcode === TEXT && frame.payload.toString() === "close";
      const answer = isAsked ? { opcode: CLOSE, payload: codeOf(CLOSED_BY_ECHO) } : frame;
      // The reply to our own close frame is not answered.
      if (!(closing && frame.opcode === CLOSE)) socket.write(frameOf(answer, false));
      if (frame.opcode === CLOSE) socket.end();
      closing ||= isAsked;
    }
  });
  return true;
}

/** How a WebSocket ended: the code of the other side's close frame, and whether the stream ended in order. */
interface WebSocketEnd {
  readonly code: number | undefined;
  readonly how: "end" | "broken";
}

/** The client's end of an open WebSocket. */
export class WebSocketClient implements AsyncDisposable {
  readonly #stream: Duplex;
  readonly #dispose: () => void;
  readonly #frames = new FrameReader();
  readonly #arrived: Frame[] = [];
  #how: WebSocketEnd["how"] | undefined;
  #wake = () => {};

  constructor(stream: Duplex, dispose: () => void) {
    this.#stream = stream;
    this.#dispose = dispose;
    stream.on("data", (chunk: Buffer) => {
      this.#arrived.push(...this.#frames.push(chunk));
      this.#wake();
    });
    const over = (how: WebSocketEnd["how"]) => {
      this.#how ??= how;
      this.#wake();
    };
    stream.on("end", () => over("end"));
    for (const event of ["error", "close"]) stream.on(event, () => over("broken"));
  }

  send(payload: Uint8Array): void {
    this.#write({ opcode: BINARY, payload: Buffer.from(payload) });
  }

  /** The next message; undefined: a close frame, or the end of the connection. */
  async next(): Promise<Buffer | undefined> {
    const frame = await this.#next();
    return frame?.opcode === BINARY ? frame.payload : undefined;
  }

  /** Asks the echo to close it, and answers its close frame. */
  async askToBeClosed(): Promise<WebSocketEnd> {
    this.#write({ opcode: TEXT, payload: Buffer.from("close") });
    return await this.ended({ answer: true });
  }

  /** Sends a close frame. */
  async finish(code = 1_000): Promise<WebSocketEnd> {
    this.#write({ opcode: CLOSE, payload: codeOf(code) });
    return await this.ended();
  }

  /** Waits for its end; fails where a message comes before. `answer`: to the close frame. */
  async ended({ answer = false } = {}): Promise<WebSocketEnd> {
    const close = await this.#next();
    if (close && close.opcode !== CLOSE) throw new Error("A message before the end");
    if (close && answer) this.#write(close);
    if (close && await this.#next()) throw new Error("A frame after the close frame");
    this.#stream.end();
    return { code: close?.payload.readUInt16BE(0), how: this.#how ?? "broken" };
  }

  #write(frame: Frame): void {
    this.#stream.write(frameOf(frame, true));
  }

  async #next(): Promise<Frame | undefined> {
    const until = performance.now() + ANSWER_TIMEOUT_MS;
    while (this.#arrived.length === 0 && !this.#how) {
      const change = new Promise<true>((resolve) => this.#wake = () => resolve(true));
      if (!await deadline(change, Math.max(1, until - performance.now()))) {
        throw new Error("No frame in time");
      }
    }
    return this.#arrived.shift();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#dispose();
    return Promise.resolve();
  }
}

/** Over HTTP/1.1; fails where the answer is not 101. */
export async function openWebSocket(place: Place, path = "/ws"): Promise<WebSocketClient> {
  const client = await RawClient.open(place);
  client.send(
    `GET ${path} HTTP/1.1\r\nHost: db\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n\r\n`,
  );
  const answer = await client.response();
  if (statusOf(answer) !== 101 || valuesOf(answer, "sec-websocket-accept")[0] !== ACCEPT) {
    client.socket.destroy();
    throw new Error(`No WebSocket: ${answer.head}`);
  }
  return new WebSocketClient(client.socket, () => client.socket.destroy());
}

/** By extended CONNECT, once the server has announced it; fails where the answer is not 200. */
export async function openWebSocketOverHttp2(
  place: Place,
  path = "/ws",
): Promise<WebSocketClient> {
  const session = http2.connect(`http://${place.host}:${place.port}`);
  const settled = new Promise<WebSocketClient>((resolve, reject) => {
    session.on("error", reject);
    session.on("remoteSettings", (settings) => {
      if (!settings.enableConnectProtocol) return reject(new Error("No extended CONNECT"));
      const stream = session.request({
        ":method": "CONNECT",
        ":protocol": "websocket",
        ":scheme": "http",
        ":path": path,
        ":authority": "db",
        "sec-websocket-version": "13",
      }, { endStream: false });
      stream.on("error", reject);
      stream.on("response", (head) => {
        if (head[":status"] !== 200) reject(new Error(`No WebSocket: ${head[":status"]}`));
        else resolve(new WebSocketClient(stream, () => session.destroy()));
      });
    });
  });
  try {
    const client = await deadline(settled, ANSWER_TIMEOUT_MS);
    if (!client) throw new Error("No answer to the extended CONNECT in time");
    return client;
  } catch (error) {
    session.destroy();
    throw error;
  }
}
