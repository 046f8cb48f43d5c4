/**
 * One log line for each connection that ended.
 *
 * @module
 */

import { type Clock, type Log, type LogFields, type Severity, severityOf } from "../../base/mod.ts";
import type { ConnectionRecord } from "./connection_record.ts";
import { endedByOf, type Ending } from "./ending.ts";
import type { FailureSummary } from "./failure_summary.ts";
import type { ConnectionObserver } from "./observers.ts";

export interface ConnectionLogOptions {
  readonly log: Log;
  readonly sums: FailureSummary;
  readonly clock: Clock;
}

export class ConnectionLog implements ConnectionObserver {
  readonly #options: ConnectionLogOptions;

  constructor(options: ConnectionLogOptions) {
    this.#options = options;
  }

  ended(record: ConnectionRecord, ending: Ending): void {
    const { log, sums, clock } = this.#options;
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
  }
}

/** A connection that carried HTTP and ended in order adds nothing to the lines of its requests. */
function levelOf({ requests }: ConnectionRecord, ending: Ending): Severity {
  if (ending.kind === "completed") return requests ? "debug" : "info";
  return ending.quiet ? "info" : severityOf(ending.code);
}
