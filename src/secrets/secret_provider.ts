/**
 * What every kind of source offers to the store: it follows one secret and tells what it sees of it, as
 * often as it sees it. What of that is news is decided by who listens, `store/subscription.ts`.
 *
 * @module
 */

import type { SecretRef } from "./plan.ts";
import type { Secret } from "./secret.ts";

export interface SecretEvents {
  /** A checked value, the same again or another. `version`: the source's own, "" where it has none. */
  onSecret(secret: Secret, version: string): void;
  /**
   * Something arrived, or was found, that cannot be used; what was there before stays. `reason` names
   * the file or resource and never contains key material.
   */
  onRejected(reason: string): void;
  /** The last value told is what is there, and good: any fault told since is over. */
  onRecovered(): void;
  /** The source cannot be reached or read for now. Ends no waiting (envoy.md 1.5). */
  onUnreachable(reason: string): void;
  /** The source answers: an outage is over; what it said last stands, and may be a rejection. */
  onReached(): void;
  /** It has given nothing, and says that nothing is ours: what was restored goes, a first value is waited for. */
  onDenied(reason: string): void;
  /**
   * The source says that there is no such secret: delta removal, a withdrawn SVID. `reason`: where it
   * says more.
   */
  onRemoved(reason?: string): void;
}

/** What following files of this machine may tell. */
export type FileEvents = Pick<SecretEvents, "onSecret" | "onRejected" | "onRecovered">;

export interface SecretWatch {
  /**
   * Looks again at once, where there is something to look at. Resolves when what was there has been told
   * or refused; a server is not waited for.
   */
  refresh(): void | Promise<void>;
  close(): void;
}

/** Follows secrets of one source. Owns its sockets, timers and watches; `close` ends them all. */
export interface SecretProvider {
  /** Events come later, never before this returns. */
  watch(ref: SecretRef, events: SecretEvents): SecretWatch;
  close(): Promise<void>;
}
