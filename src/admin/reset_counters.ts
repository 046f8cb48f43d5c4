/**
 * `POST /reset_counters`: counters are shown from zero again. What counts goes on: only the admin server's
 * pages subtract what there was, and neither Prometheus on an address of its own nor StatsD notices.
 *
 * @module
 */

import type { Labels, Sample } from "../base/mod.ts";

export class CounterReset {
  /** Values at the last reset. */
  #before = new Map<string, number>();

  reset(samples: readonly Sample[]): void {
    const counters = samples.filter(({ kind }) => kind === "counter");
    this.#before = new Map(counters.map((sample) => [keyOf(sample), sample.value]));
  }

  since(samples: readonly Sample[]): readonly Sample[] {
    if (this.#before.size === 0) return samples;
    return samples.map((sample) => {
      const before = sample.kind === "counter" ? this.#before.get(keyOf(sample)) : undefined;
      // A worker that was started again counts from zero by itself.
      if (before === undefined || before > sample.value) return sample;
      return { ...sample, value: sample.value - before };
    });
  }
}

function keyOf({ name, labels }: { readonly name: string; readonly labels: Labels }): string {
  return JSON.stringify([name, labels]);
}
