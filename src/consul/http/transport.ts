/**
 * One HTTP/1.1 request and its whole reply: TCP, TLS with a client certificate, or a unix
 * socket; connections are kept alive. Knows nothing of Consul; every wait and every size is bounded.
 *
 * @module
 */

import http from "node:http";
import https from "node:https";
import { type Address, type Clock, formatAddress, ProxyError } from "../../base/mod.ts";
import type { TransportTls } from "./files.ts";
import { explainRefusal, isRefusedCertificate } from "./tls_trouble.ts";
import {
  type AnsweringPeer,
  bodyText,
  givenUp,
  NoReply,
  type WireReply,
  type WireRequest,
  type WireTransport,
} from "./carrier.ts";
import { reasonOf } from "./unreachable.ts";

export interface TransportOptions {
  /** For messages; absent: an agent. */
  readonly peer?: AnsweringPeer;
  readonly address: Address;
  readonly tls: TransportTls | null;
  readonly clock: Clock;
}

/** The agent's certificate is looked at again after this. */
const LOOK_AGAIN_MS = 10_000;

type Failure = (error: ProxyError) => void;

export class Transport implements WireTransport {
  readonly #options: TransportOptions;
  readonly #agent: http.Agent;
  readonly #running = new Set<Failure>();
  /** The last look at a certificate that was refused. */
  #look: {
    readonly code: string;
    readonly atMs: number;
    readonly text: Promise<string | undefined>;
  } | undefined;
  #closed = false;
  #retired = false;

  constructor(options: TransportOptions) {
    this.#options = options;
    // How many run at once is for the budget to say; idle ones are never more than ran at once.
    this.#agent = options.tls
      ? new https.Agent({ keepAlive: true })
      : new http.Agent({ keepAlive: true });
  }

  /** The address for people: `https://127.0.0.1:8501`. */
  get where(): string {
    const { address, tls } = this.#options;
    return address.kind === "unix"
      ? formatAddress(address)
      : `${tls ? "https" : "http"}://${formatAddress(address)}`;
  }

  /** Fails with `agent_unreachable`, `agent_reply_invalid` (too long) or `closed` (aborted). */
  async send(request: WireRequest): Promise<WireReply> {
    try {
      return await this.#sendOnce(request);
    } catch (error) {
      // An idle connection that the agent closed while we were writing: ask once more on another.
      if (error instanceof StaleConnection && request.repeatable) {
        return await this.#sendOnce(request);
      }
      throw error;
    }
  }

  /** Ends every connection; running requests fail with `closed`. */
  close(): void {
    this.#closed = true;
    for (const fail of [...this.#running]) fail(givenUp());
    this.#agent.destroy();
  }

  /** Takes no new work into account: closes when what runs has ended. For changed certificates. */
  retire(): void {
    this.#retired = true;
    if (this.#running.size === 0) this.close();
    else this.dropIdle();
  }

  /** Closes connections that carry nothing. */
  dropIdle(): void {
    for (const sockets of Object.values(this.#agent.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }

  #sendOnce(wire: WireRequest): Promise<WireReply> {
    if (this.#closed || wire.signal?.aborted) return Promise.reject(givenUp());
    const { clock, tls } = this.#options;
    return new Promise((resolve, reject) => {
      const request = (tls ? https : http).request(this.#requestOptions(wire));
      const chunks: Uint8Array[] = [];
      let size = 0;
      let answered = false;
      // Deno sends a request that fails on a reused connection again by itself, even one that was
      // destroyed on purpose, unless the request says that its connection is new. A long poll must not
      // be sent again with its index, and one that was given up not at all.
      const reused = request.reusedSocket;
      request.reusedSocket = false;
      const settle = (finish: () => void) => {
        if (!this.#running.delete(fail)) return;
        timer.cancel();
        wire.signal?.removeEventListener("abort", onAbort);
        finish();
        if (this.#retired && this.#running.size === 0) this.close();
      };
      const fail: Failure = (error) =>
        settle(() => {
          reject(error);
          // Deno reports nothing for a request destroyed before its reply, so this comes second.
          request.destroy();
        });
      const onAbort = () => fail(givenUp());
      const timer = clock.after(
        wire.timeoutMs,
        () => fail(new NoReply(this.#cannot(`no reply within ${wire.timeoutMs} ms`))),
      );
      this.#running.add(fail);
      wire.signal?.addEventListener("abort", onAbort);

      request.on("error", (error: unknown) => {
        const stale = reused && !answered;
        const failed = (reason: string) => {
          const text = this.#cannot(reason);
          fail(
            stale
              ? new StaleConnection(text, { cause: error })
              : new ProxyError("agent_unreachable", text, { cause: error }),
          );
        };
        const refusal = stale ? undefined : this.#explainRefusal(error);
        const plain = () => failed(reasonOf(error, this.#options));
        if (refusal) refusal.then((text) => text ? failed(text) : plain(), plain);
        else plain();
      });
      request.on("response", (reply: http.IncomingMessage) => {
        answered = true;
        const cut = () => {
          const text = this.#cannot(`the connection ended after ${size} bytes of the reply`);
          fail(new ProxyError("agent_unreachable", text));
        };
        reply.on("data", (chunk: Uint8Array) => {
          size += chunk.length;
          if (size <= wire.limitBytes) return void chunks.push(chunk);
          chunks.length = 0;
          const text =
            `Cannot read ${wire.method} ${withoutQuery(wire.path)} from ${this.where}: ` +
            `the reply is longer than ${wire.limitBytes} bytes`;
          fail(new ProxyError("agent_reply_invalid", text));
        });
        reply.on("error", cut);
        reply.on("aborted", cut);
        reply.on("end", () => {
          if (reply.complete === false) return cut();
          settle(() =>
            resolve({
              status: reply.statusCode ?? 0,
              headers: flatten(reply.headers),
              body: bodyText(chunks, size),
            })
          );
        });
      });
      request.end(wire.body);
    });
  }

  #requestOptions(wire: WireRequest): https.RequestOptions {
    const { address, tls } = this.#options;
    const headers: Record<string, string> = { ...wire.headers, "accept-encoding": "identity" };
    if (wire.body !== undefined) {
      headers["content-type"] = "application/json";
      headers["content-length"] = String(new TextEncoder().encode(wire.body).length);
    }
    return {
      agent: this.#agent,
      method: wire.method,
      path: wire.path,
      headers,
      ...(address.kind === "unix"
        ? { socketPath: address.path, host: "localhost" }
        : { host: address.host, port: address.port }),
      ...(tls ? tlsOptions(tls) : {}),
    };
  }

  /** `undefined`: it was not the agent's certificate that we refused. */
  #explainRefusal(error: unknown): Promise<string | undefined> | undefined {
    const { address, tls, clock } = this.#options;
    const code = (error as { code?: unknown } | null)?.code;
    if (!tls || address.kind !== "tcp" || !isRefusedCertificate(code)) return undefined;
    // All that fail at once are told the same: one look serves them.
    const nowMs = clock.monotonic();
    if (this.#look?.code !== code || nowMs - this.#look.atMs >= LOOK_AGAIN_MS) {
      this.#look = { code, atMs: nowMs, text: explainRefusal(code, { address, tls, clock }) };
    }
    return this.#look.text;
  }

  #cannot(fact: string): string {
    return `Cannot reach the Consul ${this.#options.peer ?? "agent"} at ${this.where}: ${fact}`;
  }
}

/** A kept-alive connection turned out to be closed; not seen outside this file. */
class StaleConnection extends ProxyError {
  constructor(message: string, options: { readonly cause: unknown }) {
    super("agent_unreachable", message, options);
  }
}

function tlsOptions(tls: TransportTls): https.RequestOptions {
  return {
    ...(tls.caPems.length ? { ca: [...tls.caPems] } : {}),
    ...(tls.certPem ? { cert: tls.certPem, key: tls.keyPem } : {}),
    ...(tls.serverName ? { servername: tls.serverName } : {}),
    rejectUnauthorized: tls.verify,
  };
}

function flatten(headers: http.IncomingHttpHeaders): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) {
      flat[name.toLowerCase()] = Array.isArray(value) ? value.join(", ") : value;
    }
  }
  return flat;
}

function withoutQuery(path: string): string {
  return path.split("?")[0] ?? path;
}
