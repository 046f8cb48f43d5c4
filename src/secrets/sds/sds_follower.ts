/**
 * One reference: what a server offers of it is decoded and checked, and told. Files that an offer names
 * are followed until another offer takes its place.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import { filesOf } from "../load/mod.ts";
import type { SecretRef } from "../plan.ts";
import type { FileEvents, SecretEvents, SecretWatch } from "../secret_provider.ts";
import type { Secret } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";

export interface SdsFollowerOptions {
  readonly ref: SecretRef;
  readonly events: SecretEvents;
  /** Decodes and checks; throws `credentials_invalid`. */
  readonly load: (spec: SecretSpec, ref: SecretRef) => Promise<Secret>;
  /** Follows the files that a spec names; absent: there are none in what a server sends. */
  readonly followFiles: FollowFiles | undefined;
}

/** As the provider of files does it: `onRejected` and `onSecret` come for the first reading, too. */
export type FollowFiles = (spec: SecretSpec, ref: SecretRef, events: FileEvents) => SecretWatch;

export class SdsFollower {
  readonly #options: SdsFollowerOptions;
  /** Of the last spec that names files and was not refused outright: followed until another takes its place. */
  #files: SecretWatch | undefined;
  /** The server's last offer was refused, whatever files have said since. */
  #refused = false;
  /** What files hold cannot be used. */
  #isTorn = false;
  /** Changes where what is being read must not count any more. */
  #epoch = 0;
  #giveUp: (() => void) | undefined;
  #closed = false;

  constructor(options: SdsFollowerOptions) {
    this.#options = options;
  }

  get events(): SecretEvents {
    return this.#options.events;
  }

  /** What came last cannot be used. */
  get hasFault(): boolean {
    return this.#refused || this.#isTorn;
  }

  /** Why it cannot be used; `undefined`: it is in use. Never rejects. */
  async offer(spec: SecretSpec, version: string): Promise<string | undefined> {
    // What was held before it came may be offered when it has gone already.
    if (this.#closed) return undefined;
    const { ref, load, followFiles } = this.#options;
    const epoch = this.#nextEpoch();
    if (spec.type !== ref.type) {
      return this.reject(`it is a ${NAMES[spec.type]}, and a ${NAMES[ref.type]} is wanted`);
    }
    if (followFiles && namesFiles(spec)) return await this.#follow(spec, version, followFiles);
    try {
      const secret = await load(spec, ref);
      if (this.#epoch !== epoch) return undefined;
      this.#stopFiles();
      this.#refused = false;
      this.events.onSecret(secret, version);
      return undefined;
    } catch (error) {
      const reason = messageOf(error);
      return this.#epoch === epoch ? this.reject(reason) : reason;
    }
  }

  /** Gives the reason. */
  reject(reason: string): string {
    this.#refused = true;
    this.#tell(reason);
    return reason;
  }

  remove(): void {
    this.#nextEpoch();
    this.#stopFiles();
    this.#refused = false;
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
    this.#refused = false;
    const before = this.#files;
    return new Promise((resolve) => {
      this.#giveUp = () => resolve(undefined);
      // A later offer that is refused leaves these in force.
      const isCurrent = () => this.#files === watch;
      const watch = this.#files = follow(spec, this.#options.ref, {
        onSecret: (secret) => {
          resolve(undefined);
          if (!isCurrent()) return;
          this.#isTorn = false;
          this.events.onSecret(secret, version);
        },
        // The files may still come: they stay watched, though the server hears of a refusal.
        onRejected: (reason) => {
          resolve(reason);
          if (!isCurrent()) return;
          this.#isTorn = true;
          this.#tell(reason);
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
    // Whoever waits for files that nobody wants any more would wait for ever.
    this.#giveUp?.();
    this.#giveUp = undefined;
    return ++this.#epoch;
  }

  #tell(reason: string): void {
    this.events.onRejected(`Cannot use "${this.#options.ref.name}": ${reason}`);
  }

  #stopFiles(): void {
    this.#files?.close();
    this.#files = undefined;
    this.#isTorn = false;
  }
}

const NAMES = { certificate: "certificate", validation: "validation context" } as const;

/** The system's roots aside, which the configuration names, not the server. */
function namesFiles(spec: SecretSpec): boolean {
  return filesOf(spec.type === "validation" ? { ...spec, systemRoots: false } : spec).length > 0;
}
