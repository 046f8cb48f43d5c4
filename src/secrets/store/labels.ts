/**
 * Metric labels of a bounded number of secrets; the other ones are counted together.
 *
 * @module
 */

import type { Labels, Stats } from "../../base/mod.ts";

const NAMES_LIMIT = 1_000;
/** The labels of secrets beyond the limit. */
export const OTHER_SECRETS: Labels = { secret: "other", source: "other" };

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
