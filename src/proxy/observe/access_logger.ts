/** The access log: a line for each exchange, and each connection that carries none. @module */

import { hostname } from "node:os";
import { type Clock, connectionFlagOf, type ErrorCode, type Stats } from "../../base/mod.ts";
import {
  compileFormat,
  type DownstreamFacts,
  ExchangeRecord,
  FLAG,
  type FormatLine,
} from "../../http/mod.ts";
import type { AccessLogPart } from "../../snapshot/mod.ts";
import type { ConnectionRecord, Ending } from "./connection_record.ts";
import { LogSampler, withRate } from "./log_sampler.ts";
import type { ConnectionObserver, ExchangeObserver } from "./observers.ts";

/** Takes a line, which ends with a line feed. */
export type TakeLine = (line: string) => void;

export class AccessLogger {
  readonly part: AccessLogPart;
  readonly #line: FormatLine;
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #take: TakeLine;
  readonly #sampler: LogSampler | undefined;

  constructor(part: AccessLogPart, { clock, take, stats }: {
    readonly clock: Pick<Clock, "now" | "monotonic">;
    readonly take: TakeLine;
    readonly stats: Stats;
  }) {
    this.part = part;
    this.#clock = clock;
    this.#take = take;
    this.#sampler = part.sampling && new LogSampler(part.sampling, stats);
    const process = { hostname: hostname(), now: () => clock.now() };
    const compiled = compileFormat(part.format, process);
    // The format was validated when it was read; a line in another form is worth more than none.
    const usable = compiled.kind === "compiled"
      ? compiled
      : compileFormat({ kind: "default" }, process);
    this.#line = usable.kind === "compiled" ? usable.line : () => "";
  }

  readonly exchanges: ExchangeObserver = { ended: (record) => this.#write(record) };

  readonly connections: ConnectionObserver = {
    ended: (record, ending) => {
      // HTTP has a line for each exchange; its connections have one only where they were refused before.
      const isOwn = !record.speaksHttp || !record.served && this.part.listeners;
      // A port probe does not use the service.
      const isProbe = ending.kind === "failed" && ending.code === "closed_early";
      if (isOwn && !isProbe) this.#connection(record, ending);
    },
  };

  #connection(record: ConnectionRecord, ending: Ending): void {
    const { relay, openedMs } = record;
    const clock = this.#clock;
    const nowMs = clock.monotonic();
    const line = new ExchangeRecord(factsOf(record), undefined, {
      wallMs: Math.round(clock.now() - (nowMs - openedMs)),
      monotonicMs: openedMs,
    });
    line.endAt = nowMs;
    line.receivedBytes = relay?.receivedBytes ?? 0;
    line.sentBytes = relay?.sentBytes ?? 0;
    line.upstreamHost = record.endpoint;
    line.upstreamCluster = record.cluster ||
      (record.direction === "inbound" ? "local_app" : record.destination);
    if (record.upstreamLocal !== "") line.upstream = { local: record.upstreamLocal };
    if (ending.kind === "failed") describe(line, ending.code, ending.reason);
    this.#write(line, ending.kind === "failed" ? ending.code : undefined);
  }

  #write(record: ExchangeRecord, code?: ErrorCode): void {
    const rate = this.#sampler?.rateOf(record, code) ?? 1;
    if (rate > 0) this.#take(withRate(this.#line(record), rate));
  }
}

function describe(line: ExchangeRecord, code: ErrorCode, reason: string): void {
  const flag = connectionFlagOf(code);
  line.flags = flag === "" ? 0 : FLAG[flag];
  line.connectionDetails = code === "intention_denied" || code === "authorize_failed"
    ? "rbac_access_denied_matched_policy[none]"
    : code;
  if (line.flags === FLAG.UF) line.upstreamFailure = reason;
}

function factsOf(record: ConnectionRecord): DownstreamFacts {
  const { id, remote, local, direction, source } = record;
  const uri = direction === "inbound" && source.startsWith("spiffe://") ? source : "";
  return {
    id,
    remote,
    local,
    requestedServerName: record.serverName,
    tlsVersion: direction === "inbound" ? record.tlsVersion : "",
    peer: uri === "" ? undefined : { uri, serial: "", leaf: undefined },
    localUri: "",
  };
}
