/** Answers requests from the store, or sends them on and stores what comes back. @module */

import type {
  Answer,
  Bytes,
  Headers,
  Host,
  HttpRequest,
  HttpResponse,
  Next,
  RequestArgs,
} from "../../src/plugin/api.ts";
import { AUTHENTICATED, VERIFIED_CLAIMS } from "../../src/plugin/verified_claims.ts";
import {
  type Demands,
  demandsOf,
  isNotModified,
  type Storable,
  storable,
} from "./cache_control.ts";
import { type Flight, Flights } from "./flights.ts";
import { recordedBody } from "./recorded_body.ts";
import {
  type CacheRequest,
  keyOf,
  type RecordingTicket,
  ResponseStore,
  selectionOf,
  type StoredResponse,
} from "./response_store.ts";

const GRPC = /^application\/grpc/i;
const SAFE: readonly string[] = ["GET", "HEAD", "OPTIONS", "TRACE"];
/** A request with one of these is sent on as it is. */
const PASSED = ["range", "if-range", "if-match", "if-unmodified-since"];
const CONDITIONS = ["if-none-match", "if-modified-since"];
/** A 304 brings these up to date. */
const UPDATED = ["age", "cache-control", "date", "etag", "expires", "last-modified"];
/** Fields that belong to one exchange. */
const NOT_STORED = ["x-envoy-attempt-count", "x-envoy-upstream-service-time", "x-request-id"];
/** A 304 has these of the stored response. */
const IN_304 = ["cache-control", "content-location", "date", "etag", "expires", "vary"];
/** Bodies up to this length are read before the response begins, which keeps their length. */
const AT_ONCE_BYTES = 65_536;

/** A request that may be answered from the store. */
interface Lookup extends CacheRequest {
  readonly key: string;
  readonly demands: Demands;
  readonly isConditional: boolean;
}

/** A request on its way to the endpoint. */
interface Fetch {
  readonly lookup: Lookup;
  readonly startedMs: number;
  readonly ticket: RecordingTicket;
  /** The stored response that is no longer fresh. */
  readonly stored: StoredResponse | undefined;
  /** The endpoint is asked whether the stored response is still the current one. */
  readonly isValidating: boolean;
  /** May be called again. */
  over(isStored: boolean): void;
}

export class ResponseCache {
  readonly #host: Host;
  readonly #responseLimitBytes: number;
  readonly #store: ResponseStore;
  readonly #flights: Flights;
  readonly #requests;
  readonly #bytes;
  readonly #responses;
  #shown = { bytes: 0, size: 0 };

