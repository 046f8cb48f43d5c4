/** Warns of certificates that were not replaced in time, and reports their expiry. @module */

import { formatSpanMs, type Gauge, type Labels, type Timer } from "../../base/mod.ts";
import type { CertificateSecret } from "../model/secret.ts";
import { isoTime, type JournalOptions, type Named, SecretLabels } from "./journal.ts";

/** Timers do not notice when the wall clock is set. */
const LOOK_AGAIN_MS = 600_000;
/** No more warnings when less is left. */
const LAST_WARNING_MS = 60_000;

const EXPIRY = "certificate_expiry_seconds";
const FIRST_EXPIRY = "certificates_first_expiry_seconds";

interface ExpiryOptions extends JournalOptions {
  /** Remaining part of the lifetime at the first warning. */
  readonly warnFraction: number;
  /** Labels of the gauges over all certificates; default none. */
  readonly scope?: Labels;
}

type Dated = Pick<CertificateSecret, "serial" | "notBeforeMs" | "notAfterMs">;

interface Watched {
  readonly secret: Named;
  readonly certificate: Dated;
  /** Wall clock of the next warning. */
  warnMs: number;
  hasExpired: boolean;
}

export class ExpiryWatch {
  readonly #options: ExpiryOptions;
  readonly #labels: SecretLabels;
  readonly #watched = new Map<Named, Watched>();
  readonly #near: Gauge;
  #timer: Timer | undefined;
  #timerAtMs = Infinity;

  constructor(options: ExpiryOptions) {
    this.#options = options;
    this.#labels = new SecretLabels(options.stats, [EXPIRY]);
    const help = "Certificates in use that have less than a third of their lifetime left";
    this.#near = options.stats.gauge("certificates_near_expiry", help, options.scope);
  }

  /** A certificate came, or replaced another. Its warnings come later, from a timer. */
  watch(secret: Named, certificate: Dated): void {
    const { notBeforeMs, notAfterMs } = certificate;
    const warnMs = notAfterMs - (notAfterMs - notBeforeMs) * this.#options.warnFraction;
    this.#watched.set(secret, { secret, certificate, warnMs, hasExpired: false });
    const labels = this.#labels.of(secret);
    // Secrets without labels of their own count only for the first expiry.
    if (labels) {
      const help = "When the certificate of this secret expires, in seconds since 1970";
      this.#options.stats.gauge(EXPIRY, help, labels).set(Math.floor(notAfterMs / 1_000));
    }
    this.#arm(0);
  }

  forget(secret: Named): void {
    if (!this.#watched.delete(secret)) return;
    this.#labels.forget(secret);
    this.#arm(0);
  }

  close(): void {
    this.#timer?.cancel();
    this.#watched.clear();
  }

  #look(): void {
    this.#timer = undefined;
    this.#timerAtMs = Infinity;
    const nowMs = this.#options.clock.now();
    let nextMs = Infinity;
    let earliestMs = Infinity;
    let near = 0;
    for (const watched of this.#watched.values()) {
      const { notBeforeMs, notAfterMs } = watched.certificate;
      this.#judge(watched, nowMs);
      earliestMs = Math.min(earliestMs, notAfterMs);
      const nearMs = notAfterMs - (notAfterMs - notBeforeMs) * this.#options.warnFraction;
      if (nowMs >= nearMs) near++;
      else nextMs = Math.min(nextMs, nearMs);
      if (!watched.hasExpired) nextMs = Math.min(nextMs, watched.warnMs, notAfterMs);
    }
    this.#near.set(near);
    const { stats, scope = {} } = this.#options;
    if (this.#watched.size === 0) return stats.remove(FIRST_EXPIRY, scope);
    const help = "When the first certificate in use expires, in seconds since 1970";
    stats.gauge(FIRST_EXPIRY, help, scope).set(Math.floor(earliestMs / 1_000));
    this.#arm(Math.min(LOOK_AGAIN_MS, Math.max(nextMs - nowMs, 1)));
  }

  #judge(watched: Watched, nowMs: number): void {
    const { secret: { ref, source }, certificate: { serial, notAfterMs } } = watched;
    const leftMs = notAfterMs - nowMs;
    // Built for a line only: a burst of rotations checks all certificates again and again.
    const fieldsOf = () => ({ secret: ref.name, source, serial, expires: isoTime(notAfterMs) });
    const hadExpired = watched.hasExpired;
    // The wall clock may have been set back.
    watched.hasExpired = leftMs <= 0;
    if (watched.hasExpired && !hadExpired) {
      this.#options.log.error("certificate has expired", fieldsOf());
      this.#event(watched.secret, "has expired", "error");
    }
    if (watched.hasExpired || nowMs < watched.warnMs) return;
    const fields = { ...fieldsOf(), expires_in: formatSpanMs(leftMs) };
    this.#options.log.warn("certificate expires soon and was not replaced", fields);
    this.#event(watched.secret, `expires in ${fields.expires_in} and was not replaced`, "warn");
    watched.warnMs = leftMs > 2 * LAST_WARNING_MS ? nowMs + leftMs / 2 : Infinity;
  }

  #event({ ref: { name }, source }: Named, fact: string, severity: "warn" | "error"): void {
    const text = `certificate ${name} (${source}) ${fact}`;
    this.#options.report?.({ kind: "certificate", subject: name, text, severity, isLogged: true });
  }

  #arm(delayMs: number): void {
    const { clock } = this.#options;
    const atMs = clock.monotonic() + delayMs;
    if (this.#timerAtMs <= atMs) return;
    this.#timer?.cancel();
    this.#timerAtMs = atMs;
    this.#timer = clock.after(delayMs, () => this.#look());
  }
}
