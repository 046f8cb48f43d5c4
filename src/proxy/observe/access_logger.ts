/**
 * One line for each exchange, and for each connection that carries no exchanges: which facts of ours are
 * which of Envoy's. Where lines go is somebody else's affair; giving them away costs no wait.
 *
 * @module
 */

import { hostname } from "node:os";
import type { ErrorCode } from "../../base/mod.ts";
import {
  compileFormat,
  type DownstreamFacts,
  ExchangeRecord,
  FLAG,
  type FormatLine,
} from "../../http/mod.ts";
import type { AccessLogPart } from "../../snapshot/mod.ts";
import type { ConnectionRecord } from "./connection_record.ts";
import type { Ending } from "./ending.ts";

/** Takes a line with its end. */
export type TakeLine = (line: string) => void;

/** Of a connection, what Envoy calls a flag. */
const FLAGS: Partial<Record<ErrorCode, number>> = {
  no_endpoint: FLAG.UH,
  limit_reached: FLAG.UO,
  overloaded: FLAG.OM,
  endpoint_refused: FLAG.UF,
  endpoint_untrusted: FLAG.UF,
  endpoint_timed_out: FLAG.UF,
  local_refused: FLAG.UF,
  local_timed_out: FLAG.UF,
  endpoint_reset: FLAG.UC,
  refused_by_peer: FLAG.UC,
  downstream_reset: FLAG.DC,
  lifetime_ended: FLAG.DT,
};

export class AccessLogger {
  readonly part: AccessLogPart;
  readonly #line: FormatLine;
  readonly #take: TakeLine;

  constructor(
    part: AccessLogPart,
    options: { readonly now: () => number; readonly take: TakeLine },
  ) {
    this.part = part;
    this.#take = options.take;
    const around = { hostname: hostname(), now: options.now };
    const compiled = compileFormat(part.format, around);
    // Judged when it was read; a line in another form is worth more than none.
    const usable = compiled.kind === "compiled"
      ? compiled
      : compileFormat({ kind: "default" }, around);
    this.#line = usable.kind === "compiled" ? usable.line : () => "";
  }

  /** Its record is complete. */
  exchange(record: ExchangeRecord): void {
    this.#take(this.#line(record));
  }

  /** One that carried bytes, or was refused before anybody knew what it would carry. */
  connection(
    record: ConnectionRecord,
    ending: Ending,
    at: { readonly wallMs: number; readonly monotonicMs: number },
  ): void {
    // What probes ports is no use of the service.
    if (ending.kind === "failed" && ending.code === "closed_early") return;
    const { relay, openedMs } = record;
    const startedMs = Math.round(at.wallMs - (at.monotonicMs - openedMs));
    const line = new ExchangeRecord(factsOf(record), undefined, {
      wallMs: startedMs,
      monotonicMs: openedMs,
    });
    line.endAt = at.monotonicMs;
    line.receivedBytes = relay?.receivedBytes ?? 0;
    line.sentBytes = relay?.sentBytes ?? 0;
    line.upstreamHost = record.endpoint;
    line.upstreamCluster = record.cluster ||
      (record.direction === "inbound" ? "local_app" : record.destination);
    if (record.upstreamLocal !== "") line.upstream = { local: record.upstreamLocal };
    if (ending.kind === "failed") describe(line, ending.code, ending.reason);
    this.#take(this.#line(line));
  }
}

function describe(line: ExchangeRecord, code: ErrorCode, reason: string): void {
  line.flags = FLAGS[code] ?? 0;
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