  constructor(host: Host, limits: {
    readonly limitBytes: number;
    readonly responseLimitBytes: number;
  }) {
    this.#host = host;
    this.#responseLimitBytes = limits.responseLimitBytes;
    this.#store = new ResponseStore(limits.limitBytes);
    this.#flights = new Flights(host);
    this.#requests = host.stats.counter("requests", {
      help: "Requests by where the response came from",
      labels: { result: ["hit", "stale", "validated", "collapsed", "miss", "passed"] },
    });
    this.#bytes = host.stats.gauge("stored_bytes", { help: "Bytes of stored responses" });
    this.#responses = host.stats.gauge("stored_responses", { help: "Stored responses" });
  }

  answer(args: RequestArgs, next: Next): Answer {
    const { request, exchange } = args;
    const { method, upgrade, headers, body } = request;
    if (upgrade !== "" || GRPC.test(headers.get("content-type") ?? "")) return this.#pass(next);
    if (!SAFE.includes(method)) return this.#change(request, next);
    if ((method !== "GET" && method !== "HEAD") || body !== null) return this.#pass(next);
    if (PASSED.some((name) => headers.get(name) !== undefined)) return this.#pass(next);
    const demands = demandsOf(headers);
    if (demands.noStore) return this.#pass(next);
    const lookup: Lookup = {
      request,
      key: keyOf(request),
      source: exchange.connection.source?.uri ?? "",
      hasCredentials: headers.get("authorization") !== undefined ||
        headers.get("cookie") !== undefined || exchange.get(AUTHENTICATED) !== undefined ||
        (exchange.get(VERIFIED_CLAIMS)?.size ?? 0) > 0,
      demands,
      isConditional: CONDITIONS.some((name) => headers.get(name) !== undefined),
    };
    const stored = this.#store.find(lookup);
    const use = stored && this.#useOf(stored, demands);
    if (stored && use) return this.#reply(stored, { lookup, result: use });
    if (demands.onlyIfCached) return this.#host.reply(504, {}, "not cached");
    if (method === "HEAD") return this.#pass(next);
    if (lookup.isConditional) return this.#fetch(lookup, { args, next });
    if (lookup.hasCredentials) return this.#fetch(lookup, { args, next, stored });
    const key = `${lookup.key}\0${lookup.source}\0${selectionOf(request, [])}`;
    const other = this.#flights.wait(key, exchange.signal);
    if (other) return other.then(() => this.#afterOther(lookup, { args, next }));
    return this.#fetch(lookup, { args, next, stored, flight: this.#flights.begin(key) });
  }

  close(): void {
    this.#store.clear();
    this.#show();
  }

  #pass(next: Next): Answer {
    this.#requests.add(1, { result: "passed" });
    return next();
  }

  /** A request that may change the resource; RFC 9111 4.4. */
  #change(request: HttpRequest, next: Next): Answer {
    this.#requests.add(1, { result: "passed" });
    return next({
      response: (response) => {
        if (!response.failure && response.status < 400) {
          this.#store.invalidate(keyOf(request));
          this.#show();
        }
        return response;
      },
    });
  }

  #afterOther(lookup: Lookup, on: { readonly args: RequestArgs; readonly next: Next }): Answer {
    const stored = this.#store.find(lookup);
    if (stored && this.#useOf(stored, lookup.demands)) {
      return this.#reply(stored, { lookup, result: "collapsed" });
    }
    return this.#fetch(lookup, { ...on, stored });
  }

  /** How the response may be used without validation; `undefined`: not at all. */
  #useOf(stored: StoredResponse, demands: Demands): "hit" | "stale" | undefined {
    const age = this.#ageOf(stored);
    const left = stored.freshFor - age;
    if (left > 0 && age < demands.maxAge && left >= demands.minFresh) return "hit";
    const mayBeStale = stored.isRenewed && -left < stored.staleFor &&
      demands.maxAge === Infinity && demands.minFresh === 0;
    return mayBeStale ? "stale" : undefined;
  }

  #ageOf({ age, storedAtMs }: StoredResponse): number {
    return age + (this.#host.clock.now() - storedAtMs) / 1_000;
  }

  #reply(stored: StoredResponse, { lookup, result }: {
    readonly lookup: Lookup;
    readonly result: "hit" | "stale" | "validated" | "collapsed";
  }): HttpResponse {
    this.#requests.add(1, { result });
    const { request: { headers: asked }, isConditional } = lookup;
    const age = `${Math.floor(this.#ageOf(stored))}`;
    if (isConditional && isNotModified(asked, stored.headers)) {
      const left = [...stored.headers].map(([name]) => name)
        .filter((name) => !IN_304.includes(name));
      const headers = stored.headers.with({ remove: left, set: { age } });
      return this.#host.reply(304).with({ headers, body: null });
    }
    const { status, body } = stored;
    const headers = stored.headers.with({ set: { age } });
    return this.#host.reply(status).with({ headers, body: body.length > 0 ? body : null });
  }

  /** Sends the request on. `stored`: a response to validate; `flight`: others wait for the result. */
  #fetch(lookup: Lookup, { args: { request, exchange }, next, stored, flight }: {
    readonly args: RequestArgs;
    readonly next: Next;
    readonly stored?: StoredResponse | undefined;
    readonly flight?: Flight | undefined;
  }): Answer {
    const conditions = stored && conditionsOf(stored);
    const ticket = this.#store.begin(lookup.key);
    if (stored) stored.isRenewed = true;
    let isOver = false;
    const over = (isStored: boolean) => {
      if (isOver) return;
      isOver = true;
      this.#store.end(ticket);
      if (stored) stored.isRenewed = false;
      if (flight) this.#flights.end(flight, isStored);
      this.#show();
    };
    // Also if no response comes.
    exchange.onEnd(() => over(false));
    const startedMs = this.#host.clock.now();
    const isValidating = conditions !== undefined;
    const fetch = { lookup, startedMs, ticket, stored, isValidating, over };
    return next({
      request: conditions ? request.with({ headers: { set: conditions } }) : request,
      response: (response) => this.#answered(response, fetch),
    });
  }

  #answered(response: HttpResponse, fetch: Fetch): Answer {
    const { lookup, stored, over } = fetch;
    const { status, failure, body } = response;
    if (status === 304 && !failure) return this.#confirmed(response, fetch);
    this.#requests.add(1, { result: "miss" });
    const { hasCredentials } = lookup;
    const nowMs = this.#host.clock.wall();
    const facts = failure ? undefined : storable(response, { hasCredentials, nowMs });
    // Another response has taken its place; an error has not.
    if (stored && !failure && status < 500) this.#store.remove(stored);
    const { length } = body ?? { length: 0 };
    if (!facts || (length ?? 0) > this.#responseLimitBytes) {
      over(false);
      return response;
    }
    const put = (whole: Bytes | undefined) => {
      if (whole) this.#put(fetch, { ...facts, status, headers: response.headers, body: whole });
      over(whole !== undefined);
    };
    if (body === null) {
      put(new Uint8Array());
      return response;
    }
    const grow = (bytes: number) => this.#store.grow(fetch.ticket, bytes);
    if (length !== null && length <= AT_ONCE_BYTES && grow(length)) {
      return body.bytes(AT_ONCE_BYTES).then((whole) => {
        put(whole);
        return response.with({ body: whole });
      });
    }
    const limitBytes = this.#responseLimitBytes;
    return response.with({ body: recordedBody(body, { limitBytes, grow, done: put }) });
  }

  #put({ lookup, startedMs, ticket }: Fetch, content: StoredContent): void {
    if (ticket.isOutdated) return;
    const { request, source, key } = lookup;
    this.#store.put(key, {
      ...content,
      headers: content.headers.with({ remove: NOT_STORED }),
      storedAtMs: startedMs,
      source,
      selection: selectionOf(request, content.vary),
      isRenewed: false,
    });
  }

  /** The endpoint says that the stored response is still the current one, or that the caller's copy is. */
  #confirmed(response: HttpResponse, fetch: Fetch): Answer {
    const { lookup, isValidating, over } = fetch;
    const own = isValidating ? fetch.stored : undefined;
    const stored = own ?? this.#sameTag(lookup, response.headers);
    const fresh = stored && this.#refreshed(stored, response.headers, fetch);
    over(fresh !== undefined);
    // The caller asked with conditions of its own.
    if (!own) {
      this.#requests.add(1, { result: "passed" });
      return response;
    }
    return this.#reply(fresh ?? own, { lookup, result: "validated" });
  }

  /** The stored response that a 304 to a caller's own condition is about. */
  #sameTag(lookup: Lookup, said: Headers): StoredResponse | undefined {
    const etag = said.get("etag");
    const stored = this.#store.find(lookup);
    const isSame = etag !== undefined && !etag.startsWith("W/") &&
      stored?.headers.get("etag") === etag;
    return isSame ? stored : undefined;
  }

  /** Stores the response with the fields of a 304; `undefined`: it may not be stored any more. */
  #refreshed(stored: StoredResponse, said: Headers, fetch: Fetch): StoredResponse | undefined {
    const { lookup: { hasCredentials, key }, startedMs, ticket } = fetch;
    const names = UPDATED.filter((name) => said.get(name) !== undefined);
    let headers = stored.headers.with({ remove: ["age", ...names] });
    for (const name of names) {
      for (const value of said.all(name)) headers = headers.with({ add: { [name]: value } });
    }
    const { status } = stored;
    const facts = storable({ status, headers }, { hasCredentials, nowMs: this.#host.clock.wall() });
    this.#store.remove(stored);
    if (!facts || ticket.isOutdated) return undefined;
    const fresh = { ...stored, ...facts, headers, storedAtMs: startedMs, isRenewed: false };
    this.#store.put(key, fresh);
    return fresh;
  }

  #show(): void {
    const { bytes, size } = this.#store;
    this.#bytes.add(bytes - this.#shown.bytes);
    this.#responses.add(size - this.#shown.size);
    this.#shown = { bytes, size };
  }
}

type StoredContent = Pick<StoredResponse, keyof Storable | "status" | "headers" | "body">;

/** `undefined`: it cannot be validated. */
function conditionsOf({ headers }: StoredResponse): Readonly<Record<string, string>> | undefined {
  const etag = headers.get("etag");
  const changed = headers.get("last-modified");
  if (etag === undefined && changed === undefined) return undefined;
  return {
    ...(etag !== undefined && { "if-none-match": etag }),
    ...(changed !== undefined && { "if-modified-since": changed }),
  };
}
