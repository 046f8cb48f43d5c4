/**
 * Follows one reference at an SDS server: decodes and checks each offered secret, and follows the files
 * that an offer names until another offer replaces them.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import { SPEC_NOUNS } from "../envoy/envoy_secret.ts";
import { filesOf } from "../load/mod.ts";
import type { SecretRef } from "../model/plan.ts";
import type { FileEvents, SecretEvents, SecretWatch } from "../model/secret_provider.ts";
import type { Secret } from "../model/secret.ts";
import type { SecretSpec } from "../model/spec.ts";

export interface SdsFollowerOptions {
  readonly ref: SecretRef;
  readonly events: SecretEvents;
  /** Decodes and checks; throws `credentials_invalid`. */
  readonly load: (spec: SecretSpec, ref: SecretRef) => Promise<Secret>;
  /** Follows the files that a spec names; absent: a server may not name any. */
  readonly followFiles: FollowFiles | undefined;
}

/** As the provider of files: the first reading has events, too. */
export type FollowFiles = (spec: SecretSpec, ref: SecretRef, events: FileEvents) => SecretWatch;

export class SdsFollower {
  readonly #options: SdsFollowerOptions;
  /** Files of the last spec that names some and was not refused outright. */
  #files: SecretWatch | undefined;
  /** The server's last offer was refused, whatever its files are now. */
  #isRefused = false;
  /** The files cannot be used. */
  #isTorn = false;
  /** Changes when a running load must not count any more. */
  #epoch = 0;
  #giveUp: (() => void) | undefined;
  #closed = false;

  constructor(options: SdsFollowerOptions) {
    this.#options = options;
  }

  get events(): SecretEvents {
    return this.#options.events;
  }

  /** The last offer cannot be used. */
  get hasFault(): boolean {
    return this.#isRefused || this.#isTorn;
  }

  /** Returns why the offer cannot be used; `undefined`: it is in use. Never rejects. */
  async offer(spec: SecretSpec, version: string): Promise<string | undefined> {
    // A value that was held before `watch` is offered later, and may come too late.
    if (this.#closed) return undefined;
    const { ref, load, followFiles } = this.#options;
    const epoch = this.#nextEpoch();
    if (spec.type !== ref.type) {
      return this.reject(
        `it is a ${SPEC_NOUNS[spec.type]}, and a ${SPEC_NOUNS[ref.type]} is wanted`,
      );
    }
    if (followFiles && namesFiles(spec)) return await this.#follow(spec, version, followFiles);
    try {
      const secret = await load(spec, ref);
      if (this.#epoch !== epoch) return undefined;
      this.#stopFiles();
      this.#isRefused = false;
      this.events.onSecret(secret, version);
      return undefined;
    } catch (error) {
      const reason = messageOf(error);
      return this.#epoch === epoch ? this.reject(reason) : reason;
    }
  }

  /** Returns the reason. */
  reject(reason: string): string {
    this.#isRefused = true;
    this.#report(reason);
    return reason;
  }

  remove(): void {
    this.#nextEpoch();
    this.#stopFiles();
    this.#isRefused = false;
    this.events.onRemoved();
  }

  refresh(): void | Promise<void> {
    return this.#files?.refresh();
  }

  close(): void {
    this.#closed = true;
    this.#nextEpoch();
    this.#stopFiles();
  }

  #follow(spec: SecretSpec, version: string, follow: FollowFiles): Promise<string | undefined> {
    this.#isRefused = false;
    const before = this.#files;
    return new Promise((resolve) => {
      this.#giveUp = () => resolve(undefined);
      // A later offer that is refused leaves these files in force.
      const isCurrent = () => this.#files === watch;
      const watch = this.#files = follow(spec, this.#options.ref, {
        onSecret: (secret) => {
          resolve(undefined);
          if (!isCurrent()) return;
          this.#isTorn = false;
          this.events.onSecret(secret, version);
        },
        // The files stay watched although the server gets a NACK: they may still come.
        onRejected: (reason) => {
          resolve(reason);
          if (!isCurrent()) return;
          this.#isTorn = true;
          this.#report(reason);
        },
        onRecovered: () => {
          if (!isCurrent()) return;
          this.#isTorn = false;
          this.events.onRecovered();
        },
      });
      before?.close();
    });
  }

  #nextEpoch(): number {
    // A wait for files that are not wanted any more would never end.
    this.#giveUp?.();
    this.#giveUp = undefined;
    return ++this.#epoch;
  }

  #report(reason: string): void {
    this.events.onRejected(`Cannot use "${this.#options.ref.name}": ${reason}`);
  }

  #stopFiles(): void {
    this.#files?.close();
    this.#files = undefined;
    this.#isTorn = false;
  }
}

/** The system's roots do not count: the configuration names them, not the server. */
function namesFiles(spec: SecretSpec): boolean {
  return filesOf(spec.type === "validation" ? { ...spec, systemRoots: false } : spec).length > 0;
}
