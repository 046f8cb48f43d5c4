/**
 * What every kind of source offers to the store: it follows one secret and tells what happens to it.
 *
 * @module
 */

import type { SecretRef } from "./plan.ts";
import type { Secret } from "./secret.ts";

export interface SecretEvents {
  /** A checked value that differs from the one before. `version`: the source's own, "" where it has none. */
  onSecret(secret: Secret, version: string): void;
  /**
   * Something arrived, or was found, that cannot be used; what was there before stays. Once per distinct
   * fault. `reason` names the file or resource and never contains key material.
   */
  onRejected(reason: string): void;
  /** After a rejection or an outage: what is there is good again, and the same as before it. */
  onRecovered?(): void;
  /** The source cannot be reached or read for now. Ends no waiting (envoy.md 1.5). Once per distinct fault. */
  onUnreachable(reason: string): void;
  /** It has given nothing, and says that nothing is ours: what was restored goes, a first value is waited for. */
  onDenied?(reason: string): void;
  /**
   * The source says that there is no such secret: delta removal, a withdrawn SVID. `reason`: where it
   * says more.
   */
  onRemoved(reason?: string): void;
}

export interface SecretWatch {
  /** Looks again at once, where there is something to look at. */
  refresh(): void;
  close(): void;
}

/** Follows secrets of one source. Owns its sockets, timers and watches; `close` ends them all. */
export interface SecretProvider {
  /** Events come later, never before this returns. */
  watch(ref: SecretRef, events: SecretEvents): SecretWatch;
  close(): Promise<void>;
}
