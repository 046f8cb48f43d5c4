/** One request and its reply as it comes, bounded in time and in size. @module */

import { type Clock, ProxyError, type Timer } from "../../base/mod.ts";
import {
  addField,
  type ClientExchange,
  FIELD,
  type Fields,
  type KeptConnection,
  type ReachedServer,
  type ResetReason,
  type ResponseEvents,
  type ResponseHead,
} from "../../http/mod.ts";
import type { Dial } from "../../net/mod.ts";
import { givenUp, NoReply, type WireReply, type WireRequest } from "./carrier.ts";

/** A reply that has begun is complete after this, however long it was waited for. */
const BODY_MS = 30_000;

interface PendingRequestOptions {
  readonly clock: Clock;
  /** For messages: `the Consul server at https://192.0.2.1:8501`. */
  readonly where: string;
  readonly scheme: "http" | "https";
  readonly authority: string;
  /** Words for a connection that broke before the reply, with what to change. */
  readonly brokenWords: (reason: ResetReason, detail: string) => string;
  /** A kept HTTP/1.1 connection may be closed while a request is sent on it. */
  readonly mayBeStale: boolean;
  /** Counts bytes that are kept until the end; negative ones are given back. False: they are too many. */
  readonly hold: (bytes: number) => boolean;
  /** Called exactly once, before the reply settles. */
  readonly onEnd: () => unknown;
}

/** Nothing of the request was acted on: it may be sent again. */
export class Unsent extends ProxyError {
  readonly kind: "refused" | "stale";

  constructor(kind: "refused" | "stale", message: string) {
    super("agent_unreachable", message);
    this.kind = kind;
  }
}

export class PendingRequest implements ResponseEvents {
  readonly #wire: WireRequest;
  readonly #options: PendingRequestOptions;
  readonly #reply = Promise.withResolvers<WireReply>();
  readonly #deadline: Timer;
  #bodyDeadline: Timer | undefined;
  #wait: Dial | undefined;
  #exchange: ClientExchange | undefined;
  /** Its connection had carried a request before. */
  #isOnUsed = false;
  #head: ResponseHead | undefined;
  readonly #chunks: Uint8Array[] = [];
  #size = 0;
  #isOver = false;

  constructor(wire: WireRequest, options: PendingRequestOptions) {
    this.#wire = wire;
    this.#options = options;
    this.#deadline = this.#within(wire.timeoutMs);
    wire.signal?.addEventListener("abort", this.#onAbort);
  }

  get reply(): Promise<WireReply> {
    return this.#reply.promise;
  }

  /** `wait` is cancelled at the end, however early that is. */
  waitFor(wait: Dial): void {
    if (this.#isOver) wait.cancel();
    else this.#wait = wait;
  }

  start(connection: KeptConnection<ReachedServer>): void {
    const { method, path, headers, body } = this.#wire;
    const { scheme, authority } = this.#options;
    const bytes = new TextEncoder().encode(body ?? "");
    const fields: Fields = [];
    for (const [name, value] of Object.entries(headers)) addField(fields, name, value);
    addField(fields, "accept-encoding", "identity");
    if (body !== undefined) addField(fields, "content-type", "application/json");
    const ends = bytes.length === 0;
    this.#isOnUsed = connection.isUsed;
    this.#exchange = connection.request(
      {
        method,
        scheme,
        authority,
        path,
        fields,
        length: bytes.length,
        saysLength: body !== undefined,
        expectsContinue: false,
        upgrade: "",
        version: "HTTP/1.1",
      },
      { ends },
      this,
    );
    if (ends) return;
    this.#exchange.send(bytes);
    this.#exchange.end();
  }

  fail(error: ProxyError): void {
    this.#end(() => this.#reply.reject(error));
  }

  cannotReach(fact: string): void {
    this.fail(new ProxyError("agent_unreachable", this.#cannot(fact)));
  }

  onInformational(): void {}

  onResponse(head: ResponseHead, ends: boolean): void {
    this.#head = head;
    if (ends) this.onEnd();
    else this.#bodyDeadline = this.#within(BODY_MS);
  }

  onData(chunk: Uint8Array): void {
    this.#size += chunk.length;
    const { method, path, limitBytes } = this.#wire;
    const isHeld = this.#options.hold(chunk.length);
    if (isHeld && this.#size <= limitBytes) return void this.#chunks.push(chunk);
    const fact = this.#size > limitBytes
      ? `the reply is longer than ${limitBytes} bytes`
      : "all replies that come at once are too long together";
    const what = `${method} ${path.split("?")[0]} from ${this.#options.where}`;
    this.fail(new ProxyError("agent_reply_invalid", `Cannot read ${what}: ${fact}`));
  }

  onEnd(): void {
    const head = this.#head;
    if (!head) return;
    const { status, fields } = head;
    const body = textOf(this.#chunks, this.#size);
    this.#end(() => this.#reply.resolve({ status, headers: headersOf(fields), body }));
  }

  onDrain(): void {}

  onReset(reason: ResetReason, detail: string): void {
    const { brokenWords, mayBeStale } = this.#options;
    if (this.#head) return this.#brokeWithinReply(reason, detail);
    if (reason === "refused") {
      const text = this.#cannot(`the request was refused (${detail})`);
      return this.fail(new Unsent("refused", text));
    }
    const fact = brokenWords(reason, detail);
    if (reason === "overflow" || (reason === "protocol" && fact === detail)) {
      return this.fail(new ProxyError("agent_reply_invalid", this.#cannot(fact)));
    }
    if (mayBeStale && this.#isOnUsed && reason === "connection") {
      return this.fail(new Unsent("stale", this.#cannot(fact)));
    }
    this.cannotReach(fact);
  }

  #brokeWithinReply(reason: ResetReason, detail: string): void {
    if (reason === "overflow" || reason === "protocol") {
      return this.fail(new ProxyError("agent_reply_invalid", this.#cannot(detail)));
    }
    const after = `after ${this.#size} bytes of the reply`;
    this.cannotReach(
      reason === "connection" ? `the connection ended ${after} (${detail})` : `${detail}, ${after}`,
    );
  }

  readonly #onAbort = () => this.fail(givenUp());

  #within(ms: number): Timer {
    return this.#options.clock.after(ms, () => {
      const fact = this.#head ? "the reply was not complete" : "no reply";
      this.fail(new NoReply(this.#cannot(`${fact} within ${ms} ms`)));
    });
  }

  #end(settle: () => void): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#deadline.cancel();
    this.#bodyDeadline?.cancel();
    this.#wait?.cancel();
    this.#wire.signal?.removeEventListener("abort", this.#onAbort);
    this.#options.hold(-this.#size);
    this.#chunks.length = 0;
    // Does nothing where both messages are complete.
    this.#exchange?.reset("cancelled");
    this.#options.onEnd();
    settle();
  }

  #cannot(fact: string): string {
    return `Cannot reach ${this.#options.where}: ${fact}`;
  }
}

function textOf(chunks: readonly Uint8Array[], size: number): string {
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.length;
  }
  return new TextDecoder().decode(whole);
}

function headersOf(fields: Fields): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let at = 0; at < fields.length; at += FIELD) {
    const [name = "", value = ""] = fields.slice(at, at + 2);
    headers[name] = Object.hasOwn(headers, name) ? `${headers[name]}, ${value}` : value;
  }
  return headers;
}
