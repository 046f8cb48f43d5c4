/**
 * Log lines and gauges of a snapshot source. A change is logged once, never once per retry.
 *
 * @module
 */

import type { Clock, ErrorCode, Log, Stats } from "../../base/mod.ts";
import { AgentOutage, isOutage } from "./agent_outage.ts";
import type { CredentialsPart, Refusal, Snapshot } from "../../snapshot/mod.ts";
import type { CertificateStatus, Failing } from "./source.ts";

interface SourceReportOptions {
  /** As {@link FactsReader.called}. */
  readonly called: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  /** For the list of events. */
  readonly onOutage: (kind: "unreachable" | "recovered", detail: string) => void;
}

export interface FailingNow {
  /** All watches that fail now. */
  readonly all: readonly Failing[];
  /** There is a last good state. */
  readonly serving: boolean;
}

/** Failures that concern all watches alike: one line for all of them. */
const SHARED: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["agent_failed", "agent_overloaded"]);

const WARMING_SHOWN = 5;

export class SourceReport {
  readonly #options: SourceReportOptions;
  readonly #outage: AgentOutage;
  readonly #warned = new Set<string>();
  #refused: ReadonlySet<string> = new Set();
  #warnings: ReadonlySet<string> = new Set();

  constructor(options: SourceReportOptions) {
    this.#options = options;
    this.#outage = new AgentOutage({ ...options, onEvent: options.onOutage });
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
    }
    this.#outage.look(now.all, now);
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
      log.info(`${called} watch recovered`, { watch, code, after_ms: clock.now() - sinceMs });
    }
    this.#outage.look(now.all, now);
  }

  /** Logs the new ones among all warnings of the registration and its entries. */
  warnings(all: readonly string[]): void {
    const warnings = new Set(all);
    for (const warning of warnings) {
      if (!this.#warnings.has(warning)) this.#options.log.warn("registration", { warning });
    }
    this.#warnings = warnings;
  }

  refused(refused: readonly Refusal[]): void {
    const { log, stats } = this.#options;
    const now = new Set<string>();
    for (const { what, reason } of refused) {
      const key = `${what}\u0000${reason}`;
      now.add(key);
      if (!this.#refused.has(key)) log.warn("configuration refused", { what, reason });
    }
    this.#refused = now;
    stats.gauge(
      "snapshot_refused",
      "Parts of the newest configuration that are refused now; the log names them",
    ).set(now.size);
  }

  published(
    snapshot: Snapshot,
    { first, restored, warming = [], warmingUpstreams = 0 }: {
      readonly first: boolean;
      readonly restored: boolean;
      /** Listeners and upstreams that are closed until their secrets have come. */
      readonly warming?: readonly string[];
      /** The number of upstreams among them. */
      readonly warmingUpstreams?: number;
    },
  ): void {
    const { called, log, stats } = this.#options;
    stats.counter(
      "snapshots_published_total",
      "Configuration snapshots that were given to the data workers",
    ).add(1);
    this.#gaugeRestored(restored);
    const { credentials } = snapshot;
    if (credentials) {
      stats.gauge(
        "certificate_expiry_seconds",
        "When the certificate of this service expires, in seconds since 1970",
        {
          certificate: "leaf",
        },
      ).set(Math.floor(credentials.notAfterMs / 1000));
    }
    const fields = {
      version: snapshot.version,
      service: snapshot.service,
      ...(credentials && { uri: credentials.uri }),
      upstreams: Object.keys(snapshot.upstreams).length + warmingUpstreams,
      ...(warming.length > 0 && { warming: shownOf(warming) }),
    };
    if (first && restored) log.warn(`${called} is away, stored snapshot in use`, fields);
    else if (first) log.info("first snapshot", fields);
    else log.debug("snapshot", fields);
  }

  /** The agent has answered: the snapshot in use is no longer only the stored one. */
  confirmed(): void {
    this.#gaugeRestored(false);
    const { called, log } = this.#options;
    log.info(`${called} is back, its answers replace the stored snapshot`);
  }

  #gaugeRestored(restored: boolean): void {
    this.#options.stats
      .gauge(
        "snapshot_restored",
        "1 while the configuration in use is the one stored in -state-dir",
      )
      .set(restored ? 1 : 0);
  }

  #gauge(code: ErrorCode, all: readonly Failing[]): void {
    this.#options.stats.gauge(
      "snapshot_stale",
      "Watches of the agent or the servers whose last request failed, by error code",
      {
        reason: code,
      },
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
