/** Makes one event of a condition that several data workers report. @module */

import type { Clock, ConditionChange, NewEvent, ReportEvent, Timer } from "../base/mod.ts";

/** Workers that report within this time are named in one event. */
const SETTLE_MS = 500;
/** A condition that begins again in a worker while it lasts in another is reported after this time. */
const AGAIN_MS = 5_000;

interface Lasting {
  readonly workers: Set<number>;
  refused: number;
  toldMs: number;
}

interface Waiting {
  readonly event: NewEvent;
  readonly workers: Set<number>;
  /** Beginnings that were not told one by one. */
  times: number;
}

/** Bounded by the conditions that each data path keeps. */
export class WorkerConditions {
  readonly #clock: Pick<Clock, "after" | "monotonic">;
  readonly #report: ReportEvent;
  readonly #workers: number;
  readonly #lasting = new Map<string, Lasting>();
  readonly #waiting = new Map<string, Waiting>();
  #timer: Timer | undefined;

  constructor({ clock, report, workers }: {
    readonly clock: Pick<Clock, "after" | "monotonic">;
    readonly report: ReportEvent;
    readonly workers: number;
  }) {
    this.#clock = clock;
    this.#report = report;
    this.#workers = workers;
  }

  take(worker: number, changes: readonly ConditionChange[]): void {
    for (const change of changes) {
      if (change.isOn || change.times > 1) this.#began(worker, change);
      if (!change.isOn) this.#ended(worker, change);
    }
  }

  /** The worker died: its conditions ended with it. */
  forget(worker: number): void {
    for (const [key, { workers }] of this.#lasting) {
      if (workers.delete(worker) && workers.size === 0) this.#lasting.delete(key);
    }
  }

  #began(worker: number, { key, isOn, times, event }: ConditionChange): void {
    const nowMs = this.#clock.monotonic();
    const lasting = this.#lasting.get(key);
    const isNews = !lasting || times > 1 ||
      lasting.workers.has(worker) && nowMs - lasting.toldMs >= AGAIN_MS;
    if (isOn) {
      const held = lasting ?? { workers: new Set(), refused: 0, toldMs: nowMs };
      held.workers.add(worker);
      this.#lasting.set(key, held);
      if (isNews) held.toldMs = nowMs;
    }
    if (!event) return;
    let waiting = this.#waiting.get(key);
    if (!waiting) {
      if (!isNews) return;
      this.#waiting.set(key, waiting = { event, workers: new Set(), times: 0 });
      this.#timer ??= this.#clock.after(SETTLE_MS, () => this.#settled());
    }
    waiting.workers.add(worker);
    if (times > 1) waiting.times += times;
  }

  #ended(worker: number, { key, times, event, refused }: ConditionChange): void {
    const lasting = this.#lasting.get(key);
    if (lasting) {
      lasting.refused += refused;
      lasting.workers.delete(worker);
      if (lasting.workers.size > 0) return;
      this.#lasting.delete(key);
    }
    if (!event || times > 1) return;
    this.#tell(key);
    const sum = lasting?.refused ?? refused;
    const what = event.kind === "endpoint" ? "failed" : "refused";
    this.#report(sum === 0 ? event : { ...event, effect: `${sum} ${what}` });
  }

  #settled(): void {
    this.#timer = undefined;
    for (const key of [...this.#waiting.keys()]) this.#tell(key);
  }

  #tell(key: string): void {
    const waiting = this.#waiting.get(key);
    if (!waiting) return;
    this.#waiting.delete(key);
    const { event, workers, times } = waiting;
    const all = this.#workers;
    const where = all < 2 ? "" : ` (${workers.size} of ${all} workers)`;
    const again = times > 0 ? `; ${times} times within a minute` : "";
    const { isLogged, ...unlogged } = event;
    // The log has no line for each time.
    const logged = isLogged && times === 0 ? { isLogged } : {};
    this.#report({ ...unlogged, ...logged, text: `${event.text}${where}${again}` });
  }
}
