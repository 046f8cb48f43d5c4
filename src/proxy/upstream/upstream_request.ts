/** One request to an endpoint, sent again if no endpoint can have acted on it. @module */

import type { ErrorCode } from "../../base/mod.ts";
import type { HashPolicy } from "../../chain/mod.ts";
import {
  addField,
  type ClientExchange,
  type Fields,
  type HeldShare,
  httpStatusOf,
  ownTrailers,
  readGrpcStatus,
  type RequestHead,
  type ResetReason,
  type ResponseEvents,
  type ResponseHead,
} from "../../http/mod.ts";
import type { Dial, Stream } from "../../net/mod.ts";
import type { Endpoint } from "../../plugin/mod.ts";
import type { AttemptHandler } from "./attempt.ts";
import type { UpstreamContext } from "../core/context.ts";
import { countFailure } from "./endpoint_failure.ts";
import { giveBack, type Lease } from "./target_group.ts";
import { type CookieSink, hashOfRequest } from "./request_hash.ts";
import type { RequestPool } from "./request_pools.ts";
import type { PooledConnection } from "./connection_pool.ts";

/** Methods that may be sent again without a response (RFC 9110 9.2.2), if the body is still whole. */
const IDEMPOTENT: ReadonlySet<string> = new Set("GET HEAD OPTIONS TRACE PUT DELETE".split(" "));
/** How many times at most a request is sent again because its kept connection had just ended. */
const MAX_AGAIN = 2;

/** Receives the events of a request; none follows `upstreamFailed` or the end of the response. */
export interface ResponseSink {
  /** The head was sent to an endpoint; called again for each attempt. */
  reached(connection: PooledConnection, lease: Lease | undefined): void;
  /** The body, or more of it, may be sent. */
  bodyWanted(): void;
  /** The endpoint did not take the request: no body may be sent until another is reached. */
  bodyHeld(): void;
  informed(head: ResponseHead): void;
  responded(head: ResponseHead, ends: boolean): void;
  responseData(chunk: Uint8Array): void;
  responseEnd(trailers: Fields | undefined): void;
  /** `tried`: the last endpoint to which a connection failed; `""`: none. */
  upstreamFailed(code: ErrorCode, reason: string, tried: string): void;
}

export interface OutgoingRequest {
  readonly request: RequestHead;
  /** The request has no body. */
  readonly endsWithHead: boolean;
  /** Address of the caller, for hash balancing: `10.0.0.7:40312`, `unix`. */
  readonly remote: string;
  /** The account of bytes that wait; absent: they are not counted for a caller. */
  readonly held?: HeldShare | undefined;
  /** Key of the caller that takes the place; absent: that of `held`. */
  readonly caller?: string;
  /** Endpoints that are not picked while there are others. */
  readonly avoid?: readonly Endpoint[];
}

export interface RequestHandle {
  /** Part of the body. False: stop until {@link ResponseSink.bodyWanted}. */
  send(chunk: Uint8Array): boolean;
  end(trailers: Fields | undefined): void;
  pause(): void;
  resume(): void;
  /** Called after an accepted upgrade; the request itself is over then. */
  tunnel(): Stream | undefined;
  /** A timeout expired. As in Envoy it counts against the endpoint that has the request, if any. */
  timedOut(): void;
  /** Ends the request; an incomplete exchange is reset if it `isUnwanted`. */
  leave(isUnwanted: boolean): void;
}

