/**
 * Counts the certificates that clients made a listener fetch (Envoy's `on_demand_secret` statistics), and
 * the handshakes that were refused.
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

export class OnDemandStats {
  readonly requested: Counter;
  readonly updated: Counter;
  readonly active: Gauge;
  readonly #stats: Stats;
  readonly #credentials: string;

  constructor(stats: Stats, credentials: string) {
    this.#stats = stats;
    this.#credentials = credentials;
    const labels = { credentials };
    this.requested = stats.counter(
      "on_demand_cert_requested_total",
      "Server names whose certificate was requested from the source",
      labels,
    );
    this.updated = stats.counter(
      "on_demand_cert_updated_total",
      "Certificates that the source delivered, first ones and renewals",
      labels,
    );
    this.active = stats.gauge(
      "on_demand_cert_active",
      "Certificates fetched on demand that are held in memory now",
      labels,
    );
  }

  refused(reason: OnDemandRefusal): void {
    this.#stats.counter(
      "on_demand_refused_total",
      "TLS handshakes refused because no certificate could be had, by reason",
      { credentials: this.#credentials, reason },
    ).add(1);
  }
}
