/**
 * What people get to know about secrets: events, log lines, counters. Never key material.
 *
 * @module
 */

import type { Clock, Log, Stats } from "../../base/mod.ts";
import type { HeldSecret, SecretEvent } from "../held.ts";
import type { CertificateSecret, Secret } from "../secret.ts";
import { Crowd } from "./crowd.ts";
import { type Named, OTHER_SECRETS, SecretLabels } from "./labels.ts";

const EVENTS_LIMIT = 1_000;
/** Distinct faults of one secret that are logged until it is well again. */
const FAULTS_LIMIT = 20;
/** Recoveries of one secret that are told in {@link RECOVERIES_MS}: a source may come and go. */
const RECOVERIES_LIMIT = 20;
const RECOVERIES_MS = 3_600_000;

/** Of a SPIFFE id. A certificate may have many URI names. */
const URI_LIMIT_CHARS = 2_048;

const ROTATED = { certificate: "certificate rotated", validation: "trust rotated" };

const UPDATES = "secret_updates_total";
const FAILED = "secret_rotation_failed_total";
const TIMEOUTS = "secret_init_fetch_timeouts_total";

export interface JournalOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
}

/** A secret that something is to be said of. */
export interface Reported extends Named {
  /** By an operator. Of others, which strangers ask for, little is said until they are there. */
  readonly configured: boolean;
  readonly held: HeldSecret<Secret> | undefined;
  /** What is wrong with it now; "": nothing. */
  readonly fault: string;
}

/** What was told of one secret. */
interface Told {
  readonly faults: Set<string>;
  recoveries: number;
  /** Since when they are counted. */
  sinceMs: number;
}

