/** Counters of the gRPC calls to one cluster, by method and final status. @module */

import type { Counter, Labels, Stats } from "../../base/mod.ts";
import { type ExchangeRecord, GRPC_STATUS, isGrpc, readGrpcStatus } from "../../http/mod.ts";
import { SpreadCounters } from "./metrics.ts";

const CALLS = [
  "grpc_calls_total",
  "gRPC calls that ended with a status, by method; beyond 100 methods as other",
] as const;

/** Methods with counters of their own: callers choose the names. */
const METHOD_LIMIT = 100;
const PATH = /^\/([\w.]{1,120})\/(\w{1,120})$/;

interface Method {
  readonly service: string;
  readonly method: string;
  /** By status. */
  readonly counters: (Counter | undefined)[];
}

export class GrpcStats {
  readonly #calls: SpreadCounters;
  readonly #other: Method = { service: "other", method: "other", counters: [] };
  /** By path. */
  readonly #methods = new Map<string, Method>();
  /** Path and method of the last call: calls of one method often follow each other. */
  #lastPath = "";
  #last = this.#other;

  constructor(stats: Stats, labels: Labels) {
    this.#calls = new SpreadCounters(stats, CALLS, labels);
  }

  /** Counts an exchange that is a call and ended with a status. */
  ended({ request, response, responseTrailers }: ExchangeRecord): void {
    if (!request || !response || !isGrpc(request.fields)) return;
    const said = (responseTrailers && readGrpcStatus(responseTrailers)) ??
      readGrpcStatus(response.fields);
    if (said === undefined) return;
    const status = said > GRPC_STATUS.unauthenticated ? GRPC_STATUS.unknown : said;
    if (request.path !== this.#lastPath) {
      this.#last = this.#methods.get(request.path) ?? this.#methodOf(request.path);
      this.#lastPath = request.path;
    }
    const { counters, service, method } = this.#last;
    const counter = counters[status] ??= this.#calls.of(
      `${service} ${method} ${status}`,
      { service, method, status: String(status) },
    );
    counter.add(1);
  }

  #methodOf(path: string): Method {
    const parts = this.#methods.size < METHOD_LIMIT ? PATH.exec(path) : null;
    if (!parts) return this.#other;
    const [, service = "", method = ""] = parts;
    const made = { service, method, counters: [] };
    this.#methods.set(path, made);
    return made;
  }

  forget(): void {
    this.#calls.forget();
    this.#other.counters.length = 0;
    this.#methods.clear();
    this.#lastPath = "";
    this.#last = this.#other;
  }
}
