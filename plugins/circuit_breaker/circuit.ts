/**
 * The state of one service: closed, open after failures, and half-open while probes decide. It has no clock:
 * each call has the time.
 *
 * @module
 */

export interface CircuitTerms {
  /** Failures in a row that open it; 0: any number. */
  readonly consecutiveFailures: number;
  /** Share of failures within `windowMs` that opens it, from `minRequests` on; 0: any share. */
  readonly failurePercent: number;
  readonly minRequests: number;
  readonly windowMs: number;
  readonly openMs: number;
  /** Requests that must succeed before it closes. */
  readonly probes: number;
}

/** `none`: the request says nothing about the service, as when its caller left. */
export type CircuitVerdict = "success" | "failure" | "none";

/** A change of the circuit; `opened`: the reason. `undefined`: it did not change. */
export type CircuitChange = { readonly opened: string } | "closed" | undefined;

/** The window moves by a part at a time. */
const PARTS = 10;

export class Circuit {
  readonly #terms: CircuitTerms;
  /** Rises with each change; results of requests that began before it do not count. */
  #epoch = 0;
  #state: "closed" | "open" | "half_open" = "closed";
  #inARow = 0;
  readonly #all = new Uint32Array(PARTS);
  readonly #failed = new Uint32Array(PARTS);
  /** Number of the current part since time 0. */
  #part = 0;
  /** When it opened, or admitted its last probe. */
  #sinceMs = 0;
  #probing = 0;
  #succeeded = 0;

  constructor(terms: CircuitTerms) {
    this.#terms = terms;
  }

  get isOpen(): boolean {
    return this.#state !== "closed";
  }

  /** Milliseconds until a probe is admitted. */
  leftMs(nowMs: number): number {
    return Math.max(0, this.#sinceMs + this.#terms.openMs - nowMs);
  }

  /** The number to report the result with; `undefined`: the request is refused. */
  enter(nowMs: number): number | undefined {
    if (this.#state === "closed") return this.#epoch;
    const mayProbe = this.#state === "half_open" &&
      this.#probing + this.#succeeded < this.#terms.probes;
    if (!mayProbe) {
      if (nowMs - this.#sinceMs < this.#terms.openMs) return undefined;
      // Probes without a result for so long are given up, and others take their place.
      this.#become("half_open");
    }
    this.#probing++;
    this.#sinceMs = nowMs;
    return this.#epoch;
  }

  /** Once for each request that entered. */
  leave(epoch: number, verdict: CircuitVerdict, nowMs: number): CircuitChange {
    if (epoch !== this.#epoch || this.#state === "open") return undefined;
    if (this.#state === "closed") return this.#count(verdict, nowMs);
    this.#probing--;
    if (verdict === "failure") return this.#open("a probe failed", nowMs);
    if (verdict === "none" || ++this.#succeeded < this.#terms.probes) return undefined;
    this.#become("closed");
    return "closed";
  }

  #count(verdict: CircuitVerdict, nowMs: number): CircuitChange {
    if (verdict === "none") return undefined;
    const { consecutiveFailures, failurePercent, minRequests, windowMs } = this.#terms;
    const at = this.#partAt(nowMs, windowMs);
    this.#all[at] = (this.#all[at] ?? 0) + 1;
    if (verdict === "success") {
      this.#inARow = 0;
      return undefined;
    }
    this.#failed[at] = (this.#failed[at] ?? 0) + 1;
    if (++this.#inARow === consecutiveFailures) {
      return this.#open(`${consecutiveFailures} failures in a row`, nowMs);
    }
    if (failurePercent === 0) return undefined;
    const all = sumOf(this.#all);
    const failed = sumOf(this.#failed);
    if (all < minRequests || failed * 100 < all * failurePercent) return undefined;
    return this.#open(`${failed} of ${all} requests failed`, nowMs);
  }

  /** The index of the current part; parts that the window has left are empty. */
  #partAt(nowMs: number, windowMs: number): number {
    const part = Math.floor(nowMs * PARTS / windowMs);
    for (let left = Math.min(part - this.#part, PARTS); left > 0; left--) {
      const at = (part - left + 1) % PARTS;
      this.#all[at] = this.#failed[at] = 0;
    }
    this.#part = part;
    return part % PARTS;
  }

  #open(opened: string, nowMs: number): CircuitChange {
    this.#become("open");
    this.#sinceMs = nowMs;
    return { opened };
  }

  #become(state: "closed" | "open" | "half_open"): void {
    this.#state = state;
    this.#epoch++;
    this.#inARow = this.#probing = this.#succeeded = 0;
    this.#all.fill(0);
    this.#failed.fill(0);
  }
}

function sumOf(parts: Uint32Array): number {
  let sum = 0;
  for (const count of parts) sum += count;
  return sum;
}
