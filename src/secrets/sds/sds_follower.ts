/**
 * One reference and what became of it: what a server offers is decoded and checked, and told where it
 * differs. The last good one stays whatever comes, unless the server takes it back.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import type { SecretRef } from "../plan.ts";
import type { SecretEvents, SecretWatch } from "../secret_provider.ts";
import type { Secret } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";

export interface FollowerOptions {
  readonly ref: SecretRef;
  readonly events: SecretEvents;
  /** Decodes and checks; throws `credentials_invalid`. */
  readonly load: (spec: SecretSpec, ref: SecretRef) => Promise<Secret>;
  /** Follows the files that a spec names; absent: there are none in what a server sends. */
  readonly followFiles: FollowFiles | undefined;
}

/** As the provider of files does it: `onRejected` and `onSecret` come for the first reading, too. */
export type FollowFiles = (
  spec: SecretSpec,
  ref: SecretRef,
  events: Pick<SecretEvents, "onSecret" | "onRejected" | "onRecovered">,
) => SecretWatch;

export class Follower {
  readonly #options: FollowerOptions;
  #told: string | undefined;
  /** Told of last, and not mended since. */
  #fault = "";
  #unreachable = "";
  /** Of the last spec that names files and was not refused outright: followed until another takes its place. */
  #files: SecretWatch | undefined;
  /** The server's last offer was refused, whatever files have said since. */
  #refused = false;
  /** Changes where what is being read must not count any more. */
  #epoch = 0;
  #giveUp: (() => void) | undefined;
  #closed = false;

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  get ref(): SecretRef {
    return this.#options.ref;
  }

  /** What came last cannot be used. */
  get hasFault(): boolean {
    return this.#refused || this.#fault !== "";
  }

  /** Why it cannot be used; `undefined`: it is in use. Never rejects. */
  async offer(spec: SecretSpec, version: string): Promise<string | undefined> {
    // What was held before it came may be offered when it has gone already.
    if (this.#closed) return undefined;
    const { ref, load, followFiles } = this.#options;
    const epoch = this.#nextEpoch();
    if (spec.type !== ref.type) {
      return this.#refuse(`it is a ${NAMES[spec.type]}, and a ${NAMES[ref.type]} is wanted`);
    }
    if (followFiles && namesFiles(spec)) return await this.#follow(spec, { version, followFiles });
    try {
      const secret = await load(spec, ref);
      if (this.#epoch !== epoch) return undefined;
      this.#stopFiles();
      this.#refused = false;
      this.#accept(secret, version);
      return undefined;
    } catch (error) {
      const reason = messageOf(error);
      return this.#epoch === epoch ? this.#refuse(reason) : reason;
    }
  }

  #refuse(reason: string): string {
    this.#refused = true;
    this.reject(reason);
    return reason;
  }

  reject(reason: string): void {
    if (this.#fault === reason) return;
    this.#fault = reason;
    this.#tellFault();
  }

  unreachable(reason: string): void {
    if (this.#unreachable === reason) return;
    this.#unreachable = reason;
    this.#options.events.onUnreachable(reason);
  }

  /** The server answers again: an outage is no fault any more, what it offered last may be one. */
  reached(): void {
    if (this.#unreachable === "") return;
    this.#unreachable = "";
    if (this.#fault === "") this.#options.events.onRecovered?.();
    else this.#tellFault();
  }

  remove(): void {
    this.#nextEpoch();
    this.#stopFiles();
    this.#told = undefined;
    this.#fault = "";
    this.#refused = false;
    this.#options.events.onRemoved();
  }

  refresh(): void {
    this.#files?.refresh();
  }

  close(): void {
    this.#closed = true;
    this.#nextEpoch();
    this.#stopFiles();
  }

  #follow(
    spec: SecretSpec,
    { version, followFiles }: { readonly version: string; readonly followFiles: FollowFiles },
  ): Promise<string | undefined> {
    this.#refused = false;
    const before = this.#files;
    return new Promise((resolve) => {
      this.#giveUp = () => resolve(undefined);
      // A later offer that is refused leaves these in force.
      const isCurrent = () => this.#files === watch;
      const watch = this.#files = followFiles(spec, this.ref, {
        onSecret: (secret) => {
          if (isCurrent()) this.#accept(secret, version);
          resolve(undefined);
        },
        // The files may still come: they stay watched, though the server hears of a refusal.
        onRejected: (reason) => {
          if (isCurrent()) this.reject(reason);
          resolve(reason);
        },
        onRecovered: () => {
          if (isCurrent()) this.#recover();
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

  #tellFault(): void {
    this.#options.events.onRejected(`Cannot use "${this.ref.name}": ${this.#fault}`);
  }

  #recover(): void {
    if (this.#fault === "") return;
    this.#fault = "";
    this.#options.events.onRecovered?.();
  }

  #accept(secret: Secret, version: string): void {
    const text = JSON.stringify(secret);
    if (text === this.#told) return this.#recover();
    this.#fault = "";
    this.#told = text;
    this.#options.events.onSecret(secret, version);
  }

  #stopFiles(): void {
    this.#files?.close();
    this.#files = undefined;
  }
}

const NAMES = { certificate: "certificate", validation: "validation context" } as const;

function namesFiles(spec: SecretSpec): boolean {
  const sources = spec.type === "certificate"
    ? [spec.chain, spec.key, spec.pkcs12, spec.password, spec.ocspStaple]
    : [
      spec.trustedCa,
      spec.crl,
      ...(spec.spiffe?.kind === "map" ? [spec.spiffe.source] : []),
      ...(spec.spiffe?.kind === "domains" ? spec.spiffe.domains.map(({ bundle }) => bundle) : []),
    ];
  return sources.some((source) => source?.kind === "file");
}
