/** The reports about secrets: events, log lines, counters. Never key material. @module */

import type { Clock, Labels, Log, LogFields, ReportEvent, Stats } from "../../base/mod.ts";
import type { CertificateSecret, HeldSecret, Secret } from "../model/secret.ts";

/** Distinct faults of one secret that are logged until it recovers. */
const FAULTS_LIMIT = 20;
/** Recoveries of one secret that are reported in {@link RECOVERIES_MS}: a source may come and go. */
const RECOVERIES_LIMIT = 20;
const RECOVERIES_MS = 3_600_000;
/** For a SPIFFE id. A certificate may have many URI names. */
const URI_LIMIT_CHARS = 2_048;

const ROTATED = { certificate: "certificate rotated", validation: "trust rotated" };

type SecretChange =
  | "loaded"
  | "restored"
  | "rotated"
  | "rejected"
  | "unreachable"
  | "recovered"
  | "removed"
  | "timed_out";

const FAULTS: ReadonlySet<SecretChange> = new Set([
  "rejected",
  "unreachable",
  "removed",
  "timed_out",
]);

const UPDATES = "secret_updates_total";
const FAILED = "secret_rotation_failed_total";
const TIMEOUTS = "secret_init_fetch_timeouts_total";

export interface JournalOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly report?: ReportEvent;
}

export interface Reported extends Named {
  /** An operator named it. Little is reported of a secret that a client named until it is there. */
  readonly configured: boolean;
  readonly held: HeldSecret<Secret> | undefined;
  /** The current fault; "": none. */
  readonly fault: string;
}

interface FaultRecord {
  readonly faults: Set<string>;
  recoveries: number;
  /** When `recoveries` was 0. */
  sinceMs: number;
}

