/** The upstream of a plugin under test: endpoints that answer by a script. @module */

import {
  addField,
  type ClientExchange,
  fieldOf,
  type Fields,
  fieldsOf,
  type RequestHead,
  type ResponseEvents,
  UNKNOWN_LENGTH,
} from "../http/mod.ts";
import type { Dial } from "../net/mod.ts";
import { joined as joinedBytes } from "../plugin/mod.ts";
import type { AttemptHandler, PooledConnection, RequestPool } from "../proxy/mod.ts";
import type * as api from "./api.ts";
import type { Held, Reply, Reset, Step, Unreachable } from "./api.ts";

export function ok(...body: readonly (string | Uint8Array)[]): Reply {
  return { kind: "reply", status: 200, headers: {}, body };
}

export function status(
  code: number,
  headers: Readonly<Record<string, string>> = {},
  ...body: readonly (string | Uint8Array)[]
): Reply {
  return { kind: "reply", status: code, headers, body };
}

export function reset(): Reset {
  return { kind: "reset" };
}

export function unreachable(): Unreachable {
  return { kind: "unreachable" };
}

export function hold(): Held {
  const waiting: Parameters<Held["wait"]>[0][] = [];
  return {
    kind: "hold",
    wait: (answer) => void waiting.push(answer),
    answer: (step) => waiting.splice(0).forEach((answer) => answer(step)),
  };
}

export class SeenRequest implements api.SeenRequest {
  readonly endpoint: string;
  readonly method: string;
  readonly authority: string;
  readonly path: string;
  readonly chunks: Uint8Array[] = [];
  isComplete = false;
  isGivenUp = false;
  readonly #fields: Fields;

  constructor({ method, authority, path, fields }: RequestHead, endpoint: string) {
    this.endpoint = endpoint;
    this.method = method;
    this.authority = authority;
    this.path = path;
    this.#fields = fields;
  }

  header(name: string): string | undefined {
    return fieldOf(this.#fields, name.toLowerCase());
  }

  headers(name: string): readonly string[] {
    return fieldsOf(this.#fields, name.toLowerCase());
  }

  get body(): string {
    return textOf(this.chunks);
  }
}

export class ScriptedUpstream implements RequestPool {
  readonly cluster = "upstream";
  /** One for each attempt that was sent. */
  readonly requests: SeenRequest[] = [];
  readonly #script: readonly Step[];
  #attempts = 0;

  constructor(script: readonly Step[]) {
    this.#script = script;
  }

  enter(): boolean {
    return true;
  }

  leave(): void {}

  whyFull(): string {
    return "";
  }

  endpoints(): { readonly known: number; readonly usable: number } {
    return { known: 1, usable: 1 };
  }

  acquire(handler: AttemptHandler<ScriptedConnection>): Dial {
    const step = this.#script[Math.min(this.#attempts, this.#script.length - 1)] ?? ok();
    const host = `10.0.0.${++this.#attempts}:8080`;
    if (typeof step === "object" && step.kind === "unreachable") {
      handler.onFailed("endpoint_refused", "connection refused", host);
    } else handler.onDialled(this.#connection(host, step));
    return { cancel: () => {} };
  }

  #connection(host: string, step: Exclude<Step, Unreachable>): ScriptedConnection {
    return {
      reached: { host },
      isUsed: false,
      request: (head, { ends }, events) => {
        const seen = new SeenRequest(head, host);
        this.requests.push(seen);
        const exchange = new ScriptedExchange(seen, step, events);
        if (ends) exchange.end();
        return exchange;
      },
    };
  }
}

type ScriptedConnection = Pick<PooledConnection, "isUsed" | "request"> & {
  readonly reached: { readonly host: string };
};

class ScriptedExchange implements ClientExchange {
  events: ResponseEvents;
  readonly #seen: SeenRequest;
  readonly #step: Exclude<Step, Unreachable>;
  #isPaused = false;
  /** Events to deliver while the exchange is not paused. */
  readonly #events: (() => void)[] = [];

  constructor(seen: SeenRequest, step: Exclude<Step, Unreachable>, events: ResponseEvents) {
    this.#seen = seen;
    this.#step = step;
    this.events = events;
  }

  send(chunk: Uint8Array): boolean {
    this.#seen.chunks.push(chunk);
    return true;
  }

  end(): void {
    this.#seen.isComplete = true;
    this.#answer(this.#step);
  }

  #answer(step: Exclude<Step, Unreachable>): void {
    if (typeof step === "function") step = step(this.#seen);
    switch (step.kind) {
      case "hold":
        return step.wait((later) => this.#answer(later));
      case "reset":
        this.#events.push(() => this.events.onReset("connection", "the endpoint broke it"));
        break;
      case "reply":
        this.#queueReply(step);
    }
    // Events never arrive within the call that sends the request.
    queueMicrotask(() => this.#deliver());
  }

  #queueReply({ status, headers, body }: Reply): void {
    const fields: Fields = [];
    for (const name in headers) addField(fields, name.toLowerCase(), headers[name] ?? "");
    const chunks = body.map((part) => bytesOf(part));
    const ends = chunks.length === 0;
    const length = chunks.length > 1 ? UNKNOWN_LENGTH : joined(chunks).length;
    this.#events.push(() => this.events.onResponse({ status, fields, length }, ends));
    if (ends) return;
    for (const chunk of chunks) this.#events.push(() => this.events.onData(chunk));
    this.#events.push(() => this.events.onEnd(undefined));
  }

  #deliver(): void {
    while (!this.#isPaused && !this.#seen.isGivenUp) {
      const deliver = this.#events.shift();
      if (!deliver) return;
      deliver();
    }
  }

  reset(): void {
    this.#seen.isGivenUp = true;
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    queueMicrotask(() => this.#deliver());
  }

  tunnel(): never {
    throw new TypeError("the scripted upstream speaks no other protocol");
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A copy, since the receiver of bytes may change them. */
export function bytesOf(part: string | Uint8Array): Uint8Array {
  return typeof part === "string" ? encoder.encode(part) : part.slice();
}

export function textOf(chunks: readonly Uint8Array[]): string {
  return decoder.decode(joined(chunks));
}

export function joined(chunks: readonly Uint8Array[]): Uint8Array {
  return joinedBytes(chunks, chunks.reduce((length, chunk) => length + chunk.length, 0));
}
