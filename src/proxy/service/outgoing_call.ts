/**
 * One request that a plugin makes: sent with all of its body, told with all of its answer, or with why
 * there is none.
 *
 * @module
 */

import type { ErrorCode, Timer } from "../../base/mod.ts";
import { addField, FIELD, type Fields, type ResponseHead } from "../../http/mod.ts";
import { type CalleeRequest, failed, MadeBody, PluginResponse } from "../../plugin/mod.ts";
import type { Context } from "../core/context.ts";
import { callerOf } from "./exchange_value.ts";
import type { RequestPool } from "../upstream/request_pools.ts";
import { type ResponseSink, UpstreamRequest } from "../upstream/upstream_request.ts";
import type { PooledConnection } from "../upstream/connection_pool.ts";

/** Of a body that is sent at a time. */
const PIECE_BYTES = 65_536;

export class OutgoingCall implements ResponseSink {
  readonly #question: CalleeRequest;
  readonly #told: (response: PluginResponse) => void;
  #upstream: UpstreamRequest | undefined;
  #timer: Timer | undefined;
  #way: PooledConnection | undefined;
  #head: ResponseHead | undefined;
  readonly #chunks: Uint8Array[] = [];
  #length = 0;
  /** Of the body, so far. */
  #sentBytes = 0;
  #isOver = false;

  /** `told`: once, unless it is cancelled before. */
  constructor(question: CalleeRequest, told: (response: PluginResponse) => void) {
    this.#question = question;
    this.#told = told;
  }

  start(pool: RequestPool, context: Context): void {
    const caller = callerOf(this.#question.signal);
    if (!pool.enter(caller)) return this.upstreamFailed("limit_reached", pool.whyFull(), "");
    const { request: { head }, timeoutMs } = this.#question;
    // Deadlines that many share come late by as much as an answer may take.
    this.#timer = context.clock.after(timeoutMs, () => {
      this.#upstream?.timedOut();
      this.#fail("response_timed_out", `not answered within ${timeoutMs} ms`);
    });
    // Who is asked does not depend on whom we are asked by.
    const asked = { request: head, endsWithHead: this.#body === undefined, remote: "", caller };
    const upstream = this.#upstream = new UpstreamRequest(this, asked, { pool, context });
    upstream.start();
  }

  get #body(): Uint8Array | undefined {
    const { body } = this.#question.request;
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
    const address = this.#way?.host ?? tried;
    const endpoint = address === "" ? null : { address };
    this.#told(failed({ code, reason, wasSent: this.#way !== undefined, endpoint }));
  }

  #answer(head: ResponseHead, trailers: Fields): void {
    this.#isOver = true;
    this.#timer?.cancel();
    this.#upstream?.leave(false);
    const { status } = head;
    const fields = withGrpcStatus(head.fields, trailers);
    const body = this.#length === 0 ? null : new MadeBody(joined(this.#chunks, this.#length));
    const endpoint = this.#way ? { address: this.#way.host } : null;
    const made = { status, fields, length: this.#length };
    this.#told(new PluginResponse(made, body, { endpoint, failure: null }));
  }

  reached(way: PooledConnection): void {
    this.#way = way;
  }

  bodyWanted(): void {
    const body = this.#body;
    const upstream = this.#upstream;
    if (!body || !upstream || this.#sentBytes === body.length) return;
    let goesOn = true;
    while (goesOn && this.#sentBytes < body.length && !this.#isOver) {
      // What is sent changes hands, and the body may be wanted by others; not more of it than is taken.
      const piece = body.slice(this.#sentBytes, this.#sentBytes + PIECE_BYTES);
      this.#sentBytes += piece.length;
      goesOn = upstream.send(piece);
    }
    if (this.#sentBytes === body.length) upstream.end(undefined);
  }

  bodyHeld(): void {
    this.#way = undefined;
    this.#sentBytes = 0;
  }

  informed(): void {}

  responded(head: ResponseHead, ends: boolean): void {
    this.#head = head;
    if (ends) this.#answer(head, []);
  }

  responseData(chunk: Uint8Array): void {
    const { limitBytes } = this.#question;
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

/** What gRPC says at the end it may as well say at the start. Other trailers are no headers. */
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
