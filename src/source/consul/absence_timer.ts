/**
 * Waiting a little for what is wished for but not demanded, and no longer.
 *
 * @module
 */

/** Counts how long something wished for has been missing. */
export class AbsenceTimer {
  readonly since = new Map<string, number>();
  dueMs: number | undefined;
  readonly #before: ReadonlyMap<string, number>;
  readonly #options: { readonly monotonicMs: number; readonly graceMs: number };

  constructor(
    before: ReadonlyMap<string, number>,
    options: { readonly monotonicMs: number; readonly graceMs: number },
  ) {
    this.#before = before;
    this.#options = options;
  }

  /** Notes that `what` is missing; whether it is still worth waiting for. */
  missing(what: string): boolean {
    const { monotonicMs, graceMs } = this.#options;
    const since = this.#before.get(what) ?? monotonicMs;
    this.since.set(what, since);
    if (monotonicMs - since >= graceMs) return false;
    this.dueMs = earliest(this.dueMs, since + graceMs);
    return true;
  }
}

export function earliest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : Math.min(a, b);
}
