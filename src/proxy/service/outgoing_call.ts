/** One call of a plugin to another service: the response is a whole value, or its body a stream. @module */

import type { ErrorCode, Timer } from "../../base/mod.ts";
import { addField, FIELD, type Fields, type ResponseHead } from "../../http/mod.ts";
import {
  type CalleeRequest,
  failed,
  joined,
  MadeBody,
  OpenedBody,
  PluginResponse,
  type Pump,
  pumpOf,
} from "../../plugin/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import type { PooledConnection } from "../upstream/connection_pool.ts";
import type { RequestPool } from "../upstream/request_pools.ts";
import { type ResponseSink, UpstreamRequest } from "../upstream/upstream_request.ts";
import { callerOf } from "./exchange_value.ts";

const PIECE_BYTES = 65_536;

export class OutgoingCall implements ResponseSink {
  readonly #request: CalleeRequest;
  readonly #onResponse: (response: PluginResponse) => void;
  #upstream: UpstreamRequest | undefined;
  #timer: Timer | undefined;
  #connection: PooledConnection | undefined;
  #head: ResponseHead | undefined;
  readonly #chunks: Uint8Array[] = [];
  #length = 0;
  #sentBytes = 0;
  #isOver = false;

  #context: UpstreamContext | undefined;
  /** The body of a request, and of a response, that is streamed. */
  #pump: Pump | undefined;
  #opened: OpenedBody | undefined;
  #movedMs = 0;

  /** `onResponse` is called once, unless the call is cancelled before. */
  constructor(request: CalleeRequest, onResponse: (response: PluginResponse) => void) {
    this.#request = request;
    this.#onResponse = onResponse;
  }

