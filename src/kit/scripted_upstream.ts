/**
 * What is behind a plugin under test: endpoints that answer as a script says, one step for each try; the
 * last step answers all that come after it.
 *
 * @module
 */

import type { ClientExchange, RequestHead, ResponseEvents, ResponseHead } from "../http/mod.ts";
import { addField, fieldOf, type Fields, fieldsOf, UNKNOWN_LENGTH } from "../http/mod.ts";
import type { Dial } from "../net/mod.ts";
import type { AttemptHandler, PooledConnection, RequestPool } from "../proxy/mod.ts";
import type * as api from "./api.ts";
import type { Held, Reply, Reset, Step, Unreachable } from "./api.ts";

/** 200, with a body in as many chunks as are given; of one chunk the length is announced. */
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

/** The connection breaks once the request was sent. */
export function reset(): Reset {
  return { kind: "reset" };
}

/** No connection comes up: the request is sent to nobody. */
export function unreachable(): Unreachable {
  return { kind: "unreachable" };
}

/** No answer until the test gives one. */
export function hold(): Held {
  return new HeldTries();
}

class HeldTries implements Held {
  readonly kind = "hold";
  #waiting: ((step: Exclude<Step, Held | Unreachable>) => void)[] = [];

  wait(answer: (step: Exclude<Step, Held | Unreachable>) => void): void {
    this.#waiting.push(answer);
  }

  /** All that wait now. */
  answer(step: Exclude<Step, Held | Unreachable>): void {
    for (const answer of this.#waiting.splice(0)) answer(step);
  }
}

/** A request as an endpoint got it. */
export class SeenRequest implements api.SeenRequest {
  /** `10.0.0.1:8080` for the first try, `10.0.0.2:8080` for the second. */
  readonly endpoint: string;
  readonly chunks: Uint8Array[] = [];
  /** All of it came. */
  isComplete = false;
  /** It was given up from our side. */
  isGivenUp = false;
  readonly #head: RequestHead;

  constructor(head: RequestHead, endpoint: string) {
    this.#head = head;
    this.endpoint = endpoint;
  }

  get method(): string {
    return this.#head.method;
  }

  get authority(): string {
    return this.#head.authority;
  }

  get path(): string {
    return this.#head.path;
  }

  header(name: string): string | undefined {
    return fieldOf(this.#head.fields, name.toLowerCase());
  }

  headers(name: string): readonly string[] {
    return fieldsOf(this.#head.fields, name.toLowerCase());
  }

  /** What came of its body, as text. */
  get body(): string {
    return textOf(this.chunks);
  }
}

export class ScriptedUpstream implements RequestPool {
  readonly cluster = "upstream";
  /** One for each try that was sent. */
  readonly requests: SeenRequest[] = [];
  readonly #script: readonly Step[];
  #tries = 0;

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

  acquire(dialler: AttemptHandler<ScriptedWay>): Dial {
    const step = this.#script[Math.min(this.#tries, this.#script.length - 1)] ?? ok();
    const host = `10.0.0.${++this.#tries}:8080`;
    if (typeof step === "object" && step.kind === "unreachable") {
      dialler.onFailed("endpoint_refused", "connection refused", host);
    } else dialler.onDialled(this.#way(host, step));
    return { cancel: () => {} };
  }

  #way(host: string, step: Exclude<Step, Unreachable>): ScriptedWay {
    return {
      host,
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

/** As much of one as a request knows. */
type ScriptedWay = Pick<PooledConnection, "host" | "isUsed" | "request">;

class ScriptedExchange implements ClientExchange {
  events: ResponseEvents;
  readonly #seen: SeenRequest;
  readonly #step: Exclude<Step, Unreachable>;
  #isPaused = false;
  /** What is told as soon as somebody listens. */
  readonly #told: (() => void)[] = [];

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
        this.#told.push(() => this.events.onReset("connection", "the endpoint broke it"));
        break;
      case "reply":
        this.#tellReply(step);
    }
    // Nothing is told before whoever asked knows that it has asked.
    queueMicrotask(() => this.#tell());
  }

  #tellReply({ status, headers, body }: Reply): void {
    const fields: Fields = [];
    for (const name in headers) addField(fields, name.toLowerCase(), headers[name] ?? "");
    const chunks = body.map((part) => bytesOf(part));
    const ends = chunks.length === 0;
    const length = chunks.length > 1 ? UNKNOWN_LENGTH : joined(chunks).length;
    const head: ResponseHead = { status, fields, length };
    this.#told.push(() => this.events.onResponse(head, ends));
    if (ends) return;
    for (const chunk of chunks) this.#told.push(() => this.events.onData(chunk));
    this.#told.push(() => this.events.onEnd(undefined));
  }

  #tell(): void {
    while (!this.#isPaused && !this.#seen.isGivenUp) {
      const tell = this.#told.shift();
      if (!tell) return;
      tell();
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
    queueMicrotask(() => this.#tell());
  }

  tunnel(): never {
    throw new TypeError("the scripted upstream speaks no other protocol");
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The caller's own: whoever is sent bytes may change them. */
export function bytesOf(part: string | Uint8Array): Uint8Array {
  return typeof part === "string" ? encoder.encode(part) : part.slice();
}

export function textOf(chunks: readonly Uint8Array[]): string {
  return decoder.decode(joined(chunks));
}

export function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(chunks.reduce((length, chunk) => length + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
