/** Log lines and gauges of a source. A change is logged once, not once per retry. @module */

import {
  type Clock,
  type ErrorCode,
  type EventSeverity,
  formatSpanMs,
  type Log,
  type ReportEvent,
  type Stats,
} from "../../base/mod.ts";
import {
  type CredentialsPart,
  type Refusal,
  REFUSED_HELP,
  type Snapshot,
} from "../../snapshot/mod.ts";
import type { MadeSnapshot } from "./facts_reader.ts";
import type { CertificateStatus, Failing, SourceStatus } from "./source.ts";

interface SourceReportOptions {
  /** As {@link FactsReader.called}. */
  readonly called: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly report?: ReportEvent;
}

export interface FailingNow {
  /** All watches that fail now. */
  readonly all: readonly Failing[];
  /** There is a last good state. */
  readonly serving: boolean;
}

interface PublishedState extends Pick<MadeSnapshot, "warming" | "warmingUpstreams"> {
  readonly first: boolean;
  readonly restored: boolean;
}

interface RefusedPart {
  readonly reasons: readonly string[];
  readonly sinceMs: number;
}

/** Failures that concern all watches alike: one line for all of them. */
const SHARED: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["agent_failed", "agent_overloaded"]);

const WARMING_SHOWN = 5;

export class SourceReport {
  readonly #options: SourceReportOptions;
  readonly #warned = new Set<string>();
  /** By what is refused now. */
  #refused: ReadonlyMap<string, RefusedPart> = new Map();
  #refusedCount = 0;
  #warnings: ReadonlySet<string> = new Set();
  #outageSinceMs: number | undefined;
  #outageCode: ErrorCode | undefined;

  constructor(options: SourceReportOptions) {
    this.#options = options;
  }

  /** `now` includes this one. */
  failing(failing: Failing, now: FailingNow): void {
    const { watch, code, message } = failing;
    const { called, log } = this.#options;
    this.#gauge(code, now.all);
    const key = warningKey(failing);
    if (!isOutage(failing) && !this.#warned.has(key)) {
      this.#warned.add(key);
      const what = now.serving ? "last good state stays" : "nothing can be served yet";
      log.warn(`${called} watch failing, ${what}`, { watch, code, error: message });
      this.#event(`watch of ${watch} failing, ${what}: ${message}`, "warn");
    }
    this.#reportOutage(now);
  }

  /** `now` lacks this one. */
  recovered(failing: Failing, now: FailingNow): void {
    const { watch, code, sinceMs } = failing;
    const { called, clock, log } = this.#options;
    this.#gauge(code, now.all);
    const key = warningKey(failing);
    const isOver = !now.all.some((other) => warningKey(other) === key) && this.#warned.delete(key);
    // A watch that now fails for another reason has not recovered; that reason has a line of its own.
    if (isOver && !now.all.some((other) => other.watch === watch)) {
      const after_ms = clock.now() - sinceMs;
      log.info(`${called} watch recovered`, { watch, code, after_ms });
      this.#event(`watch of ${watch} recovered after ${formatSpanMs(after_ms)}`);
    }
    this.#reportOutage(now);
  }

  /**
   * An agent that cannot be reached fails every watch at once: it is reported once when that begins, and once
   * when all watches work again.
   */
  #reportOutage({ all, serving }: FailingNow): void {
    const { called, clock, log } = this.#options;
    const outage = gravest(all);
    if (outage && outage.code !== this.#outageCode) {
      this.#outageSinceMs ??= outage.sinceMs;
      // A foreign cluster that is restarted is the same failure.
      if (this.#outageCode === "cluster_changed") return;
      this.#outageCode = outage.code;
      const fields = { code: outage.code, error: outage.message };
      const what = serving ? "last good state stays" : "nothing can be served yet";
      if (outage.code === "cluster_changed") {
        log.error(`${called} belongs to another cluster, ${what}`, fields);
      } else log.warn(`${called} not reached, ${what}`, fields);
      const isOther = outage.code === "cluster_changed";
      const fact = isOther ? "belongs to another cluster" : "not reached";
      this.#event(`${called} ${fact}, ${what}: ${outage.message}`, isOther ? "error" : "warn");
    } else if (!outage && this.#outageSinceMs !== undefined) {
      const after_ms = clock.now() - this.#outageSinceMs;
      this.#outageSinceMs = this.#outageCode = undefined;
      log.info(`${called} reached again`, { after_ms });
      this.#event(`${called} reached again after ${formatSpanMs(after_ms)}`);
    }
  }

