/**
 * A Consul agent whose answers a test sets: each request is given to a handler, whose answer may be a
 * reply, silence, or a broken connection. Listens on loopback, on a port of its own.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { type AgentOptions, resolveAgentOptions } from "../../../src/consul/mod.ts";

/** One request as it came in. */
export interface AgentRequest {
  readonly method: string;
  /** The path without query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

export interface Answer {
  readonly status?: number;
  /** `X-Consul-Index`. */
  readonly index?: number;
  /** `X-Consul-Contenthash`. */
  readonly hash?: string;
  readonly filtered?: boolean;
  /** `X-Consul-LastContact`. */
  readonly lastContactMs?: number;
  /** `X-Consul-Default-Acl-Policy`; `allow` if absent, as Consul has it on every response. */
  readonly aclDefault?: "allow" | "deny" | "";
  readonly json?: unknown;
  /** Instead of `json`. */
  readonly text?: string;
  /** Ends the connection after this many bytes of a longer announced reply. */
  readonly cutAt?: number;
}

/** `hang`: never answered; `drop`: the connection is closed without a word. */
export type Reaction = Answer | "hang" | "drop";
export type Handler = (asked: AgentRequest) => Reaction;

export class ScriptedAgent {
  readonly requests: AgentRequest[] = [];
  /** Connections that are open now, and the most that ever were. */
  open = 0;
  mostOpen = 0;
  /** Requests without an answer whose connections are open. */
  readonly unanswered: Set<AgentRequest> = new Set();
  handler: Handler;
  readonly #server: http.Server;
  readonly #hanging = new Map<http.ServerResponse, AgentRequest>();

  private constructor(handler: Handler) {
    this.handler = handler;
    this.#server = http.createServer((request, response) => this.#serve(request, response));
    this.#server.keepAliveTimeout = 60_000;
    this.#server.on("connection", (socket) => {
      this.mostOpen = Math.max(this.mostOpen, ++this.open);
      socket.on("close", () => this.open--);
    });
  }

  static async start(handler: Handler): Promise<ScriptedAgent> {
    const agent = new ScriptedAgent(handler);
    await new Promise<void>((resolve) => agent.#server.listen(0, "127.0.0.1", resolve));
    return agent;
  }

  /** How many have no answer yet. */
  get waiting(): number {
    return this.unanswered.size;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** How to reach it, without any environment. */
  options(overrides: Partial<AgentOptions> = {}): AgentOptions {
    return { ...resolveAgentOptions({ httpAddr: this.address }, {}), ...overrides };
  }

  /** Asks the handler again what each request is answered that hangs. */
  answerWaiting(): void {
    const hanging = [...this.#hanging];
    this.#hanging.clear();
    for (const [response, asked] of hanging) {
      this.unanswered.delete(asked);
      this.#react(asked, response);
    }
  }

  /** Closes every connection as an agent that is killed does. */
  breakAll(): void {
    this.#hanging.clear();
    this.#server.closeAllConnections();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  #serve(request: http.IncomingMessage, response: http.ServerResponse): void {
    const chunks: Uint8Array[] = [];
    request.on("data", (chunk: Uint8Array) => chunks.push(chunk));
    request.on("error", () => {}); // The test has broken the connection.
    request.on("end", () => {
      const url = new URL(request.url ?? "/", "http://agent");
      const asked: AgentRequest = {
        method: request.method ?? "",
        path: url.pathname,
        query: url.searchParams,
        headers: request.headers,
        body: new TextDecoder().decode(Buffer.concat(chunks)),
      };
      this.requests.push(asked);
      this.#react(asked, response);
    });
  }

  #react(asked: AgentRequest, response: http.ServerResponse): void {
    const reaction = this.handler(asked);
    if (reaction === "drop") return void response.socket?.destroy();
    if (reaction === "hang") {
      this.unanswered.add(asked);
      this.#hanging.set(response, asked);
      response.on("close", () => {
        this.unanswered.delete(asked);
        this.#hanging.delete(response);
      });
      return;
    }
    const body = reaction.text ?? JSON.stringify(reaction.json ?? null);
    response.statusCode = reaction.status ?? 200;
    if (reaction.index !== undefined) response.setHeader("X-Consul-Index", String(reaction.index));
    if (reaction.hash !== undefined) response.setHeader("X-Consul-Contenthash", reaction.hash);
    if (reaction.filtered) response.setHeader("X-Consul-Results-Filtered-By-Acls", "true");
    const { lastContactMs } = reaction;
    if (lastContactMs !== undefined) response.setHeader("X-Consul-LastContact", lastContactMs);
    const { aclDefault = "allow" } = reaction;
    if (aclDefault !== "") response.setHeader("X-Consul-Default-Acl-Policy", aclDefault);
    if (reaction.cutAt === undefined) return void response.end(body);
    response.setHeader("Content-Length", String(Buffer.byteLength(body)));
    response.write(body.slice(0, reaction.cutAt), () => response.socket?.destroy());
  }
}

/** Gives the answers one after the other, then hangs like a long poll without news. */
export function inTurn(...answers: Reaction[]): Handler {
  return () => answers.shift() ?? "hang";
}

/** A recorded reply of a real Consul, parsed. */
export function fixture(name: string): unknown {
  return JSON.parse(fixtureText(`${name}.json`));
}

/** A recorded reply of a real Consul, as it is. */
export function fixtureText(file: string): string {
  return readFileSync(new URL(`../../fixtures/consul/${file}`, import.meta.url), "utf8");
}

/** Lets I/O happen until `fact` holds; fails when it does not within 30 s. */
export async function eventually(fact: () => boolean, what: string): Promise<void> {
  const endMs = performance.now() + 30_000;
  while (!fact()) {
    if (performance.now() > endMs) throw new Error(`never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
