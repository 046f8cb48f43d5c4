/**
 * Taps: an operator sees each connection and request as it ends. A tap is an observer that exists only
 * while somebody reads; its filter is evaluated here, and lines leave the thread in batches.
 *
 * @module
 */

import { type Clock, peerIp, type Timer } from "../../base/mod.ts";
import { type ExchangeRecord, FIELD, type Fields, pathWithoutQuery } from "../../http/mod.ts";
import { upstreamLabel } from "../../snapshot/mod.ts";
import type { ConnectionRecord, Ending } from "./connection_record.ts";
import type { ConnectionObserver, ExchangeObserver } from "./observers.ts";
import { isRefusal } from "./traffic_lists.ts";
import { faultOf } from "./traffic_table.ts";

/** Plain data, sent between threads. Every condition that is there must hold. */
export interface TapFilter {
  /** Service or address of the caller. */
  readonly source?: string;
  /** Label of the upstream, which is outbound traffic only. */
  readonly upstream?: string;
  /** Prefix of the path. */
  readonly path?: string;
  /** `503`, or `5xx` for all of a hundred. */
  readonly status?: string;
  /** Only what a rule or a limit refused. */
  readonly isDenied?: true;
  readonly slowMs?: number;
  /** Fields whose values are shown, in lower case; see {@link isShownField}. */
  readonly headers: readonly string[];
}

export interface OpenTap {
  readonly id: number;
  readonly filter: TapFilter;
}

/** Takes lines of JSON, joined by line feeds, and the number of those that were dropped since the last call. */
export type TakeTapped = (id: number, lines: string, dropped: number) => Promise<void>;

const BATCH_MS = 100;
const BATCH_LINES = 100;
/** Lines that wait, or that the main thread has not taken. Further ones are only counted. */
const LIMIT_LINES = 400;
/** Lines of one second: more are for no reader, and would cost the traffic. */
const LINES_PER_SECOND = 500;
const SHOWN_CHARS = 500;

/** Fields that may hold a secret are never shown. */
export function isShownField(name: string): boolean {
  return /^[!#$%&'*+.^_`|~0-9a-z-]{1,100}$/.test(name) &&
    !/auth|cookie|token|secret|passw|key|credential|session|signature|jwt|forwarded-client-cert/
      .test(name);
}

export class Tap {
  readonly open: OpenTap;
  readonly #clock: Pick<Clock, "now" | "monotonic" | "after">;
  readonly #take: TakeTapped;
  #lines: string[] = [];
  /** Lines of batches that have not been taken yet. */
  #sent = 0;
  #dropped = 0;
  #timer: Timer | undefined;
  #secondMs = 0;
  #inSecond = 0;
  /** Every request is wanted: at full load most are only counted, without a look at their record. */
  readonly #takesAll: boolean;

  constructor(open: OpenTap, { clock, take }: {
    readonly clock: Pick<Clock, "now" | "monotonic" | "after">;
    readonly take: TakeTapped;
  }) {
    this.open = open;
    this.#clock = clock;
    this.#take = take;
    const { headers: _shown, ...conditions } = open.filter;
    this.#takesAll = Object.values(conditions).every((condition) => condition === undefined);
  }

  readonly exchanges: ExchangeObserver = {
    ended: (record) => {
      if ((this.#takesAll || this.#isWanted(record)) && this.#hasRoom(record.endAt)) {
        this.#add(requestLine(record, this.open.filter.headers));
      }
    },
  };

  readonly connections: ConnectionObserver = {
    ended: (record, ending) => {
      // Requests have lines of their own; a connection that was refused before has none.
      if (record.speaksHttp && record.served) return;
      // A port probe does not use the service.
      if (ending.kind === "failed" && ending.code === "closed_early") return;
      const nowMs = this.#clock.monotonic();
      if (this.#isWantedConnection(record, ending, nowMs) && this.#hasRoom(nowMs)) {
        const at = this.#clock.now() - (nowMs - record.openedMs);
        this.#add(connectionLine(record, ending, { at, durationMs: nowMs - record.openedMs }));
      }
    },
  };

  close(): void {
    this.#timer?.cancel();
    this.#lines = [];
  }

  #isWanted(record: ExchangeRecord): boolean {
    const { source, upstream, path, status, isDenied, slowMs } = this.open.filter;
    const { downstream, request, startedAt, endAt } = record;
    const { connection } = downstream;
    if (slowMs !== undefined && endAt - startedAt < slowMs) return false;
    if (status !== undefined && !isStatus(status, record.status)) return false;
    if (path !== undefined && !request?.path.startsWith(path)) return false;
    if (
      source !== undefined && connection?.caller !== source &&
      peerIp(downstream.remote) !== source
    ) return false;
    if (upstream !== undefined && !isUpstream(upstream, connection)) return false;
    return !isDenied || isRefusal(faultOf(record)?.code ?? "");
  }

  #isWantedConnection(record: ConnectionRecord, ending: Ending, nowMs: number): boolean {
    const { source, upstream, path, status, isDenied, slowMs } = this.open.filter;
    // A connection of bytes has neither.
    if (path !== undefined || status !== undefined) return false;
    if (slowMs !== undefined && nowMs - record.openedMs < slowMs) return false;
    if (source !== undefined && record.caller !== source && peerIp(record.remote) !== source) {
      return false;
    }
    if (upstream !== undefined && !isUpstream(upstream, record)) return false;
    return !isDenied || ending.kind === "failed" && isRefusal(ending.code);
  }

  #hasRoom(nowMs: number): boolean {
    if (nowMs - this.#secondMs >= 1_000) {
      this.#secondMs = nowMs;
      this.#inSecond = 0;
    }
    const isFull = this.#lines.length + this.#sent >= LIMIT_LINES ||
      this.#inSecond >= LINES_PER_SECOND;
    if (!isFull) {
      this.#inSecond++;
      return true;
    }
    this.#dropped++;
    // A batch tells the number, also where every line is dropped.
    this.#timer ??= this.#clock.after(BATCH_MS, () => this.#flush());
    return false;
  }

  #add(line: string): void {
    this.#lines.push(line);
    if (this.#lines.length >= BATCH_LINES) return this.#flush();
    this.#timer ??= this.#clock.after(BATCH_MS, () => this.#flush());
  }

  #flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const lines = this.#lines;
    const dropped = this.#dropped;
    if (lines.length === 0 && dropped === 0) return;
    this.#lines = [];
    this.#dropped = 0;
    this.#sent += lines.length;
    const taken = () => this.#sent -= lines.length;
    // A main thread that is gone ends this thread, too.
    this.#take(this.open.id, lines.join("\n"), dropped).then(taken, taken);
  }
}

