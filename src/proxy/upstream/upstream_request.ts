/**
 * One request on its way to an endpoint: a place and a way are found for it, its head is sent, and sent
 * again elsewhere where nobody can have acted on it. It knows nothing of who asks.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
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
import type { Context } from "../core/context.ts";
import { countFailure } from "./endpoint_failure.ts";
import { giveBack, type Lease } from "./target_group.ts";
import type { CookieSink, RequestHash } from "./request_hash.ts";
import type { RequestPool } from "./request_pools.ts";
import type { PooledConnection } from "./connection_pool.ts";

/** Requests that may be sent again where nobody answered (RFC 9110 9.2.2), if their body is still whole. */
const IDEMPOTENT: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "OPTIONS",
  "TRACE",
  "PUT",
  "DELETE",
]);
/** How often a request is sent again because the connection that was kept for it had just ended. */
const MAX_AGAIN = 2;

/** Who asks, and is told what comes of it; nothing after `upstreamFailed` or the end of the response. */
export interface ResponseSink {
  /** An endpoint has the head. More than once where it is sent again. */
  reached(way: PooledConnection, lease: Lease | undefined): void;
  /** The body may be sent, be it more of it. */
  bodyWanted(): void;
  /** That endpoint did not begin to work on it: no body may be sent until another is reached. */
  bodyHeld(): void;
  informed(head: ResponseHead): void;
  responded(head: ResponseHead, ends: boolean): void;
  responseData(chunk: Uint8Array): void;
  responseEnd(trailers: Fields | undefined): void;
  /** `tried`: the last endpoint that it was meant for and no connection to came up; `""`: there is none. */
  upstreamFailed(code: ErrorCode, reason: string, tried: string): void;
}

/** What is sent on. */
export interface OutgoingRequest {
  readonly request: RequestHead;
  /** It has no body. */
  readonly endsWithHead: boolean;
  /** Whose it is, which balancing may look at: `10.0.0.7:40312`, `unix`. */
  readonly remote: string;
  /** Where bytes that wait for it are counted; absent: nobody's in particular. */
  readonly held?: HeldShare | undefined;
  /** Key of who has the place; absent: that of `held`. */
  readonly caller?: string;
  /** Endpoints to be passed over while there are others. */
  readonly avoid?: readonly Endpoint[];
}

/** What an asker does with what it asked for. */
export interface RequestHandle {
  /** Part of the body. False: stop until {@link ResponseSink.bodyWanted}. */
  send(chunk: Uint8Array): boolean;
  /** The body is complete. */
  end(trailers: Fields | undefined): void;
  /** The response is not to be read for now. */
  pause(): void;
  resume(): void;
  /** To be called when it was answered yes to an upgrade; the request itself is over with that. */
  tunnel(): Stream | undefined;
  /** Its time is over: as with Envoy that is held against the endpoint, if one has it. */
  timedOut(): void;
  /** The asker is done with it; what is not complete is broken off if it `isUnwanted`. */
  leave(isUnwanted: boolean): void;
}

