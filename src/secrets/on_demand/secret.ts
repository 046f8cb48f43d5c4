/**
 * One name that is followed on demand, as {@link OnDemand} sees it.
 *
 * @module
 */

/** A name followed at its source; `follow` gives it. */
export interface OnDemandSecret {
  readonly key: string;
  /** Whether there is a value, and its source has not taken it back. */
  readonly isThere: boolean;
  /** Why the last try failed; "" where it did not. */
  readonly fault: string;
  release(): void;
}

export interface OnDemandEvents {
  onValue(): void;
  onRemoved(): void;
}
