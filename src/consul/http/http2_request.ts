/**
 * One request on an HTTP/2 connection, and its reply as it comes: bounded in time, from the wait for the
 * connection to the last byte, and in size.
 *
 * @module
 */

import { type Clock, ProxyError, type Timer } from "../../base/mod.ts";
import {
  addField,
  type ClientExchange,
  FIELD,
  type Fields,
  type RequestHead,
  type ResetReason,
  type ResponseEvents,
  type ResponseHead,
} from "../../http/mod.ts";
import { bodyText, givenUp, NoReply, type WireReply, type WireRequest } from "./carrier.ts";

/** A reply that has begun is complete after this, however long it was waited for. */
const BODY_MS = 30_000;

export interface Http2RequestOptions {
  readonly clock: Clock;
  /** For messages: `the Consul server at https://192.0.2.1:8501`. */
  readonly where: string;
  readonly authority: string;
  /** So many bytes more are kept until the end, or fewer. False: that is too much. */
  readonly hold: (bytes: number) => boolean;
  /** Exactly once, before anybody hears of it. */
  readonly onEnd: () => void;
}

/** The server has not begun with the request: it may be asked again. */
export class RefusedRequest extends ProxyError {
  constructor(message: string) {
    super("agent_unreachable", message);
  }
}

export class Http2Request implements ResponseEvents {
  readonly #wire: WireRequest;
  readonly #options: Http2RequestOptions;
  readonly #reply = Promise.withResolvers<WireReply>();
  #timer: Timer;
  #exchange: ClientExchange | undefined;
  #head: ResponseHead | undefined;
  readonly #chunks: Uint8Array[] = [];
  #size = 0;
  ended = false;

  constructor(wire: WireRequest, options: Http2RequestOptions) {
    this.#wire = wire;
    this.#options = options;
    this.#timer = this.#within(wire.timeoutMs, `no reply within ${wire.timeoutMs} ms`);
    wire.signal?.addEventListener("abort", this.#onAbort);
  }

  get reply(): Promise<WireReply> {
    return this.#reply.promise;
  }

  start(
    ask: (head: RequestHead, ends: boolean, events: ResponseEvents) => ClientExchange,
  ): void {
    const { method, path, headers, body } = this.#wire;
    const bytes = new TextEncoder().encode(body ?? "");
    const fields: Fields = [];
    for (const [name, value] of Object.entries(headers)) addField(fields, name, value);
    addField(fields, "accept-encoding", "identity");
    if (body !== undefined) addField(fields, "content-type", "application/json");
    const ends = bytes.length === 0;
    this.#exchange = ask(
      {
        ...{ method, path, fields, scheme: "https", authority: this.#options.authority },
        ...{ length: bytes.length, saysLength: body !== undefined, expectsContinue: false },
        ...{ upgrade: "", version: "HTTP/2" },
      },
      ends,
      this,
    );
    if (ends) return;
    this.#exchange.send(bytes);
    this.#exchange.end();
  }

  fail(error: ProxyError): void {
    this.#end(() => this.#reply.reject(error));
  }

  // What the exchange says.

  onInformational(): void {}

  onResponse(head: ResponseHead, ends: boolean): void {
    this.#head = head;
    if (ends) return this.onEnd();
    this.#timer.cancel();
    this.#timer = this.#within(BODY_MS, `the reply was not complete within ${BODY_MS} ms`);
  }

  onData(chunk: Uint8Array): void {
    this.#size += chunk.length;
    const { method, path, limitBytes } = this.#wire;
    const fits = this.#options.hold(chunk.length) && this.#size <= limitBytes;
    if (fits) return void this.#chunks.push(chunk);
    const fact = this.#size > limitBytes
      ? `the reply is longer than ${limitBytes} bytes`
      : "all replies that come at once are too long together";
    const what = `${method} ${path.split("?")[0]} from ${this.#options.where}`;
    this.fail(new ProxyError("agent_reply_invalid", `Cannot read ${what}: ${fact}`));
  }

  onEnd(): void {
    const head = this.#head;
    if (!head) return;
    const body = bodyText(this.#chunks, this.#size);
    this.#end(() =>
      this.#reply.resolve({ status: head.status, headers: flatten(head.fields), body })
    );
  }

  onDrain(): void {}

  onReset(reason: ResetReason, detail: string): void {
    if (reason === "refused" && !this.#head) {
      return this.fail(new RefusedRequest(this.#cannot(`the request was refused (${detail})`)));
    }
    if (reason === "overflow" || reason === "protocol") {
      const error = new ProxyError("agent_reply_invalid", this.#cannot(detail));
      return this.fail(error);
    }
    const said = this.#head ? `${detail}, after ${this.#size} bytes of the reply` : detail;
    this.fail(new ProxyError("agent_unreachable", this.#cannot(said)));
  }

  readonly #onAbort = () => this.fail(givenUp());

  #within(ms: number, fact: string): Timer {
    return this.#options.clock.after(
      ms,
      () => this.fail(new NoReply(this.#cannot(fact))),
    );
  }

  #end(settle: () => void): void {
    if (this.ended) return;
    this.ended = true;
    this.#timer.cancel();
    this.#wire.signal?.removeEventListener("abort", this.#onAbort);
    this.#options.hold(-this.#size);
    this.#chunks.length = 0;
    // Does nothing where both sides had ended.
    this.#exchange?.reset("cancelled");
    this.#options.onEnd();
    settle();
  }

  #cannot(fact: string): string {
    return `Cannot reach ${this.#options.where}: ${fact}`;
  }
}

function flatten(fields: Fields): Record<string, string> {
  const flat: Record<string, string> = {};
  for (let at = 0; at < fields.length; at += FIELD) {
    const [name = "", value = ""] = fields.slice(at, at + 2);
    flat[name] = Object.hasOwn(flat, name) ? `${flat[name]}, ${value}` : value;
  }
  return flat;
}