  start(pool: RequestPool, context: UpstreamContext): void {
    const caller = callerOf(this.#request.signal);
    if (!pool.enter(caller)) return this.upstreamFailed("limit_reached", pool.whyFull(), "");
    this.#context = context;
    const { request: { head }, timeoutMs } = this.#request;
    // A timer of its own: shared deadlines are late by as much as a response may take.
    this.#timer = context.clock.after(timeoutMs, () => {
      this.#upstream?.timedOut();
      this.#fail("response_timed_out", `not answered within ${timeoutMs} ms`);
    });
    const endsWithHead = this.#body === undefined && this.#stream === undefined;
    // Load balancing does not depend on the address of the caller.
    const outgoing = { request: head, endsWithHead, remote: "", caller };
    const upstream = this.#upstream = new UpstreamRequest(this, outgoing, { pool, context });
    upstream.start();
  }

  get #body(): Uint8Array | undefined {
    const { body } = this.#request.request;
    return body instanceof MadeBody && body.length !== 0 ? body.whole : undefined;
  }

  /** A body of the request that is sent as it comes. */
  get #stream(): MadeBody | undefined {
    const { body } = this.#request.request;
    return body instanceof MadeBody && !body.whole ? body : undefined;
  }

  cancel(): void {
    this.#opened?.fail("closed", "the call was cancelled");
    this.#over(true);
  }

  #over(isUnwanted: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    this.#pump?.stop();
    this.#upstream?.leave(isUnwanted);
    this.#request.onOver?.();
  }

  #fail(code: ErrorCode, reason: string, tried = ""): void {
    if (this.#isOver) return;
    const opened = this.#opened;
    this.#over(true);
    if (opened) return opened.fail(code, reason);
    const address = this.#connection?.reached.host ?? tried;
    const endpoint = address === "" ? null : { address };
    this.#onResponse(failed({ code, reason, wasSent: this.#connection !== undefined, endpoint }));
  }

  #answer(head: ResponseHead, trailers: Fields): void {
    this.#over(false);
    const { status } = head;
    const fields = withGrpcStatus(head.fields, trailers);
    const body = this.#length === 0 ? null : new MadeBody(joined(this.#chunks, this.#length));
    const endpoint = this.#connection ? { address: this.#connection.reached.host } : null;
    const made = { status, fields, length: this.#length };
    this.#onResponse(new PluginResponse(made, body, { endpoint, failure: null }));
  }

  /** The body follows, as far as the plugin reads it. */
  #answerStream(head: ResponseHead, context: UpstreamContext): void {
    this.#timer?.cancel();
    this.#moved(context);
    this.#watchIdle(context);
    this.#opened = new OpenedBody({
      more: () => {
        this.#moved(context);
        this.#upstream?.resume();
      },
      cancel: () => this.#over(true),
    });
    const endpoint = this.#connection ? { address: this.#connection.reached.host } : null;
    const body = new MadeBody(this.#opened.stream);
    this.#onResponse(new PluginResponse(head, body, { endpoint, failure: null }));
  }

  #moved({ clock }: UpstreamContext): void {
    this.#movedMs = clock.monotonic();
  }

  #watchIdle(context: UpstreamContext): void {
    const { timeoutMs } = this.#request;
    const leftMs = this.#movedMs + timeoutMs - context.clock.monotonic();
    this.#timer = context.clock.after(Math.max(leftMs, 1), () => {
      if (context.clock.monotonic() < this.#movedMs + timeoutMs) return this.#watchIdle(context);
      this.#fail("idle_timed_out", `no byte for ${timeoutMs} ms`);
    });
  }

  reached(connection: PooledConnection): void {
    this.#connection = connection;
  }

  bodyWanted(): void {
    const stream = this.#stream;
    if (stream) return this.#pumpBody(stream);
    const body = this.#body;
    const upstream = this.#upstream;
    if (!body || !upstream || this.#sentBytes === body.length) return;
    let hasRoom = true;
    while (hasRoom && this.#sentBytes < body.length && !this.#isOver) {
      // Sent chunks change hands while others may use the body, so each piece is a copy.
      const piece = body.slice(this.#sentBytes, this.#sentBytes + PIECE_BYTES);
      this.#sentBytes += piece.length;
      hasRoom = upstream.send(piece);
    }
    if (this.#sentBytes === body.length) upstream.end(undefined);
  }

  #pumpBody(stream: MadeBody): void {
    if (this.#pump) return this.#pump.resume();
    const pump = pumpOf("request", stream, {
      send: (chunk) => this.#upstream?.send(chunk) !== false,
      end: () => this.#upstream?.end(undefined),
      fail: (code, reason) => this.#fail(code, reason),
    });
    if (!pump) return;
    this.#pump = pump;
    pump.start();
  }

  bodyHeld(): void {
    this.#connection = undefined;
    this.#pump?.pause();
    this.#sentBytes = 0;
  }

  informed(): void {}

  responded(head: ResponseHead, ends: boolean): void {
    this.#head = head;
    if (ends) this.#answer(head, []);
    else if (this.#request.onOver && this.#context) this.#answerStream(head, this.#context);
  }

  responseData(chunk: Uint8Array): void {
    const opened = this.#opened;
    if (!opened || !this.#context) return this.#collect(chunk);
    this.#moved(this.#context);
    if (!opened.put(chunk)) this.#upstream?.pause();
  }

  #collect(chunk: Uint8Array): void {
    const { limitBytes } = this.#request;
    if (limitBytes === undefined) return;
    this.#length += chunk.length;
    this.#chunks.push(chunk);
    if (this.#length <= limitBytes) return;
    this.#fail("response_invalid", `its body is longer than ${limitBytes} bytes`);
  }

  responseEnd(trailers: Fields = []): void {
    const opened = this.#opened;
    if (!opened) return this.#head && this.#answer(this.#head, trailers);
    this.#over(false);
    opened.end();
  }

  upstreamFailed(code: ErrorCode, reason: string, tried: string): void {
    this.#fail(code, reason, tried);
  }
}

/** A gRPC status is valid in headers as well; other trailers are dropped. */
function withGrpcStatus(fields: Fields, trailers: Fields): Fields {
  const all = fields.slice();
  for (let i = 0; i < trailers.length; i += FIELD) {
    const name = trailers[i] ?? "";
    if (name.startsWith("grpc-")) addField(all, name, trailers[i + 1] ?? "");
  }
  return all;
}
