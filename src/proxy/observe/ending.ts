/**
 * Who ended a connection, and why. Every connection ends here exactly once, with one log line and one count.
 *
 * @module
 */

import { type ErrorCode, type Log, type LogFields, type Origin, originOf } from "../../base/mod.ts";
import type { RelayEnd } from "../../net/mod.ts";
import type { ConnectionRecord, ListenerStats } from "./connection_record.ts";
import type { FailureSummary } from "./failure_summary.ts";
import { type Severity, severityOf } from "./severity.ts";

/** How a connection ended: in order, or with a code from the table. */
export type Ending =
  | { readonly kind: "completed"; readonly by: "downstream" | "upstream" }
  | {
    readonly kind: "failed";
    readonly code: ErrorCode;
    readonly reason: string;
    /** It was under way and we ended it, whoever the code blames. */
    readonly by?: "proxy" | undefined;
    /** Its like was warned of a short while ago. */
    readonly quiet?: boolean;
  };

/** Writes the one line and the counts of a connection's end. */
export function reportEnd(
  record: ConnectionRecord,
  ending: Ending,
  options: {
    readonly log: Log;
    readonly stats: ListenerStats;
    readonly sums: FailureSummary;
    readonly nowMs: number;
  },
): void {
  const { log, stats, sums, nowMs } = options;
  const { relay } = record;
  stats.active.add(-1);
  stats.receivedBytes.add(relay?.receivedBytes ?? 0);
  stats.sentBytes.add(relay?.sentBytes ?? 0);
  const endedBy = endedByOf(ending);
  if (ending.kind === "failed" && ending.code === "intention_denied") stats.denied.add(1);
  stats.ended(ending.kind === "completed" ? "completed" : ending.code, endedBy);
  const level = levelOf(record, ending);
  if (!log.enabled(level)) return;
  if (ending.kind === "failed" && !sums.isTold(record, ending, level)) return;
  const fields: LogFields = {
    direction: record.direction,
    listener: record.listener,
    source: record.source || record.remote,
    destination: record.destination,
    remote: record.remote,
    endpoint: record.endpoint || undefined,
    received_bytes: relay?.receivedBytes ?? 0,
    sent_bytes: relay?.sentBytes ?? 0,
    duration_ms: Math.round(nowMs - record.openedMs),
    ended_by: endedBy,
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

function endedByOf(ending: Ending): Origin {
  return ending.kind === "completed" ? ending.by : ending.by ?? originOf(ending.code);
}

/** A connection that carried HTTP and ended well has nothing to add to its requests' own lines. */
function levelOf({ requests }: ConnectionRecord, ending: Ending): Severity {
  if (ending.kind === "completed") return requests ? "debug" : "info";
  return ending.quiet ? "info" : severityOf(ending.code);
}

/** What a relay's end means for the connection. */
export function endingOf(end: RelayEnd): Ending {
  if (end.kind === "ended") return { kind: "completed", by: end.first };
  return {
    kind: "failed",
    code: end.by === "downstream" ? "downstream_reset" : "endpoint_reset",
    reason: "",
  };
}
