/**
 * HTTP/1.1 as bytes, for stories about the bytes that really go over a wire: a client that sends exactly
 * the test's bytes, and an origin that keeps exactly those that reached it. Neither knows more of HTTP
 * than where a message ends, and a message with two ends is a fault, not a guess.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import { openClient, type TestClient } from "../engine/data_path.ts";
import { type Place, type ServerOptions, startServer, type TestServer } from "./echo.ts";
import { deadline } from "../process/process.ts";

/** One message as it stood on the wire; octets are characters of the same number. */
export interface RawMessage {
  /** First line and fields, without the empty line. */
  readonly head: string;
  /** The body without the framing of chunks. */
  readonly body: string;
  /** The fields after the last chunk. */
  readonly trailers: string;
  /** All of its bytes. */
  readonly raw: string;
}

const ANSWER_TIMEOUT_MS = 20_000;

/** The message at the beginning of `text`; undefined: it is not complete. Throws for one with two ends. */
export function messageAt(
  text: string,
  options: { readonly untilClosed?: boolean; readonly noBody?: boolean } = {},
): RawMessage | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const head = text.slice(0, end);
  const at = end + 4;
  const lengths = [...head.matchAll(/^content-length:[ \t]*(.*?)[ \t]*$/gim)].map(([, n]) => n);
  const codings = [...head.matchAll(/^transfer-encoding:[ \t]*(.*?)[ \t]*$/gim)].map(([, n]) => n);
  if (lengths.length + codings.length > 1) throw new Error(`two ends: ${JSON.stringify(head)}`);
  const whole = (body: string, bytes: number, trailers = "") => ({
    head,
    body,
    trailers,
    raw: text.slice(0, at + bytes),
  });
  if (options.noBody) return whole("", 0);
  if (codings.length > 0) {
    if (codings[0] !== "chunked") throw new Error(`not chunked: ${JSON.stringify(head)}`);
    return chunkedAt(text, at, whole);
  }
  if (lengths.length > 0) {
    const length = Number(lengths[0]);
    return text.length < at + length ? undefined : whole(text.slice(at, at + length), length);
  }
  return options.untilClosed ? undefined : whole("", 0);
}

function chunkedAt(
  text: string,
  from: number,
  whole: (body: string, bytes: number, trailers: string) => RawMessage,
): RawMessage | undefined {
  let body = "";
  for (let at = from;;) {
    const line = text.indexOf("\r\n", at);
    if (line < 0) return undefined;
    const size = text.slice(at, line);
    if (!/^[0-9a-f]+$/i.test(size)) throw new Error(`no chunk size: ${JSON.stringify(size)}`);
    const length = parseInt(size, 16);
    const data = line + 2;
    if (length === 0) {
      const end = text.startsWith("\r\n", data) ? data : text.indexOf("\r\n\r\n", data) + 2;
      if (end < data) return undefined;
      return whole(body, end + 2 - from, text.slice(data, end));
    }
    if (text.length < data + length + 2) return undefined;
    if (!text.startsWith("\r\n", data + length)) throw new Error("no end of chunk");
    body += text.slice(data, data + length);
    at = data + length + 2;
  }
}

export function statusOf({ head }: Pick<RawMessage, "head">): number {
  return Number(/^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(head)?.[1] ?? NaN);
}

/** All values of a field, in order. */
export function valuesOf({ head }: Pick<RawMessage, "head">, name: string): string[] {
  const lines = head.split("\r\n").slice(1);
  return lines.filter((line) => line.toLowerCase().startsWith(`${name}:`))
    .map((line) => line.slice(name.length + 1).trim());
}

/** A connection on which the test writes every byte. */
export class RawClient implements AsyncDisposable {
  readonly socket: Socket;
  readonly #client: TestClient;
  #text = "";
  #over = false;
  #wake = () => {};

  private constructor(client: TestClient) {
    this.#client = client;
    this.socket = client.socket;
    client.socket.on("data", (chunk: Buffer) => {
      this.#text += chunk.toString("latin1");
      this.#wake();
    });
    void client.gone.then(() => {
      this.#over = true;
      this.#wake();
    });
  }

  static async open({ host, port }: Place): Promise<RawClient> {
    return new RawClient(await openClient(port, host));
  }

  /** Octets are characters of the same number. */
  send(text: string): void {
    this.socket.write(Buffer.from(text, "latin1"));
  }