interface OfListener {
  readonly direction: "inbound" | "outbound";
  readonly listener: string;
  readonly destination: string;
}

function isUpstream(wanted: string, connection: OfListener | undefined): boolean {
  if (connection?.direction !== "outbound") return false;
  const { listener, destination } = connection;
  return wanted === destination || wanted === listener || wanted === labelOf(connection);
}

function labelOf({ direction, listener, destination }: OfListener): string {
  return direction === "inbound" ? "" : upstreamLabel({ id: listener, name: destination });
}

/** `wanted`: `503`, or `5xx`. */
export function isStatus(wanted: string, status: number): boolean {
  return wanted.endsWith("xx")
    ? Math.floor(status / 100) === Number(wanted[0])
    : status === Number(wanted);
}

function requestLine(record: ExchangeRecord, headers: readonly string[]): string {
  const { request, response, downstream, startedAt, endAt, status } = record;
  const { connection } = downstream;
  const fault = faultOf(record);
  return JSON.stringify({
    at: new Date(record.startMs).toISOString(),
    kind: "request",
    direction: connection?.direction ?? "",
    caller: connection?.caller || peerIp(downstream.remote),
    upstream: connection ? labelOf(connection) : "",
    method: cut(request?.method ?? ""),
    path: cut(request ? pathWithoutQuery(request.path) : ""),
    status,
    durationMs: rounded(endAt - startedAt),
    endpoint: record.upstreamHost,
    route: record.route,
    attempts: record.attempts,
    code: fault?.code ?? record.code ?? "",
    rule: cut(record.rule),
    deniedBy: cut(fault?.deniedBy ?? ""),
    receivedBytes: record.receivedBytes,
    sentBytes: record.sentBytes,
    ...headers.length > 0 && {
      headers: namedFields(request?.fields, headers),
      responseHeaders: namedFields(response?.fields, headers),
    },
  });
}

function connectionLine(
  record: ConnectionRecord,
  ending: Ending,
  { at, durationMs }: { readonly at: number; readonly durationMs: number },
): string {
  const { direction, caller, remote, endpoint, rule, relay } = record;
  const failed = ending.kind === "failed";
  return JSON.stringify({
    at: new Date(at).toISOString(),
    kind: "connection",
    direction,
    caller: caller || peerIp(remote),
    upstream: labelOf(record),
    durationMs: rounded(durationMs),
    endpoint,
    code: failed ? ending.code : "",
    reason: failed ? cut(ending.reason) : "",
    rule: cut(rule),
    receivedBytes: relay?.receivedBytes ?? 0,
    sentBytes: relay?.sentBytes ?? 0,
  });
}

/** Values of a repeated field are joined. */
function namedFields(
  fields: Fields | undefined,
  names: readonly string[],
): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  for (let at = 0; fields && at < fields.length; at += FIELD) {
    const name = fields[at] ?? "";
    if (!names.includes(name)) continue;
    const value = cut(fields[at + 1] ?? "");
    found[name] = Object.hasOwn(found, name) ? cut(`${found[name]}, ${value}`) : value;
  }
  return found;
}

function cut(text: string): string {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}...` : text;
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}
