/**
 * Measures "not one request lost, none answered twice": clients of both protocols that exchange requests
 * until they are stopped, each with an id of its own that origins count. Bounded: a few connections,
 * small bodies, a pause between them.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import * as http2 from "node:http2";
import { pattern, type Place } from "./echo.ts";
import type { RequestCounts } from "./http_origin.ts";
import { RawClient, statusOf } from "./http_raw.ts";
import { type LoadResult, Workers } from "./load.ts";
import { pause } from "../process/process.ts";

export interface HttpLoadOptions {
  /** HTTP/1.1 connections that stay, and clients that open one for each request. */
  readonly keptAlive?: number;
  readonly shortLived?: number;
  /** HTTP/2 connections, by prior knowledge, of four requests at a time each. */
  readonly http2?: number;
  readonly pauseMs?: number;
  readonly maxBodyBytes?: number;
  /** Fields of every request, names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
}

interface HttpLoadResult extends LoadResult {
  /** Ids that reached the origins more than once. */
  readonly repeated: readonly string[];
  /** Answers to requests that no origin has seen. */
  readonly invented: number;
}

/** Fails unless each request was answered, in order, and by one origin. */
export function assertExactlyOnce(
  { errors, exchanges, messages, repeated, invented }: HttpLoadResult,
  { atLeast }: { readonly atLeast: number },
): void {
  const faults = [
    errors > 0 ? `${errors} errors in ${exchanges} requests:\n${messages.join("\n")}` : "",
    repeated.length > 0 ? `${repeated.length} requests came twice: ${repeated.slice(0, 5)}` : "",
    invented > 0 ? `${invented} answers to requests that never arrived` : "",
    exchanges < atLeast ? `Only ${exchanges} requests: too few to prove anything` : "",
  ].filter((fault) => fault !== "");
  if (faults.length > 0) throw new Error(faults.join("\n"));
}

const STREAMS = 4;

/** Clients that run until they are stopped; every second request has a body and must not come twice. */
export class HttpLoad extends Workers<HttpLoadResult> {
  readonly #place: Place;
  readonly #requests: RequestCounts;
  readonly #options: Required<HttpLoadOptions>;
  #next = 0;
  #invented = 0;

  constructor(place: Place, requests: RequestCounts, options: HttpLoadOptions = {}) {
    super();
    this.#place = place;
    this.#requests = requests;
    this.#options = {
      keptAlive: 4,
      shortLived: 2,
      http2: 0,
      pauseMs: 5,
      maxBodyBytes: 16_384,
      headers: {},
      ...options,
    };
    this.start(this.#options.keptAlive, () => this.#http1("kept alive", true));
    this.start(this.#options.shortLived, () => this.#http1("short-lived", false));
    this.start(this.#options.http2, () => this.#http2());
  }

  get result(): HttpLoadResult {
    const { repeated } = this.#requests;
    return { ...this.counts, repeated, invented: this.#invented };
  }

  /** Path and body of another request. */
  #request(): { readonly path: string; readonly body: Uint8Array } {
    const id = ++this.#next;
    const { maxBodyBytes } = this.#options;
    const body = id % 2 === 0 || maxBodyBytes === 0 ? new Uint8Array(0) : pattern(id, maxBodyBytes);
    return { path: `/load/${id}`, body };
  }

  #judge(path: string, wanted: Uint8Array, answer: { status: number; body: Buffer }): void {
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.body}`);
    if (!answer.body.equals(wanted)) {
      throw new Error(`${path}: ${answer.body.length} of ${wanted.length} bytes, or others`);
    }
    this.exchanges++;
    if (this.#requests.timesOf(path) === 0) this.#invented++;
  }

  async #http1(kind: string, keep: boolean): Promise<void> {
    const fields = Object.entries(this.#options.headers)
      .map(([name, value]) => `${name}: ${value}\r\n`).join("");
    while (!this.stopping) {
      await this.guarded(kind, async () => {
        await using client = await RawClient.open(this.#place);
        this.connections++;
        do {
          const { path, body } = this.#request();
          const method = body.length > 0 ? "POST" : "GET";
          const length = body.length > 0 ? `Content-Length: ${body.length}\r\n` : "";
          const close = keep ? "" : "Connection: close\r\n";
          client.send(`${method} ${path} HTTP/1.1\r\nHost: db\r\n${fields}${length}${close}\r\n`);
          if (body.length > 0) client.socket.write(body);
          const answer = await client.response();
          this.#judge(path, body, {
            status: statusOf(answer),
            body: Buffer.from(answer.body, "latin1"),
          });
          // The proxy announced that this was the last one here: no request is lost.
          if (/^connection:.*close/im.test(answer.head)) break;
          await pause(this.#options.pauseMs);
        } while (keep && !this.stopping && !client.isOver);
      });
    }
  }

  async #http2(): Promise<void> {
    while (!this.stopping) {
      await this.guarded("HTTP/2", async () => {
        const { host, port } = this.#place;
        const session = http2.connect(`http://${host}:${port}`);
        this.connections++;
        const failed = new Promise<never>((_, reject) => {
          session.on("error", reject);
        });
        failed.catch(() => {});
        let leaving = false;
        session.on("goaway", () => leaving = true);
        const one = async () => {
          while (!this.stopping && !leaving && !session.closed) {
            const { path, body } = this.#request();
            const answer = await Promise.race([failed, this.#ask(session, path, body)]);
            this.#judge(path, body, answer);
            await pause(this.#options.pauseMs);
          }
        };
        try {
          await Promise.all(Array.from({ length: STREAMS }, one));
        } finally {
          session.destroy();
        }
      });
    }
  }

  #ask(
    session: http2.ClientHttp2Session,
    path: string,
    body: Uint8Array,
  ): Promise<{ status: number; body: Buffer }> {
    return new Promise((resolve, reject) => {
      const stream = session.request({
        ":method": body.length > 0 ? "POST" : "GET",
        ":path": path,
        ":authority": "db",
        ...this.#options.headers,
        ...(body.length > 0 ? { "content-length": String(body.length) } : {}),
      }, { endStream: body.length === 0 });
      const chunks: Buffer[] = [];
      let status = NaN;
      const broken = (what: string) => {
        const when = Number.isNaN(status) ? "" : `in a response of ${status}: `;
        reject(new Error(`${path}: ${when}${what}`));
      };
      stream.on("response", (head) => status = Number(head[":status"]));
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("error", (error) => broken(error.message));
      stream.on("end", () => resolve({ status, body: Buffer.concat(chunks) }));
      // After `end` it changes nothing.
      stream.on("close", () => broken("the stream was closed"));
      if (body.length > 0) stream.end(body);
    });
  }
}