  /** The next response; a failure where the connection ends before it does. */
  async response(options: { readonly to?: string } = {}): Promise<RawMessage> {
    const answer = await this.#until(() => {
      const noBody = options.to === "HEAD" || /^HTTP\/1\.1 (1\d\d|204|304)/.test(this.#text);
      const found = messageAt(this.#text, { untilClosed: true, noBody });
      if (found) return found;
      if (!this.#over) return undefined;
      const length = this.#text.indexOf("\r\n\r\n") + 4;
      if (length < 4 || /^(content-length|transfer-encoding):/im.test(this.#text)) {
        throw new Error(`Connection ended in a response: ${JSON.stringify(this.#text)}`);
      }
      const [head, body] = [this.#text.slice(0, length - 4), this.#text.slice(length)];
      return { head, body, trailers: "", raw: this.#text };
    });
    this.#text = this.#text.slice(answer.raw.length);
    return answer;
  }

  /** Whether there is one, or the connection ended without. */
  async responseOrEnd(): Promise<RawMessage | undefined> {
    await this.#until(() => this.#over || this.#text.includes("\r\n\r\n") ? true : undefined);
    return this.#text === "" ? undefined : await this.response();
  }

  /** Bytes up to and with the first `length`. */
  async bytes(length: number): Promise<string> {
    await this.#until(() => {
      if (this.#text.length >= length) return true;
      if (this.#over) throw new Error(`Connection ended after ${JSON.stringify(this.#text)}`);
      return undefined;
    });
    const bytes = this.#text.slice(0, length);
    this.#text = this.#text.slice(length);
    return bytes;
  }

  /** How the connection ended, and the unread bytes before that. */
  async ended(): Promise<{ readonly how: "end" | "reset"; readonly rest: string }> {
    const how = await deadline(this.#client.gone, ANSWER_TIMEOUT_MS);
    if (!how) throw new Error(`Connection is still open: ${JSON.stringify(this.#text)}`);
    return { how, rest: this.#text };
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** One request on a connection of its own. */
  static async ask(place: Place, request: string): Promise<RawMessage> {
    await using client = await RawClient.open(place);
    client.send(request);
    return await client.response();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    return Promise.resolve();
  }

  async #until<T>(look: () => T | undefined): Promise<T> {
    const until = performance.now() + ANSWER_TIMEOUT_MS;
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      const change = new Promise<true>((resolve) => this.#wake = () => resolve(true));
      if (!await deadline(change, Math.max(1, until - performance.now()))) {
        throw new Error(`No answer in time after ${JSON.stringify(this.#text.slice(-500))}`);
      }
    }
  }
}

/** The bytes that an origin sends for a request, or nothing because it took the socket itself. */
export type RawAnswer = (request: RawMessage, socket: Socket) => string | undefined;

export interface RawOrigin extends Place, AsyncDisposable {
  readonly server: TestServer;
  /** Every complete request, in the order of their ends. */
  readonly requests: RawMessage[];
  /** Invalid requests: with two ends, with a broken chunk. */
  readonly faults: string[];
  /** Everything that came, by connection. */
  readonly received: string[];
}

/** A response with a length. */
export function answerOf(body: string, head = "HTTP/1.1 200 OK"): string {
  return `${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** Answers each request, by default 200 and `ok`; a fault ends the connection. */
export async function startRawOrigin(
  answer: RawAnswer = () => answerOf("ok"),
  options: ServerOptions = {},
): Promise<RawOrigin> {
  const requests: RawMessage[] = [];
  const faults: string[] = [];
  const received: string[] = [];
  const server = await startServer((socket) => {
    const connection = received.push("") - 1;
    let text = "";
    let taken = false;
    socket.on("data", (chunk: Buffer) => {
      const more = chunk.toString("latin1");
      received[connection] += more;
      if (taken) return;
      text += more;
      try {
        for (let found = messageAt(text); found && !taken; found = messageAt(text)) {
          text = text.slice(found.raw.length);
          requests.push(found);
          const bytes = answer(found, socket);
          if (bytes === undefined) taken = true;
          else if (bytes !== "") socket.write(Buffer.from(bytes, "latin1"));
        }
      } catch (error) {
        faults.push(error instanceof Error ? error.message : String(error));
        socket.destroy();
      }
    });
    socket.on("end", () => socket.end());
  }, options);
  return {
    server,
    host: server.host,
    port: server.port,
    requests,
    faults,
    received,
    [Symbol.asyncDispose]: () => server.close(),
  };
}
