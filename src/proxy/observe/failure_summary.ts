/**
 * The log lines of connections. Warnings, and failures that any caller can cause, do not flood the log: the
 * first of a second is logged in full, the others in one line that counts them. Metrics count each.
 *
 * @module
 */

import {
  type Clock,
  type ErrorCode,
  type Log,
  type LogFields,
  networkOf,
  type Severity,
  severityOf,
} from "../../base/mod.ts";
import { type ConnectionRecord, endedByOf, type Ending } from "./connection_record.ts";
import type { ConnectionObserver } from "./observers.ts";

/** Failures that any caller can cause, authenticated or not, and full limits. */
const BY_STRANGERS: ReadonlySet<ErrorCode> = new Set([
  "overloaded",
  "limit_reached",
  "handshake_failed",
  "handshake_timed_out",
  "handshake_crowded_out",
  "closed_early",
  "identity_invalid",
  "chain_untrusted",
  "request_invalid",
  "downstream_flooded",
]);
/** Other failures have a line each up to this rate; the access log has every request. */
const LINES_PER_SECOND = { connections: 1_000, requests: 100, refusals: 1 } as const;
const MORE = {
  connections: "more connections failed",
  requests: "more requests failed",
  refusals: "more requests refused by the upstream",
} as const;
/** Addresses that are counted apart. */
const MAX_SOURCES = 1_000;
const PERIOD_MS = 1_000;

type What = keyof typeof MORE;

export interface RefusalReason {
  readonly code: ErrorCode;
  readonly reason: string;
}

/** A reached limit on connections: of a listener alone, or of the process. */
export interface ReachedLimit extends RefusalReason {
  readonly limit: "listener" | "process";
}

interface Sum {
  readonly flush: () => void;
  logged: number;
  count: number;
  readonly sources: Set<string>;
  example: LogFields;
}

export class FailureSummary {
  readonly #clock: Clock;
  readonly #log: Log;
  /** Failures of this second, by listener and code. */
  readonly #sums = new Map<string, Sum>();

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
    this.#clock = clock;
    this.#log = log;
  }

  /** True: log the failure in full. False: it is counted in the line for its second. */
  isTold(
    record: ConnectionRecord,
    { code, reason }: RefusalReason,
    level: Severity,
    what: What = "connections",
  ): boolean {
    const key = `${what} ${code} ${record.listener}`;
    let sum = this.#sums.get(key);
    if (!sum) {
      const { direction, listener } = record;
      const timer = this.#clock.after(PERIOD_MS, () => made.flush());
      const flush = () => {
        timer.cancel();
        this.#sums.delete(key);
        const { count, sources: { size: sources }, example } = made;
        if (count === 0) return;
        const fields = { direction, listener, code, count, sources, ...example };
        this.#log[level](MORE[what], fields);
      };
      const made: Sum = { flush, logged: 0, count: 0, sources: new Set(), example: {} };
      this.#sums.set(key, sum = made);
    }
    const isSummed = level === "warn" || BY_STRANGERS.has(code);
    if (sum.logged < (isSummed ? 1 : LINES_PER_SECOND[what])) {
      sum.logged++;
      return true;
    }
    sum.count++;
    if (sum.sources.size < MAX_SOURCES) sum.sources.add(networkOf(record.remote));
    if (sum.count === 1) {
      const { remote, stage, source, rule } = record;
      sum.example = {
        stage,
        source: source || remote,
        remote,
        reason: reason || undefined,
        rule: rule || undefined,
      };
    }
    return false;
  }

  /** Logs the pending counts, at the end of the data path. */
  flush(): void {
    for (const { flush } of [...this.#sums.values()]) flush();
  }
}

/** One log line for each connection that ended. */
export function connectionLog({ log, sums, clock }: {
  readonly log: Log;
  readonly sums: FailureSummary;
  readonly clock: Clock;
}): ConnectionObserver {
  const ended = (record: ConnectionRecord, ending: Ending) => {
    const level = levelOf(record, ending);
    if (!log.enabled(level)) return;
    if (ending.kind === "failed" && !sums.isTold(record, ending, level)) return;
    const { relay } = record;
    const fields: LogFields = {
      direction: record.direction,
      listener: record.listener,
      source: record.source || record.remote,
      destination: record.destination,
      remote: record.remote,
      endpoint: record.endpoint || undefined,
      received_bytes: relay?.receivedBytes ?? 0,
      sent_bytes: relay?.sentBytes ?? 0,
      duration_ms: Math.round(clock.monotonic() - record.openedMs),
      ended_by: endedByOf(ending),
      stage: ending.kind === "completed" ? "relay" : record.stage,
      code: ending.kind === "failed" ? ending.code : undefined,
      reason: ending.kind === "failed" && ending.reason !== record.rule && ending.reason
        ? ending.reason
        : undefined,
      rule: record.rule || undefined,
      resumed: record.resumed || undefined,
    };
    log[level](ending.kind === "completed" ? "connection ended" : "connection failed", fields);
  };
  return { ended };
}

/** A connection that carried HTTP and ended in order adds nothing to the lines of its requests. */
function levelOf({ requests }: ConnectionRecord, ending: Ending): Severity {
  if (ending.kind === "completed") return requests ? "debug" : "info";
  return ending.quiet ? "info" : severityOf(ending.code);
}