export class SecretJournal {
  readonly #options: JournalOptions;
  readonly #labels: SecretLabels;
  readonly #faults = new WeakMap<Reported, FaultRecord>();
  /** URI names of the last certificate. */
  readonly #uris = new WeakMap<Reported, string>();
  readonly #lines: SharedLines;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#lines = new SharedLines(options.clock);
    this.#labels = new SecretLabels(options.stats, [UPDATES, FAILED, TIMEOUTS]);
  }

  /** Returns the time of the change. */
  changed(of: Reported, old: Secret | undefined, secret: Secret): number {
    this.#count(of, UPDATES, "Values of the secret that were accepted, the first one included");
    const { log, clock } = this.#options;
    const oldUri = this.#otherUri(of, secret);
    this.#event(of, old ? "rotated" : "loaded", detailOf(secret, old) + uriDetail(secret, oldUri));
    const fields = {
      ...fieldsOf(of),
      ...factsOf(secret),
      ...(old?.type === "certificate" && { old_serial: old.serial }),
    };
    const message = old ? ROTATED[secret.type] : "secret loaded";
    if (oldUri !== undefined) {
      log.warn(`${message} with another identity`, { ...fields, old_uri: oldUri || "none" });
    } else if (old || of.configured) log.info(message, fields);
    else log.debug(message, fields);
    return clock.now();
  }

  /** The value of an earlier run is held. Returns the time. */
  restored(of: Reported, secret: Secret): number {
    this.#otherUri(of, secret);
    this.#event(of, "restored", detailOf(secret) + uriDetail(secret));
    const { log, clock } = this.#options;
    const fields = { ...fieldsOf(of), ...factsOf(secret) };
    log.debug("stored secret in use until its source answers", fields);
    return clock.now();
  }

  /** A new value came: a fault of the one before is reported again when it returns. */
  replaced(of: Reported): void {
    this.#faults.delete(of);
  }

  /** A fault is over, with the value from before. */
  recovered(of: Reported): void {
    const record = this.#faults.get(of);
    if (!record || record.faults.size === 0) return;
    const nowMs = this.#options.clock.monotonic();
    if (nowMs - record.sinceMs >= RECOVERIES_MS) {
      record.recoveries = 0;
      record.sinceMs = nowMs;
    }
    // The last report about a source that comes and goes is its fault.
    if (record.recoveries >= RECOVERIES_LIMIT) return;
    record.recoveries++;
    record.faults.clear();
    this.#event(of, "recovered", "the last value is good still");
    this.#sharedLine(of, "info", "secret recovered", {});
  }

  rejected(of: Reported, reason: string): void {
    if (isQuiet(of)) return;
    this.#count(of, FAILED, "Values of the secret that were refused; the old one stays");
    const fields = this.#newFault(of, "rejected", reason);
    if (fields) this.#options.log.warn("secret rejected", { ...fieldsOf(of), ...fields });
  }

  unreachable(of: Reported, reason: string): void {
    if (isQuiet(of)) return;
    const fields = this.#newFault(of, "unreachable", reason);
    if (fields) this.#sharedLine(of, "warn", "secret unreachable", fields);
  }

  /** `dropped`: there was a value, and it is not used any more. */
  removed(
    of: Reported,
    { dropped, reason }: { readonly dropped: boolean; readonly reason?: string },
  ): void {
    if (isQuiet(of)) return;
    const kept = of.held && !dropped;
    const detail = reason ?? "removed by its source";
    this.#event(of, "removed", kept ? `${detail}; the last value stays` : detail);
    const fields = { ...fieldsOf(of), dropped, ...reason && { reason } };
    this.#options.log.warn("secret removed by its source", fields);
  }

  timedOut(of: Reported): void {
    const help = "Times that the first value of the secret had not come within its time limit";
    this.#count(of, TIMEOUTS, help);
    const reason = of.fault || "no answer";
    this.#event(of, "timed_out", reason);
    const fields = { ...fieldsOf(of), reason };
    this.#options.log.warn("secret did not come in time; opening without it", fields);
  }

  ended(of: Reported): void {
    this.#labels.forget(of);
  }

  /** The URI names of the last certificate, if they differ; remembered over a withdrawal. */
  #otherUri(of: Reported, secret: Secret): string | undefined {
    if (secret.type !== "certificate") return undefined;
    const [uri, old] = [uriOf(secret), this.#uris.get(of)];
    this.#uris.set(of, uri);
    return old === uri ? undefined : old;
  }

  /** Adds an event for a new fault, and returns the fields of its line; `undefined`: it is known. */
  #newFault(of: Reported, kind: "rejected" | "unreachable", reason: string): LogFields | undefined {
    let record = this.#faults.get(of);
    if (!record) {
      const sinceMs = this.#options.clock.monotonic();
      this.#faults.set(of, record = { faults: new Set(), recoveries: 0, sinceMs });
    }
    const { faults } = record;
    if (faults.has(reason) || faults.size >= FAULTS_LIMIT) return undefined;
    faults.add(reason);
    this.#event(of, kind, reason);
    return { reason, kept: of.held !== undefined };
  }

  /** A line that is the same for all secrets of a source, which is not written for each. */
  #sharedLine(of: Reported, level: "info" | "warn", message: string, facts: LogFields): void {
    const { log } = this.#options;
    const fields = { ...fieldsOf(of), ...facts };
    switch (this.#lines.next([message, of.source, facts.reason].join(" "), of)) {
      case "written":
        return log[level](message, fields);
      case "last":
        return log[level](message, { ...fields, more: "in /events" });
      case "quiet":
        return log.debug(message, fields);
    }
  }

  #event(of: Reported, kind: SecretChange, detail: string): void {
    const { ref: { name }, source } = of;
    this.#options.report?.({
      kind: "secret",
      subject: name || source,
      text: `${kind.replace("_", " ")} (${source}): ${detail}`,
      severity: FAULTS.has(kind) ? "warn" : "info",
      isLogged: true,
    });
  }

  #count(of: Reported, name: string, help: string): void {
    this.#options.stats.counter(name, help, this.#labels.of(of) ?? OTHER_SECRETS).add(1);
  }
}

/** Secrets that share a line within {@link LINE_MS}, and lines. */
const LINE_LIMIT = 10;
const LINE_MS = 10_000;
const LINES_LIMIT = 100;