export class UpstreamRequest
  implements RequestHandle, AttemptHandler<PooledConnection>, ResponseEvents, CookieSink {
  /** How far a dial is concerns the connections that are kept, not one request. */
  readonly record = NO_RECORD;
  readonly #asker: ResponseSink;
  readonly #asked: OutgoingRequest;
  readonly #pool: RequestPool;
  readonly #context: Context;
  readonly #hash: number | undefined;
  /** Given to the caller with the response. */
  #cookies: string[] | undefined;
  #dial: Dial | undefined;
  #lease: Lease | undefined;
  #client: ClientExchange | undefined;
  #way: PooledConnection | undefined;
  /** Of the way that was taken last. */
  #host = "";
  #attempts = 0;
  /** The way had carried requests before. */
  #wasUsed = false;
  /** Something of the body was sent, so that it cannot be sent again. */
  #bodySent = false;
  #requestEnded: boolean;
  #responded = false;
  #over = false;

  /** With a place in `pool`, which it leaves; `hash`: what keeps it with an endpoint. */
  constructor(asker: ResponseSink, asked: OutgoingRequest, { pool, hash, context }: {
    readonly pool: RequestPool;
    readonly hash?: RequestHash | undefined;
    readonly context: Context;
  }) {
    this.#asker = asker;
    this.#asked = asked;
    this.#pool = pool;
    this.#context = context;
    this.#requestEnded = asked.endsWithHead;
    this.#hash = hash?.of(asked.request, asked.remote, this);
  }

  /** As its place was taken. */
  get #caller(): string {
    const { caller, held } = this.#asked;
    return caller ?? held?.account.caller ?? "";
  }

  takeCookie(cookie: string): void {
    (this.#cookies ??= []).push(cookie);
  }

  /** Finds a way, now or later. */
  start(): void {
    const dial = this.#pool.acquire(this, this.#hash, this.#asked.avoid);
    if (!this.#client && !this.#over) this.#dial = dial;
  }

  onDialled(way: PooledConnection, lease?: Lease): void {
    const { request, endsWithHead, held } = this.#asked;
    this.#dial = undefined;
    this.#lease = lease;
    this.#attempts++;
    this.#wasUsed = way.isUsed;
    this.#way = way;
    this.#host = way.host;
    this.#client = way.request(request, { ends: endsWithHead, held }, this);
    this.#asker.reached(way, lease);
    if (!endsWithHead) this.#asker.bodyWanted();
  }

  onFailed(code: ErrorCode, reason: string, tried = ""): void {
    this.#dial = undefined;
    this.#over = true;
    this.#pool.leave(this.#caller);
    this.#asker.upstreamFailed(code, reason, tried);
  }

  // What the asker sends.

  send(chunk: Uint8Array): boolean {
    this.#bodySent = true;
    return this.#client?.send(chunk) !== false;
  }

  end(trailers: Fields | undefined): void {
    this.#requestEnded = true;
    this.#client?.end(trailers && ownTrailers(this.#asked.request, trailers));
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
    // Whoever answers before it has heard all does not want the rest.
    if (isUnwanted || !this.#requestEnded) this.#client?.reset("cancelled");
    this.#client = undefined;
    this.#giveBack();
    this.#pool.leave(this.#caller);
  }

  // What the endpoint answers.

  onInformational(head: ResponseHead): void {
    this.#heard();
    this.#asker.informed(head);
  }

  onResponse(head: ResponseHead, ends: boolean): void {
    this.#responded = true;
    this.#heard();
    const isFailure = head.status >= 500 || ends && isGrpcFailure(head);
    const failure = head.status >= 500 ? `status ${head.status}` : "a gRPC status";
    this.#tellHealth(isFailure ? failure : undefined);
    for (const cookie of this.#cookies ?? NO_COOKIES) addField(head.fields, "set-cookie", cookie);
    this.#asker.responded(head, ends);
  }

  onData(chunk: Uint8Array): void {
    this.#heard();
    this.#asker.responseData(chunk);
  }

  #heard(): void {
    if (this.#way) this.#way.heard = true;
  }

  onEnd(trailers: Fields | undefined): void {
    this.#asker.responseEnd(trailers);
  }

  onDrain(): void {
    this.#asker.bodyWanted();
  }

  onReset(reason: ResetReason, detail: string): void {
    if (this.#over) return;
    this.#client = undefined;
    if (!this.#responded && this.#mayGoAgain(reason)) {
      this.#giveBack();
      this.#asker.bodyHeld();
      return this.start();
    }
    this.#tellHealth(`${reason}: ${detail}`);
    if (reason === "refused" && !this.#responded) {
      this.#asker.bodyHeld();
      return this.#asker.upstreamFailed("response_reset", detail, this.#host);
    }
    this.#asker.upstreamFailed(RESET_CODES[reason] ?? "response_reset", detail, "");
  }

  /** Nothing was answered, and nobody can have acted on it twice. */
  #mayGoAgain(reason: ResetReason): boolean {
    const { endsWithHead, request: { method, upgrade } } = this.#asked;
    if (this.#bodySent || this.#attempts > MAX_AGAIN) return false;
    // The end of an empty body comes once, too.
    if (this.#requestEnded && !endsWithHead) return false;
    if (reason === "refused") return true;
    return reason === "connection" && this.#wasUsed && upgrade === "" && IDEMPOTENT.has(method);
  }

  timedOut(): void {
    if (!this.#responded) this.#tellHealth("no response in time");
  }

  /** `failure`: what it was, if it was one. */
  #tellHealth(failure: string | undefined): void {
    const lease = this.#lease;
    if (!lease) return;
    if (failure !== undefined) countFailure(lease, failure, this.#context);
    else lease.target.pool.succeeded(lease.state);
  }

  #giveBack(): void {
    if (this.#lease) giveBack(this.#lease);
    this.#lease = undefined;
  }
}

/** A response of gRPC that is nothing but its status; one after messages says nothing of the endpoint. */
function isGrpcFailure({ fields }: ResponseHead): boolean {
  const status = readGrpcStatus(fields);
  return status !== undefined && httpStatusOf(status) >= 500;
}

/** Whether an answer makes bytes both ways of it: yes to an upgrade. */
export function opensTunnel({ upgrade }: RequestHead, status: number): boolean {
  return upgrade !== "" && status === 101;
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

const NO_COOKIES: readonly string[] = [];
const NO_RECORD: AttemptHandler<PooledConnection>["record"] = {
  stage: "target",
  endpoint: "",
  secured: () => {},
};

/** What it is that an endpoint broke an exchange; else `response_reset`. */
const RESET_CODES: Partial<Record<ResetReason, ErrorCode>> = {
  protocol: "response_invalid",
  overflow: "response_invalid",
  connection: "endpoint_reset",
};
