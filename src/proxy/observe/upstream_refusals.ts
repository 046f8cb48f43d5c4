/** Refusals by the proxies of upstreams: the log line of a request, and their number in the last minute. @module */

import type { Clock, Log } from "../../base/mod.ts";
import { type ExchangeRecord, pathWithoutQuery } from "../../http/mod.ts";
import { upstreamLabel } from "../../snapshot/mod.ts";
import type { ConnectionRecord } from "./connection_record.ts";
import type { FailureSummary } from "./failure_summary.ts";
import { isRefusal } from "./traffic_lists.ts";
import type { RefusingView } from "./view.ts";

/** The last minute is counted in parts, of which the oldest is dropped. */
const PERIOD_MS = 60_000;
const PARTS = 6;
const PART_MS = PERIOD_MS / PARTS;
/** Upstreams and codes at a time; further ones are only in log and metrics. */
const LIMIT = 100;
const SHOWN_CHARS = 500;

interface Refusing {
  readonly view: Omit<RefusingView, "at" | "count" | "last">;
  readonly parts: number[];
  /** Number of the current part since the start of the clock. */
  part: number;
  at: number;
  last: RefusingView["last"];
}

export interface UpstreamRefusalsOptions {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly log: Log;
  readonly sums: FailureSummary;
}

export class UpstreamRefusals {
  readonly #options: UpstreamRefusalsOptions;
  readonly #refusing = new Map<string, Refusing>();

  constructor(options: UpstreamRefusalsOptions) {
    this.#options = options;
  }

  /** The proxy of the upstream says that it refused a request. Its text was checked when the field was read. */
  request(
    connection: ConnectionRecord,
    { request, status, denial, upstream, upstreamHost, traffic }: ExchangeRecord,
  ): void {
    if (!denial) return;
    const { code, rule } = denial;
    const deniedBy = upstream?.service ?? "";
    // An edge leads to several upstreams.
    const label = traffic?.key.upstream || labelOf(connection);
    const { caller } = connection;
    const last = request && {
      method: shown(request.method),
      path: shown(pathWithoutQuery(request.path)),
      endpoint: upstreamHost,
    };
    this.#count({ upstream: label, caller, code, deniedBy, unit: "requests" }, last);
    const { log, sums } = this.#options;
    if (!log.enabled("warn")) return;
    if (!sums.isTold(connection, { code, reason: rule }, "warn", "refusals")) return;
    log.warn("request refused by the upstream", {
      direction: connection.direction,
      listener: connection.listener,
      source: connection.source || connection.remote,
      destination: connection.destination,
      method: request && shown(request.method),
      path: request && shown(pathWithoutQuery(request.path)),
      endpoint: upstreamHost || undefined,
      code,
      denied_by: deniedBy,
      status,
      upstream_rule: rule || undefined,
    });
  }

  /** The peer ended a connection right after the handshake; it has a line as every connection. */
  connection(connection: ConnectionRecord, deniedBy: string): void {
    const { caller } = connection;
    const upstream = labelOf(connection);
    const code = "refused_by_peer";
    this.#count({ upstream, caller, code, deniedBy, unit: "connections" });
  }

  #count(view: Refusing["view"], last?: RefusingView["last"]): void {
    const { clock } = this.#options;
    const nowMs = clock.monotonic();
    const key = [view.upstream, view.code, view.deniedBy].join(" ");
    let one = this.#refusing.get(key);
    if (!one) {
      if (this.#refusing.size >= LIMIT) this.#forgetQuiet(nowMs);
      if (this.#refusing.size >= LIMIT) return;
      one = { view, parts: Array.from({ length: PARTS }, () => 0), part: 0, at: 0, last };
      this.#refusing.set(key, one);
    }
    one.at = clock.now();
    one.last = last;
    advance(one, nowMs);
    const at = one.part % PARTS;
    one.parts[at] = (one.parts[at] ?? 0) + 1;
  }

  #forgetQuiet(nowMs: number): void {
    for (const [key, one] of this.#refusing) {
      advance(one, nowMs);
      if (sumOf(one) === 0) this.#refusing.delete(key);
    }
  }

  view(): RefusingView[] {
    this.#forgetQuiet(this.#options.clock.monotonic());
    return [...this.#refusing.values()].map((one) => ({
      ...one.view,
      at: one.at,
      count: sumOf(one),
      ...one.last && { last: one.last },
    }));
  }
}

function sumOf({ parts }: Refusing): number {
  return parts.reduce((sum, count) => sum + count, 0);
}

function labelOf({ listener, destination }: ConnectionRecord): string {
  return upstreamLabel({ id: listener, name: destination });
}

/** Empties the parts that are older than a minute. */
function advance(one: Refusing, nowMs: number): void {
  const part = Math.floor(nowMs / PART_MS);
  for (let next = Math.max(one.part + 1, part - PARTS + 1); next <= part; next++) {
    one.parts[next % PARTS] = 0;
  }
  one.part = part;
}

/** `db refuses web (intention_denied)`. */
export function refusingText(
  { caller, code, deniedBy }: Pick<RefusingView, "caller" | "code" | "deniedBy">,
): string {
  if (code === "refused_by_peer") {
    return `${deniedBy} probably refuses ${caller}: it ends connections right after the handshake (${code})`;
  }
  return isRefusal(code)
    ? `${deniedBy} refuses ${caller} (${code})`
    : `the proxy of ${deniedBy} answers ${caller} in place of its application (${code})`;
}

/** The command that explains it where it is decided. */
export function askThere(caller: string): string {
  return `on its host: postern explain -inbound -source ${caller}`;
}

function shown(text: string): string {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}...` : text;
}
