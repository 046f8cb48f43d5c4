/**
 * Counts what clients made a listener fetch (Envoy's `on_demand_secret` statistics) and what it refused.
 *
 * @module
 */

import type { Counter, Gauge, Stats } from "../../base/mod.ts";

export type OnDemandRefusal =
  | "closed"
  | "name"
  | "negative"
  | "no_name"
  | "pending"
  | "rate"
  | "removed"
  | "timed_out"
  | "waiters";

const REQUESTED = "on_demand_cert_requested_total";
const UPDATED = "on_demand_cert_updated_total";
const ACTIVE = "on_demand_cert_active";
const REFUSED = "on_demand_refused_total";

export class OnDemandStats {
  readonly #stats: Stats;
  readonly #credentials: string;
  readonly #requested: Counter;
  readonly #updated: Counter;
  readonly #active: Gauge;

  constructor(stats: Stats, credentials: string) {
    const labels = { credentials };
    this.#stats = stats;
    this.#credentials = credentials;
    this.#requested = stats.counter(
      REQUESTED,
      "Server names whose certificate was requested from the source",
      labels,
    );
    this.#updated = stats.counter(
      UPDATED,
      "Certificates that the source delivered, first ones and renewals",
      labels,
    );
    this.#active = stats.gauge(
      ACTIVE,
      "Certificates fetched on demand that are held in memory now",
      labels,
    );
  }

  requested(): void {
    this.#requested.add(1);
  }

  updated(): void {
    this.#updated.add(1);
  }

  active(count: number): void {
    this.#active.set(count);
  }

  refused(reason: OnDemandRefusal): void {
    const labels = { credentials: this.#credentials, reason };
    this.#stats.counter(
      REFUSED,
      "TLS handshakes refused because no certificate could be had, by reason",
      labels,
    ).add(1);
  }

  close(): void {
    this.#active.set(0);
  }
}
