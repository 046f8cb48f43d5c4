/**
 * Origins of both protocols that answer each request with its body and count the requests for each path.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createServer } from "node:http";
import * as http2 from "node:http2";
import type { AddressInfo } from "node:net";
import type { Place, ServerOptions } from "./echo.ts";
import { answerOf, startRawOrigin } from "./http_raw.ts";

/** The number of complete requests for each id; several origins may share it. */
export class RequestCounts {
  readonly #times = new Map<string, number>();

  seen(path: string): void {
    this.#times.set(path, (this.#times.get(path) ?? 0) + 1);
  }

  timesOf(path: string): number {
    return this.#times.get(path) ?? 0;
  }

  get total(): number {
    let sum = 0;
    for (const times of this.#times.values()) sum += times;
    return sum;
  }

  /** Ids that came more than once. */
  get repeated(): readonly string[] {
    return [...this.#times].filter(([, times]) => times > 1).map(([path]) => path);
  }
}

export interface CountingOrigin extends Place, AsyncDisposable {
  readonly counts: RequestCounts;
}

interface CountingOptions extends ServerOptions {
  readonly protocol?: "http" | "http2";
  readonly counts?: RequestCounts;
  /** Requests take so long, so that some are under way at any moment; default: none. */
  readonly delayMs?: number;
}

/** Answers every request with its own body. */
export async function startCountingOrigin(options: CountingOptions = {}): Promise<CountingOrigin> {
  const { protocol = "http", counts = new RequestCounts(), delayMs = 0, ...place } = options;
  if (protocol === "http2") return await startHttp2Origin(counts, { ...place, delayMs });
  if (delayMs > 0) return await startSlowOrigin(counts, { ...place, delayMs });
  const origin = await startRawOrigin(({ head, body }) => {
    counts.seen(head.split(" ")[1] ?? "");
    return answerOf(body);
  }, place);
  return {
    counts,
    host: origin.host,
    port: origin.port,
    [Symbol.asyncDispose]: () => origin[Symbol.asyncDispose](),
  };
}

type PlaceOptions = ServerOptions & { readonly delayMs: number };

async function startSlowOrigin(
  counts: RequestCounts,
  { host = "127.0.0.1", port = 0, delayMs }: PlaceOptions,
): Promise<CountingOrigin> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      counts.seen(request.url ?? "");
      const body = Buffer.concat(chunks);
      setTimeout(() => {
        response.writeHead(200, { "content-length": String(body.length) });
        response.end(body);
      }, delayMs);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    counts,
    host,
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function startHttp2Origin(
  counts: RequestCounts,
  { host = "127.0.0.1", port = 0, delayMs }: PlaceOptions,
): Promise<CountingOrigin> {
  const sessions = new Set<http2.ServerHttp2Session>();
  const server = http2.createServer();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    session.on("error", () => session.destroy());
  });
  server.on("stream", (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => {
    const chunks: Buffer[] = [];
    // The proxy gave up: its client reports that.
    stream.on("error", () => {});
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      counts.seen(String(headers[":path"]));
      const body = Buffer.concat(chunks);
      const answer = () => {
        if (stream.destroyed) return;
        stream.respond({ ":status": 200, "content-length": String(body.length) });
        stream.end(body);
      };
      if (delayMs > 0) setTimeout(answer, delayMs);
      else answer();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    counts,
    host,
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const session of sessions) session.destroy();
      await closed;
    },
  };
}
