/**
 * When memory is given back: what the start needed soon after it, and what a load has brought once it is
 * over. A load is known by the processor time of the whole process, which costs the data path nothing.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";

const FIRST_MS = 3_000;
const LOOK_MS = 10_000;
/** A process that serves nobody takes a third of a per cent. */
const QUIET_SHARE = 0.02;

export interface QuietTrimOptions {
  readonly clock: Clock;
  /** Processor time of all threads so far. */
  spentMs(): number;
  trim(): void;
}

/** Trims a few seconds from now, and from then on at the first quiet look after a busy one. */
export function trimWhenQuiet({ clock, spentMs, trim }: QuietTrimOptions): void {
  let isBusy = false;
  let lookedAtMs = 0;
  const watch = () => {
    lookedAtMs = spentMs();
    clock.after(LOOK_MS, look);
  };
  const look = () => {
    const wasBusy = isBusy;
    isBusy = spentMs() - lookedAtMs > LOOK_MS * QUIET_SHARE;
    if (wasBusy && !isBusy) trim();
    watch();
  };
  clock.after(FIRST_MS, () => {
    trim();
    watch();
  });
}
