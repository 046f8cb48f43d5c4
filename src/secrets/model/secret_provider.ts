/**
 * The interface between a source of secrets and the store: a provider follows one secret and reports all
 * that it sees, repetitions included. `store/subscription.ts` decides which reports are changes.
 *
 * @module
 */

import type { ExternalSource, SecretRef } from "./plan.ts";
import type { Secret } from "./secret.ts";

export interface SecretEvents {
  /** A checked value, new or repeated. `version`: the source's own; "": it has none. */
  onSecret(secret: Secret, version: string): void;
  /**
   * A value arrived or was read that cannot be used; the value before stays. `reason` names the file or
   * resource and never contains key material.
   */
  onRejected(reason: string): void;
  /** The last reported value is current and good: every fault reported since is over. */
  onRecovered(): void;
  /** The source cannot be reached or read now. Does not end the wait for a first value (envoy.md 1.5). */
  onUnreachable(reason: string): void;
  /** The source answers: an outage is over. A rejection before it still holds. */
  onReached(): void;
  /** The source denies us every secret before it gave one: a restored value goes, a first value is awaited. */
  onDenied(reason: string): void;
  /** The source has no such secret: delta removal, a withdrawn SVID. `reason`: the source's details. */
  onRemoved(reason?: string): void;
}

/** The events of followed files. */
export type FileEvents = Pick<SecretEvents, "onSecret" | "onRejected" | "onRecovered">;

export interface SecretWatch {
  /**
   * Reads the source again at once, where it can be read. Resolves when its state is reported; does not
   * wait for a server.
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

/** Makes the provider of a source. */
export type ProviderFactory = (source: ExternalSource) => SecretProvider;