export class UpstreamRequest
  implements RequestHandle, AttemptHandler<PooledConnection>, ResponseEvents, CookieSink {
  /** Ignored: the stage of a dial concerns pooled connections, not one request. */
  readonly record = NO_RECORD;
  readonly #sink: ResponseSink;
  readonly #outgoing: OutgoingRequest;
  readonly #pool: RequestPool;
  readonly #context: UpstreamContext;
  readonly #hash: number | undefined;
  /** Cookie for the caller, sent with the response. */
  #cookies: string[] | undefined;
  #dial: Dial | undefined;
  #lease: Lease | undefined;
  #client: ClientExchange | undefined;
  #connection: PooledConnection | undefined;
  /** Address of the last connection. */
  #host = "";
  #attempts = 0;
  /** The connection had carried requests before. */
  #wasUsed = false;
  /** Part of the body was sent, so the request cannot be sent again. */
  #bodySent = false;
  #requestEnded: boolean;
  #responded = false;
  #over = false;

  /** The request has a place in `pool` and leaves it at its end. */
  constructor(sink: ResponseSink, outgoing: OutgoingRequest, { pool, hash, context }: {
    readonly pool: RequestPool;
    readonly hash?: readonly HashPolicy[] | undefined;
    readonly context: UpstreamContext;
  }) {
    this.#sink = sink;
    this.#outgoing = outgoing;
    this.#pool = pool;
    this.#context = context;
    this.#requestEnded = outgoing.endsWithHead;
    const { request, remote } = outgoing;
    this.#hash = hash && hashOfRequest(hash, { request, remote, cookies: this });
  }

  /** The key with which the place was taken. */
  get #caller(): string {
    const { caller, held } = this.#outgoing;
    return caller ?? held?.account.caller ?? "";
  }

  takeCookie(cookie: string): void {
    (this.#cookies ??= []).push(cookie);
  }

  start(): void {
    const dial = this.#pool.acquire(this, this.#hash, this.#outgoing.avoid);
    if (!this.#client && !this.#over) this.#dial = dial;
  }

  onDialled(connection: PooledConnection, lease?: Lease): void {
    const { request, endsWithHead, held } = this.#outgoing;
    this.#dial = undefined;
    this.#lease = lease;
    this.#attempts++;
    this.#wasUsed = connection.isUsed;
    this.#connection = connection;
    this.#host = connection.reached.host;
    this.#client = connection.request(request, { ends: endsWithHead, held }, this);
    this.#sink.reached(connection, lease);
    if (!endsWithHead) this.#sink.bodyWanted();
  }

  onFailed(code: ErrorCode, reason: string, tried = ""): void {
    this.#dial = undefined;
    this.#over = true;
    this.#pool.leave(this.#caller);
    this.#sink.upstreamFailed(code, reason, tried);
  }

  // Called by the caller's side.

  send(chunk: Uint8Array): boolean {
    this.#bodySent = true;
    return this.#client?.send(chunk) !== false;
  }

  end(trailers: Fields | undefined): void {
    this.#requestEnded = true;
    this.#client?.end(trailers && ownTrailers(this.#outgoing.request, trailers));
  }

  pause(): void {
    this.#client?.pause();
  }

  resume(): void {
    this.#client?.resume();
  }

  tunnel(): Stream | undefined {
    const client = this.#client;
    this.#client = undefined;
    return client?.tunnel();
  }

  leave(isUnwanted: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.#dial?.cancel();
    // An endpoint that responds early does not need the rest of the body.
    if (isUnwanted || !this.#requestEnded) this.#client?.reset("cancelled");
    this.#client = undefined;
    this.#giveBack();
    this.#pool.leave(this.#caller);
  }

  // Events of the endpoint.

  onInformational(head: ResponseHead): void {
    this.#heard();
    this.#sink.informed(head);
  }

  onResponse(head: ResponseHead, ends: boolean): void {
    this.#responded = true;
    this.#heard();
    const isFailure = head.status >= 500 || ends && isGrpcFailure(head);
    const failure = head.status >= 500 ? `status ${head.status}` : "a gRPC status";
    this.#tellHealth(isFailure ? failure : undefined);
    for (const cookie of this.#cookies ?? NO_COOKIES) addField(head.fields, "set-cookie", cookie);
    this.#sink.responded(head, ends);
  }

  onData(chunk: Uint8Array): void {
    this.#heard();
    this.#sink.responseData(chunk);
  }

  #heard(): void {
    if (this.#connection) this.#connection.heard = true;
  }

  onEnd(trailers: Fields | undefined): void {
    this.#sink.responseEnd(trailers);
  }

  onDrain(): void {
    this.#sink.bodyWanted();
  }

  onReset(reason: ResetReason, detail: string): void {
    if (this.#over) return;
    this.#client = undefined;
    if (!this.#responded && this.#mayGoAgain(reason)) {
      this.#giveBack();
      this.#sink.bodyHeld();
      return this.start();
    }
    this.#tellHealth(`${reason}: ${detail}`);
    if (reason === "refused" && !this.#responded) {
      this.#sink.bodyHeld();
      return this.#sink.upstreamFailed("response_reset", detail, this.#host);
    }
    this.#sink.upstreamFailed(
      RESET_CODES[reason] ?? "response_reset",
      this.#isEndedAtOnce(reason) ? `${detail}; ${ENDED_AT_ONCE}` : detail,
      "",
    );
  }

  /** The peer's proxy ended the connection; its application alone would have caused a response. */
  #isEndedAtOnce(reason: ResetReason): boolean {
    return reason === "connection" && !this.#responded && !this.#wasUsed &&
      this.#lease !== undefined;
  }

  /** There is no response, and a second attempt cannot make an endpoint act twice. */
  #mayGoAgain(reason: ResetReason): boolean {
    const { endsWithHead, request: { method, upgrade } } = this.#outgoing;
    if (this.#bodySent || this.#attempts > MAX_AGAIN) return false;
    // The end of an empty body is sent only once as well.
    if (this.#requestEnded && !endsWithHead) return false;
    if (reason === "refused") return true;
    return reason === "connection" && this.#wasUsed && upgrade === "" && IDEMPOTENT.has(method);
  }

  timedOut(): void {
    if (!this.#responded) this.#tellHealth("no response in time");
  }

  /** `failure`: the reason, if the request failed. */
  #tellHealth(failure: string | undefined): void {
    const lease = this.#lease;
    if (!lease) return;
    if (failure !== undefined) countFailure(lease, failure, this.#context);
    else lease.target.pool.succeeded(lease.state, this.#context.clock.monotonic());
  }

  #giveBack(): void {
    if (this.#lease) giveBack(this.#lease);
    this.#lease = undefined;
  }
}

/** A gRPC response with only a status; a status after messages does not show the health of the endpoint. */
function isGrpcFailure({ fields }: ResponseHead): boolean {
  const status = readGrpcStatus(fields);
  return status !== undefined && httpStatusOf(status) >= 500;
}

/** Whether a response accepts an upgrade, after which bytes are relayed both ways. */
export function opensTunnel({ upgrade }: RequestHead, status: number): boolean {
  return upgrade !== "" && status === 101;
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

const ENDED_AT_ONCE =
  "it was the first request on its connection, so the peer's proxy may refuse " +
  "this service or have stopped; its log says which";

const NO_COOKIES: readonly string[] = [];
const NO_RECORD: AttemptHandler<PooledConnection>["record"] = {
  stage: "target",
  endpoint: "",
  secured: () => {},
};

/** The error code of a reset by the endpoint; default `response_reset`. */
const RESET_CODES: Partial<Record<ResetReason, ErrorCode>> = {
  protocol: "response_invalid",
  overflow: "response_invalid",
  connection: "endpoint_reset",
};
