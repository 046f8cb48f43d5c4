/**
 * An exchange that is over: what plugins are told of it, and, for a line of the access log, what there is to
 * tell.
 *
 * @module
 */

import type { ExchangeRecord } from "../http/mod.ts";
import type { Endpoint, ExchangeSummary } from "./api.ts";

export class EndedExchange implements ExchangeSummary {
  readonly status: number;
  readonly code: string;
  readonly attempts: number;
  readonly durationMs: number;
  readonly endpoint: Endpoint | null;
  readonly #record: ExchangeRecord;

  /** Of a record that is complete. */
  constructor(record: ExchangeRecord) {
    this.status = record.status;
    this.code = record.code ?? "";
    this.attempts = record.attempts;
    this.durationMs = record.endAt - record.startedAt;
    this.endpoint = record.upstreamHost === "" ? null : { address: record.upstreamHost };
    this.#record = record;
  }

  /** Throws where it is of somebody else's making. */
  static recordOf(ended: ExchangeSummary): ExchangeRecord {
    if (#record in ended) return ended.#record;
    throw new TypeError("it was not told by onEnd()");
  }
}
