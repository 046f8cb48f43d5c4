/** A log record for each exchange and connection, for a collector: an access log with names in place of a format. @module */

import { type Clock, type ErrorCode, type LogLevel, peerIp, type Stats } from "../../base/mod.ts";
import {
  type ExchangeRecord,
  pathWithoutQuery,
  readTrace,
  type SpanAttributes,
  TRACE_FORMS,
} from "../../http/mod.ts";
import type { LogSamplingRule } from "../../snapshot/mod.ts";
import type { ConnectionRecord, Ending } from "./connection_record.ts";
import { LogSampler } from "./log_sampler.ts";
import type { ConnectionObserver, ExchangeObserver } from "./observers.ts";
import { attributesOf, connectionAttributes, grpcStatusOf } from "./span_attributes.ts";

/** Plain data. */
export interface AccessRecord {
  readonly timeMs: number;
  readonly level: LogLevel;
  readonly body: string;
  readonly attributes: SpanAttributes;
  /** `""`: the request carries no trace. */
  readonly traceId: string;
  readonly spanId: string;
}

/** May lose the record. Never throws or waits. */
export type TakeAccessRecord = (record: AccessRecord) => void;

export class AccessRecords {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #take: TakeAccessRecord;
  readonly #sampler: LogSampler | undefined;

  constructor(sampling: readonly LogSamplingRule[] | undefined, { clock, take, stats }: {
    readonly clock: Pick<Clock, "now" | "monotonic">;
    readonly take: TakeAccessRecord;
    readonly stats: Stats;
  }) {
    this.#clock = clock;
    this.#take = take;
    this.#sampler = sampling && new LogSampler(sampling, stats);
  }

  readonly exchanges: ExchangeObserver = {
    ended: (record) => {
      const rate = this.#sampler?.rateOf(record) ?? 1;
      if (rate > 0) this.#take(recordOf(record, rate));
    },
  };

  readonly connections: ConnectionObserver = {
    ended: (record, ending) => {
      // Requests have records of their own; a port probe does not use the service.
      const isCounted = record.speaksHttp && record.served;
      const isProbe = ending.kind === "failed" && ending.code === "closed_early";
      if (!isCounted && !isProbe) this.#take(this.#connection(record, ending));
    },
  };

  #connection(record: ConnectionRecord, ending: Ending): AccessRecord {
    const code: ErrorCode | undefined = ending.kind === "failed" ? ending.code : undefined;
    const { direction, destination, openedMs, caller, remote } = record;
    const durationMs = this.#clock.monotonic() - openedMs;
    const outcome = code ?? "completed";
    return {
      timeMs: this.#clock.now() - durationMs,
      level: code === undefined ? "info" : "warn",
      body: `${direction} ${caller || peerIp(remote)} => ${destination} tcp ${outcome}`,
      attributes: [...connectionAttributes(record, code), "postern.duration_ms", durationMs],
      traceId: "",
      spanId: "",
    };
  }
}

function recordOf(record: ExchangeRecord, rate: number): AccessRecord {
  const { request, downstream: { connection }, trace, status, code, startMs } = record;
  const parent = trace ?? (request && readTrace(request.fields, TRACE_FORMS).parent);
  const { direction = "inbound", listener: name = "", destination = "" } = connection ?? {};
  const attributes = attributesOf(record, { direction, name, destination }, grpcStatusOf(record));
  const path = pathWithoutQuery(request?.path ?? "");
  return {
    timeMs: startMs,
    level: code !== undefined || status >= 500 ? "warn" : "info",
    body: `${request?.method ?? "-"} ${path} ${status}`,
    attributes: [
      ...attributes,
      "postern.duration_ms",
      Math.max(0, record.endAt - record.startedAt),
      ...rate > 1 ? ["sampled", `1/${rate}`] : [],
    ],
    traceId: parent?.traceId ?? "",
    spanId: parent?.spanId ?? "",
  };
}