/** Bounds the lines about one outage of many secrets; the other ones have only events. */
class SharedLines {
  readonly #clock: Clock;
  readonly #lines = new Map<string, { readonly sinceMs: number; readonly of: Set<Reported> }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A secret with a written line gets further ones. */
  next(line: string, secret: Reported): "written" | "last" | "quiet" {
    const { of } = this.#current(line);
    if (of.has(secret)) return "written";
    if (of.size >= LINE_LIMIT) return "quiet";
    of.add(secret);
    return of.size === LINE_LIMIT ? "last" : "written";
  }

  #current(line: string): { readonly of: Set<Reported> } {
    const nowMs = this.#clock.monotonic();
    const found = this.#lines.get(line);
    if (found && nowMs - found.sinceMs < LINE_MS) return found;
    this.#lines.delete(line);
    const [oldest] = this.#lines.keys();
    if (this.#lines.size >= LINES_LIMIT && oldest !== undefined) this.#lines.delete(oldest);
    const begun = { sinceMs: nowMs, of: new Set<Reported>() };
    this.#lines.set(line, begun);
    return begun;
  }
}

/** A name that a client made up is not reported while there is no such secret. */
function isQuiet({ configured, held }: Reported): boolean {
  return !configured && !held;
}

function fieldsOf({ ref, source }: Reported): { readonly secret: string; readonly source: string } {
  return { secret: ref.name, source };
}

function factsOf(secret: Secret): LogFields {
  if (secret.type === "validation") return { validation: secret.validation.kind };
  const uri = uriOf(secret);
  return { ...(uri && { uri }), serial: secret.serial, expires: isoTime(secret.notAfterMs) };
}

function detailOf(secret: Secret, old?: Secret): string {
  if (secret.type === "validation") return `validation ${secret.validation.kind}`;
  const dates = `from ${isoTime(secret.notBeforeMs)} to ${isoTime(secret.notAfterMs)}`;
  const was = old?.type === "certificate" ? `, was ${old.serial}` : "";
  return `serial ${secret.serial}${was}, ${dates}`;
}

/** The SPIFFE id of an SVID; "": there is no URI name. */
function uriOf({ uris }: CertificateSecret): string {
  return uris.join(" ").slice(0, URI_LIMIT_CHARS);
}

function uriDetail(secret: Secret, oldUri?: string): string {
  const uri = secret.type === "certificate" ? uriOf(secret) : "";
  return (uri && `, ${uri}`) + (oldUri === undefined ? "" : `, was ${oldUri || "without an id"}`);
}

/** Certificates have dates that JavaScript cannot print. */
export function isoTime(atMs: number): string {
  return Math.abs(atMs) <= 8.64e15 ? new Date(atMs).toISOString() : "never";
}

const NAMES_LIMIT = 1_000;
/** The labels of secrets beyond the limit. */
const OTHER_SECRETS: Labels = { secret: "other", source: "other" };

export interface Named {
  readonly ref: { readonly name: string };
  readonly source: string;
}

export class SecretLabels {
  readonly #stats: Stats;
  readonly #metrics: readonly string[];
  readonly #known = new Map<string, { readonly labels: Labels; readonly users: Set<Named> }>();

  /** `metrics` are removed with the last secret of a name. */
  constructor(stats: Stats, metrics: readonly string[]) {
    this.#stats = stats;
    this.#metrics = metrics;
  }

  of(secret: Named): Labels | undefined {
    const key = keyOf(secret);
    let entry = this.#known.get(key);
    if (!entry) {
      if (this.#known.size >= NAMES_LIMIT) return undefined;
      const labels = { secret: secret.ref.name, source: secret.source };
      this.#known.set(key, entry = { labels, users: new Set() });
    }
    entry.users.add(secret);
    return entry.labels;
  }

  /** Makes room for another name. */
  forget(secret: Named): void {
    const key = keyOf(secret);
    const entry = this.#known.get(key);
    if (!entry?.users.delete(secret) || entry.users.size > 0) return;
    this.#known.delete(key);
    for (const metric of this.#metrics) this.#stats.remove(metric, entry.labels);
  }
}

function keyOf({ ref, source }: Named): string {
  return `${source}\u0000${ref.name}`;
}
