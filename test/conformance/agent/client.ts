/**
 * A client that sees what an agent really sends: header names as written, texts, times. One connection
 * per call, HTTP/1.0 so that no body is chunked.
 *
 * @module
 */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { connect } from "node:net";

/** An agent that the contract is run against. */
export interface AgentUnderTest {
  readonly host: string;
  readonly port: number;
  /** May do everything; `""` without ACLs. */
  readonly managementToken: string;
  /** A process of its own, whose polls may end before what they ask for has changed. */
  readonly mayAnswerEarly?: boolean;
}

export interface CallOptions {
  readonly body?: unknown;
  /** Sent instead of `body`, as it is. */
  readonly text?: string;
  /** Absent: the management token. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Reply {
  readonly status: number;
  /** As sent, names in their own letter case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
  /** The body without the prefix that a client agent puts before forwarded errors. */
  readonly error: string;
  readonly index: number;
  readonly tookMs: number;
}

const TIMEOUT_MS = 120_000;

export class AgentClient {
  readonly #agent: AgentUnderTest;

  constructor(agent: AgentUnderTest) {
    this.#agent = agent;
  }

  get mayAnswerEarly(): boolean {
    return this.#agent.mayAnswerEarly ?? false;
  }

  get place(): { readonly host: string; readonly port: number } {
    return { host: this.#agent.host, port: this.#agent.port };
  }

  call(method: string, path: string, options: CallOptions = {}): Promise<Reply> {
    const { host, port, managementToken } = this.#agent;
    const body = options.text ??
      (options.body === undefined ? "" : JSON.stringify(options.body));
    const token = options.token ?? managementToken;
    let head = `${method} ${path} HTTP/1.0\r\nHost: ${host}:${port}\r\n`;
    head += `Content-Length: ${Buffer.byteLength(body)}\r\n`;
    if (token !== "") head += `X-Consul-Token: ${token}\r\n`;
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      head += `${name}: ${value}\r\n`;
    }
    const startedMs = performance.now();
    return new Promise((resolve, reject) => {
      const chunks: Uint8Array[] = [];
      const socket = connect({ host, port });
      socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`${path}: no answer in time`)));
      socket.on("connect", () => socket.write(`${head}\r\n${body}`));
      socket.on("data", (chunk: Uint8Array) => chunks.push(chunk));
      socket.on("error", reject);
      socket.on("close", () => reject(new Error(`${method} ${path}: connection broke`)));
      socket.on("end", () => {
        socket.destroy();
        resolve(parseReply(Buffer.concat(chunks), performance.now() - startedMs));
      });
    });
  }

  /** A read that must be answered with 200. */
  async get(path: string, options: CallOptions = {}): Promise<Reply> {
    const reply = await this.call("GET", path, options);
    assert.equal(reply.status, 200, `GET ${path}: ${reply.status} ${reply.text}`);
    return reply;
  }

  /** The JSON of a read that must be answered with 200. */
  async json<T>(path: string, options: CallOptions = {}): Promise<T> {
    return JSON.parse((await this.get(path, options)).text) as T;
  }

  /** A few round trips: a poll that was sent before is waiting now. */
  async settle(): Promise<void> {
    for (let call = 0; call < 5; call++) await this.get("/v1/agent/version");
  }

  /** A write that must be answered with 200. */
  async put(path: string, body?: unknown): Promise<Reply> {
    const reply = await this.call("PUT", path, { body });
    assert.equal(reply.status, 200, `PUT ${path}: ${reply.status} ${reply.text}`);
    return reply;
  }

  async configEntry(entry: Readonly<Record<string, unknown>>): Promise<void> {
    await this.put("/v1/config", entry);
  }

  async register(body: unknown): Promise<void> {
    await this.put("/v1/agent/service/register", body);
  }
}

/** A name that no other test uses. */
export function unique(prefix: string): string {
  return `${prefix}-${randomUUID().slice(0, 8)}`;
}

/**
 * The answer to a poll from `index` on, once `wanted` accepts it. An agent may answer before anything in
 * the reply has changed: then the poll is repeated, within `limitMs` for all of it.
 */
export async function woken(
  agent: AgentClient,
  poll: (index: number) => Promise<Reply>,
  options: {
    readonly index: number;
    readonly wanted: (reply: Reply) => boolean;
    readonly limitMs?: number;
  },
): Promise<Reply> {
  const { index, wanted, limitMs = 20_000 } = options;
  const deadlineMs = performance.now() + limitMs;
  for (let at = index;;) {
    const reply = await poll(at);
    const isInTime = performance.now() < deadlineMs;
    if (isInTime && wanted(reply)) {
      assert.ok(reply.index > index, `${reply.index} after ${index}`);
      return reply;
    }
    assert.ok(
      isInTime && agent.mayAnswerEarly,
      `not woken within ${limitMs} ms; last: ${reply.status} ${reply.text}`,
    );
    at = reply.index;
  }
}

/**
 * Fails unless a poll that nothing concerns waits for its `waitMs`. An agent that may answer early, or
 * get a poll only after what must not wake it, does so now and then, not each time.
 */
export async function unmoved(
  agent: AgentClient,
  waitMs: number,
  attempt: () => Promise<Reply>,
): Promise<Reply> {
  const early: string[] = [];
  while (early.length < (agent.mayAnswerEarly ? 3 : 1)) {
    const reply = await attempt();
    // The two clocks may differ by a little.
    if (reply.tookMs >= waitMs - 10) return reply;
    early.push(`${Math.round(reply.tookMs)} ms`);
  }
  throw new Error(`answered before its ${waitMs} ms were over: after ${early.join(", ")}`);
}

/** Reads until `check` holds: what an agent does in the background takes a moment on a real one. */
export async function until<T>(read: () => Promise<T>, check: (value: T) => boolean): Promise<T> {
  const deadlineMs = performance.now() + 30_000;
  while (true) {
    const value = await read();
    if (check(value)) return value;
    if (performance.now() > deadlineMs) {
      throw new Error(`never became true; last: ${JSON.stringify(value)}`);
    }
  }
}

function parseReply(bytes: Uint8Array, tookMs: number): Reply {
  const text = new TextDecoder().decode(bytes);
  const split = text.indexOf("\r\n\r\n");
  const [first = "", ...lines] = text.slice(0, split).split("\r\n");
  const headers = new Map(lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trim()] as const;
  }));
  const body = text.slice(split + 4);
  return {
    status: Number(/^HTTP\/1\.[01] (\d+)/.exec(first)?.[1] ?? 0),
    headers,
    text: body,
    error: body.replace(/^(?:rpc error making call: )+/, ""),
    index: Number(headers.get("X-Consul-Index") ?? -1),
    tookMs,
  };
}

/** Names of the keys of an object, sorted. */
export function keys(value: unknown): readonly string[] {
  return typeof value === "object" && value !== null ? Object.keys(value).sort() : [];
}