  /** The log has a line about it. */
  #event(text: string, severity: EventSeverity = "info"): void {
    const { called, report } = this.#options;
    report?.({ kind: "source", subject: called, text, severity, isLogged: true });
  }

  /** Logs the new ones among all warnings of the registration and its entries. */
  warnings(all: readonly string[]): void {
    const warnings = new Set(all);
    for (const warning of warnings) {
      if (this.#warnings.has(warning)) continue;
      this.#options.log.warn("registration", { warning });
      this.#event(`registration: ${warning}`, "warn");
    }
    this.#warnings = warnings;
  }

  refused(refused: readonly Refusal[]): void {
    const { clock, log, stats } = this.#options;
    const before = this.#refused;
    const now = new Map<string, RefusedPart>();
    let count = 0;
    for (const { what, reason } of refused) {
      const known = before.get(what);
      const part = now.get(what) ?? { reasons: [], sinceMs: known?.sinceMs ?? clock.now() };
      if (part.reasons.includes(reason)) continue;
      now.set(what, { ...part, reasons: [...part.reasons, reason] });
      count++;
      if (known?.reasons.includes(reason)) continue;
      log.warn("configuration refused", { what, reason });
      this.#event(`configuration refused: ${what}: ${reason}`, "error");
    }
    for (const [what, { sinceMs }] of before) {
      if (now.has(what)) continue;
      const after_ms = clock.now() - sinceMs;
      log.info("configuration not refused any more", { what, after_ms });
      const since = new Date(sinceMs).toISOString();
      this.#event(`configuration of ${what} not refused any more; it was since ${since}`);
    }
    this.#refused = now;
    stats.gauge("snapshot_refused", REFUSED_HELP).add(count - this.#refusedCount);
    this.#refusedCount = count;
  }

  published(
    snapshot: Snapshot,
    { first, restored, warming, warmingUpstreams }: PublishedState,
  ): void {
    const { called, log, stats } = this.#options;
    const help = "Configuration snapshots that were given to the data workers";
    stats.counter("snapshots_published_total", help).add(1);
    this.#gaugeRestored(restored);
    const { credentials } = snapshot;
    if (credentials) {
      stats.gauge(
        "certificate_expiry_seconds",
        "When the certificate of this service expires, in seconds since 1970",
        { certificate: "leaf" },
      ).set(Math.floor(credentials.notAfterMs / 1000));
    }
    const fields = {
      version: snapshot.version,
      service: snapshot.service,
      ...(credentials && { uri: credentials.uri }),
      upstreams: Object.keys(snapshot.upstreams).length + warmingUpstreams,
      ...(warming.length > 0 && { warming: shownOf(warming) }),
    };
    if (first && restored) {
      log.warn(`${called} is away, stored snapshot in use`, fields);
      this.#event(`${called} is away, stored snapshot in use`, "warn");
    } else if (first) log.info("first snapshot", fields);
    else log.debug("snapshot", fields);
  }

  /** The agent has answered: the snapshot in use is no longer only the stored one. */
  confirmed(): void {
    this.#gaugeRestored(false);
    const { called, log } = this.#options;
    log.info(`${called} is back, its answers replace the stored snapshot`);
    this.#event(`${called} is back, its answers replace the stored snapshot`);
  }

  #gaugeRestored(restored: boolean): void {
    const help = "1 while the configuration in use is the one stored in -state-dir";
    this.#options.stats.gauge("snapshot_restored", help).set(restored ? 1 : 0);
  }

  #gauge(code: ErrorCode, all: readonly Failing[]): void {
    this.#options.stats.gauge(
      "snapshot_stale",
      "Watches of the agent or the servers whose last request failed, by error code",
      { reason: code },
    ).set(all.filter((failing) => failing.code === code).length);
  }
}

/** The fields of credentials that may be shown. */
export function certificateStatusOf(credentials: CredentialsPart): CertificateStatus {
  const { uri, serial, notBeforeMs, notAfterMs, rootPems } = credentials;
  return { uri, serial, notBeforeMs, notAfterMs, rootCount: rootPems.length };
}

/** The first few; `/ready` has them all. */
function shownOf(warming: readonly string[]): string {
  const more = warming.length - WARMING_SHOWN;
  return warming.slice(0, WARMING_SHOWN).join("; ") + (more > 0 ? `; and ${more} more` : "");
}

function warningKey({ watch, code }: Failing): string {
  return SHARED.has(code) ? code : `${code} ${watch}`;
}

function isOutage({ code }: Failing): boolean {
  return code === "agent_unreachable" || code === "cluster_changed";
}

/** Another cluster is a graver failure than an agent that is away. */
function gravest(failing: readonly Failing[]): Failing | undefined {
  return failing.find(({ code }) => code === "cluster_changed") ?? failing.find(isOutage);
}

/** `failing` with one entry in place of all watches that the outage makes fail. */
export function joinOutage(failing: readonly Failing[], called: string): readonly Failing[] {
  const lost = failing.filter(isOutage);
  const outage = gravest(lost);
  if (!outage || lost.length === 1) return failing;
  const sinceMs = Math.min(...lost.map((one) => one.sinceMs));
  return [{ ...outage, watch: called, sinceMs }, ...failing.filter((one) => !isOutage(one))];
}

/** An outage is one of them; more than these are failures of single watches. */
const SHOWN = 20;

/** Failures that hide changes from the source, with their start and reason, a sentence each: for `/ready`. */
export function troublesOf({ failing, servers }: SourceStatus): readonly string[] {
  const sentences = failing.slice(0, SHOWN).map((one) => sentenceOf(one, servers !== undefined));
  const more = failing.length - sentences.length;
  if (more > 0) sentences.push(`and ${more} more, see /config_dump`);
  // While a server is still searched no watch has failed.
  if (servers && servers.server === "" && servers.lastFailure && !failing.some(isOutage)) {
    sentences.unshift(`no Consul server is in use: ${servers.lastFailure}`);
  }
  return sentences;
}

function sentenceOf({ watch, code, message, sinceMs }: Failing, isServers: boolean): string {
  const since = new Date(sinceMs).toISOString();
  const who = isServers ? "Consul" : "the agent";
  switch (code) {
    case "agent_unreachable":
      return `${who} not reached since ${since}: ${message}`;
    case "cluster_changed":
      return `another cluster answers since ${since}: ${message}`;
    default:
      return `${watch} not read since ${since}: ${message}`;
  }
}
