/**
 * One call of a plugin: sends a request with its whole body, and returns the whole response or a failure.
 *
 * @module
 */

import type { ErrorCode, Timer } from "../../base/mod.ts";
import { addField, FIELD, type Fields, type ResponseHead } from "../../http/mod.ts";
import { type CalleeRequest, failed, MadeBody, PluginResponse } from "../../plugin/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import { callerOf } from "./exchange_value.ts";
import type { RequestPool } from "../upstream/request_pools.ts";
import { type ResponseSink, UpstreamRequest } from "../upstream/upstream_request.ts";
import type { PooledConnection } from "../upstream/connection_pool.ts";

/** Bytes of a body that are sent at a time. */
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

  /** `onResponse` is called once, unless the call is cancelled before. */
  constructor(request: CalleeRequest, onResponse: (response: PluginResponse) => void) {
    this.#request = request;
    this.#onResponse = onResponse;
  }

  start(pool: RequestPool, context: UpstreamContext): void {
    const caller = callerOf(this.#request.signal);
    if (!pool.enter(caller)) return this.upstreamFailed("limit_reached", pool.whyFull(), "");
    const { request: { head }, timeoutMs } = this.#request;
    // A timer of its own: shared deadlines are late by as much as a response may take.
    this.#timer = context.clock.after(timeoutMs, () => {
      this.#upstream?.timedOut();
      this.#fail("response_timed_out", `not answered within ${timeoutMs} ms`);
    });
    // Load balancing does not depend on the address of the caller.
    const outgoing = { request: head, endsWithHead: this.#body === undefined, remote: "", caller };
    const upstream = this.#upstream = new UpstreamRequest(this, outgoing, { pool, context });
    upstream.start();
  }

  get #body(): Uint8Array | undefined {
    const { body } = this.#request.request;
    return body instanceof MadeBody && body.length !== 0 ? body.whole : undefined;
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    this.#upstream?.leave(true);
  }

  #fail(code: ErrorCode, reason: string, tried = ""): void {
    if (this.#isOver) return;
    this.cancel();
    const address = this.#connection?.reached.host ?? tried;
    const endpoint = address === "" ? null : { address };
    this.#onResponse(failed({ code, reason, wasSent: this.#connection !== undefined, endpoint }));
  }

  #answer(head: ResponseHead, trailers: Fields): void {
    this.#isOver = true;
    this.#timer?.cancel();
    this.#upstream?.leave(false);
    const { status } = head;
    const fields = withGrpcStatus(head.fields, trailers);
    const body = this.#length === 0 ? null : new MadeBody(joined(this.#chunks, this.#length));
    const endpoint = this.#connection ? { address: this.#connection.reached.host } : null;
    const made = { status, fields, length: this.#length };
    this.#onResponse(new PluginResponse(made, body, { endpoint, failure: null }));
  }

  reached(connection: PooledConnection): void {
    this.#connection = connection;
  }

  bodyWanted(): void {
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

  bodyHeld(): void {
    this.#connection = undefined;
    this.#sentBytes = 0;
  }

  informed(): void {}

  responded(head: ResponseHead, ends: boolean): void {
    this.#head = head;
    if (ends) this.#answer(head, []);
  }

  responseData(chunk: Uint8Array): void {
    const { limitBytes } = this.#request;
    if (limitBytes === undefined) return;
    this.#length += chunk.length;
    this.#chunks.push(chunk);
    if (this.#length <= limitBytes) return;
    this.#fail("response_invalid", `its body is longer than ${limitBytes} bytes`);
  }

  responseEnd(trailers: Fields = []): void {
    if (this.#head) this.#answer(this.#head, trailers);
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

function joined(chunks: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