export class SecretJournal {
  readonly #options: JournalOptions;
  readonly #labels: SecretLabels;
  readonly #events: SecretEvent[] = [];
  readonly #told = new WeakMap<Reported, Told>();
  /** Who the last certificate was. */
  readonly #uris = new WeakMap<Reported, string>();
  readonly #crowd: Crowd<Reported>;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#crowd = new Crowd(options.clock);
    this.#labels = new SecretLabels(options.stats, [UPDATES, FAILED, TIMEOUTS]);
  }

  /** The last thousand, oldest first. */
  events(): readonly SecretEvent[] {
    return [...this.#events];
  }

  /** Returns the time of the change. */
  changed(of: Reported, old: Secret | undefined, secret: Secret): number {
    const nowMs = this.#options.clock.now();
    this.#count(of, UPDATES, "Values of the secret that were accepted, the first one included");
    const { log } = this.#options;
    const oldUri = this.#otherUri(of, secret);
    this.#event(of, old ? "rotated" : "loaded", detailOf(secret, old) + uriDetail(secret, oldUri));
    const fields = {
      secret: of.ref.name,
      source: of.source,
      ...factsOf(secret),
      ...(old?.type === "certificate" && { old_serial: old.serial }),
    };
    const message = old ? ROTATED[secret.type] : "secret loaded";
    if (oldUri !== undefined) {
      log.warn(`${message} with another identity`, { ...fields, old_uri: oldUri || "none" });
    } else if (old || of.configured) log.info(message, fields);
    // One that strangers asked for is news only to those who look for it.
    else log.debug(message, fields);
    return nowMs;
  }

  /** A value of an earlier run. Returns the time. */
  restored(of: Reported, secret: Secret): number {
    this.#otherUri(of, secret);
    this.#event(of, "restored", detailOf(secret) + uriDetail(secret));
    const fields = { secret: of.ref.name, source: of.source, ...factsOf(secret) };
    this.#options.log.debug("stored secret in use until its source answers", fields);
    return this.#options.clock.now();
  }

  /** A new value came: what was wrong before is news when it is wrong again. */
  mended(of: Reported): void {
    this.#told.delete(of);
  }

  /** What was wrong is over, and the value is the one from before. */
  recovered(of: Reported): void {
    const told = this.#told.get(of);
    if (!told || told.faults.size === 0) return;
    const nowMs = this.#options.clock.monotonic();
    if (nowMs - told.sinceMs >= RECOVERIES_MS) {
      told.recoveries = 0;
      told.sinceMs = nowMs;
    }
    // The last that is told of one that comes and goes is what is wrong with it.
    if (told.recoveries >= RECOVERIES_LIMIT) return;
    told.recoveries++;
    told.faults.clear();
    this.#event(of, "recovered", "the last value is good still");
    this.#lineOfMany(of, "info", "secret recovered", {});
  }

  rejected(of: Reported, reason: string): void {
    if (isQuiet(of)) return;
    this.#count(of, FAILED, "Values of the secret that were refused; the old one stays");
    this.#fault(of, "rejected", reason);
  }

  unreachable(of: Reported, reason: string): void {
    if (isQuiet(of)) return;
    this.#fault(of, "unreachable", reason);
  }

  /** `dropped`: there was a value and it is not used any more. */
  removed(
    of: Reported,
    { dropped, reason }: { readonly dropped: boolean; readonly reason?: string },
  ): void {
    if (isQuiet(of)) return;
    const kept = of.held && !dropped;
    const detail = reason ?? "removed by its source";
    this.#event(of, "removed", kept ? `${detail}; the last value stays` : detail);
    const fields = { secret: of.ref.name, source: of.source, dropped, ...reason && { reason } };
    this.#options.log.warn("secret removed by its source", fields);
  }

  timedOut(of: Reported): void {
    this.#count(
      of,
      TIMEOUTS,
      "Times that the first value of the secret had not come within its time limit",
    );
    const detail = of.fault || "no answer";
    this.#event(of, "timed_out", detail);
    const fields = { secret: of.ref.name, source: of.source, reason: detail };
    this.#options.log.warn("secret did not come in time; opening without it", fields);
  }

  ended(of: Reported): void {
    this.#labels.forget(of);
  }

  /** Who the certificate was before, where that was somebody else; remembered over a withdrawal. */
  #otherUri(of: Reported, secret: Secret): string | undefined {
    if (secret.type !== "certificate") return undefined;
    const [uri, old] = [uriOf(secret), this.#uris.get(of)];
    this.#uris.set(of, uri);
    return old === uri ? undefined : old;
  }

  #fault(of: Reported, kind: "rejected" | "unreachable", reason: string): void {
    let told = this.#told.get(of);
    if (!told) {
      const sinceMs = this.#options.clock.monotonic();
      this.#told.set(of, told = { faults: new Set(), recoveries: 0, sinceMs });
    }
    const { faults } = told;
    if (faults.has(reason) || faults.size >= FAULTS_LIMIT) return;
    faults.add(reason);
    this.#event(of, kind, reason);
    const fields = { reason, kept: of.held !== undefined };
    if (kind === "unreachable") return this.#lineOfMany(of, "warn", "secret unreachable", fields);
    this.#options.log.warn("secret rejected", {
      secret: of.ref.name,
      source: of.source,
      ...fields,
    });
  }

  /** What holds for all secrets of a source alike is not told of each. */
  #lineOfMany(
    of: Reported,
    level: "info" | "warn",
    message: string,
    facts: { readonly reason?: string; readonly kept?: boolean },
  ): void {
    const { log } = this.#options;
    const fields = { secret: of.ref.name, source: of.source, ...facts };
    switch (this.#crowd.next([message, of.source, facts.reason].join(" "), of)) {
      case "told":
        return log[level](message, fields);
      case "last":
        return log[level](message, { ...fields, more: "in /events" });
      case "quiet":
        return log.debug(message, fields);
    }
  }

  #event(of: Reported, kind: SecretEvent["kind"], detail: string): void {
    if (this.#events.length >= EVENTS_LIMIT) this.#events.shift();
    const atMs = this.#options.clock.now();
    this.#events.push({ atMs, kind, name: of.ref.name, source: of.source, detail });
  }

  #count(of: Reported, name: string, help: string): void {
    this.#options.stats.counter(name, help, this.#labels.of(of) ?? OTHER_SECRETS).add(1);
  }
}

/** A name that strangers made up is no news while there is nothing of it. */
function isQuiet({ configured, held }: Reported): boolean {
  return !configured && !held;
}

function factsOf(secret: Secret): Readonly<Record<string, unknown>> {
  switch (secret.type) {
    case "certificate": {
      const uri = uriOf(secret);
      return { ...(uri && { uri }), serial: secret.serial, expires: isoTime(secret.notAfterMs) };
    }
    case "validation":
      return { validation: secret.validation.kind };
  }
}

function detailOf(secret: Secret, old?: Secret): string {
  if (secret.type === "validation") return `validation ${secret.validation.kind}`;
  const dates = `from ${isoTime(secret.notBeforeMs)} to ${isoTime(secret.notAfterMs)}`;
  const was = old?.type === "certificate" ? `, was ${old.serial}` : "";
  return `serial ${secret.serial}${was}, ${dates}`;
}

/** Of an SVID its SPIFFE id; "": it has no URI name. */
function uriOf({ uris }: CertificateSecret): string {
  return uris.join(" ").slice(0, URI_LIMIT_CHARS);
}

function uriDetail(secret: Secret, oldUri?: string): string {
  const uri = secret.type === "certificate" ? uriOf(secret) : "";
  return (uri && `, ${uri}`) + (oldUri === undefined ? "" : `, was ${oldUri || "without an id"}`);
}

/** Dates of certificates reach beyond what JavaScript can print. */
function isoTime(atMs: number): string {
  return Math.abs(atMs) <= 8.64e15 ? new Date(atMs).toISOString() : "never";
}
