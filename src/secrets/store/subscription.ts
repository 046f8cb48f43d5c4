/**
 * One secret followed, wherever it comes from: its last good value, which stays whatever happens to its
 * source, and what of all that the source tells is news.
 *
 * Here alone is decided whether a value is another one: by what is in it, however it came. A source may
 * save itself the reading of bytes that it has read before (a set of files by its hash, a resource of SDS
 * by its digest), and decides nothing by it. From here on identity tells: {@link Subscription.held}
 * is another object where, and only where, the value is another one. Faults are told when they begin or
 * change, and their end is told once.
 *
 * @module
 */

import { isDeepStrictEqual } from "node:util";
import type { HeldSecret, SecretStatus } from "../held.ts";
import type { SecretRef } from "../plan.ts";
import type { SecretEvents, SecretWatch } from "../secret_provider.ts";
import type { Secret } from "../secret.ts";
import type { SecretJournal } from "./journal.ts";
import { sourceText } from "./key.ts";
import type { ProviderLease } from "./shared_providers.ts";

/** What happened, to whoever uses the secret. */
export interface SubscriptionObserver {
  onValue(): void;
  onRemoved(): void;
}

export interface SubscriptionOptions {
  readonly key: string;
  readonly ref: SecretRef;
  readonly lease: ProviderLease;
  readonly journal: SecretJournal;
  readonly nowMs: number;
  /** What is held, or what is waited for, is different now. */
  readonly onChange: () => void;
}

export class Subscription implements SecretEvents {
  readonly key: string;
  readonly ref: SecretRef;
  readonly source: string;
  readonly startedMs: number;
  readonly observers = new Set<SubscriptionObserver>();
  /** Configured by an operator. Of others, which strangers ask for, little is said until they are there. */
  configured = false;
  held: HeldSecret<Secret> | undefined;
  /** There is, was, or cannot be a value for now: nobody needs to wait for the first one any more. */
  answered = false;
  timedOut = false;
  /** Its source said last that there is no such secret; a value that is kept nevertheless is an old one. */
  withdrawn = false;
  /** What came last cannot be used, or there is nothing; and why it cannot be seen what there is now. */
  #rejected = "";
  #unreachable = "";
  /** The source's own. */
  version = "";
  #updatedMs = 0;
  #closed = false;
  #watch: SecretWatch | undefined;
  readonly #options: SubscriptionOptions;

  constructor(options: SubscriptionOptions) {
    this.#options = options;
    this.key = options.key;
    this.ref = options.ref;
    this.source = sourceText(options.ref.source);
    this.startedMs = options.nowMs;
    this.#watch = options.lease.provider.watch(options.ref, this);
  }

  /** What is wrong with it or its source now; "": nothing. */
  get fault(): string {
    return this.#unreachable || this.#rejected;
  }

  /** Why there is no value, where there is none. */
  get absence(): string {
    if (!this.withdrawn) return "not come";
    return this.#updatedMs > 0 ? "withdrawn" : "not known to its source";
  }

  onSecret(secret: Secret, version: string): void {
    if (this.#closed) return;
    const { journal, ref } = this.#options;
    if (secret.type !== ref.type) {
      return this.onRejected(`Cannot use "${ref.name}": a ${secret.type} came for a ${ref.type}`);
    }
    const old = this.held;
    this.version = version;
    const isOld = old !== undefined && isDeepStrictEqual(old.value, secret);
    // The same again only says that the source is well.
    if (isOld && !this.withdrawn) return this.onRecovered();
    this.#rejected = this.#unreachable = "";
    journal.mended(this);
    this.withdrawn = false;
    if (!isOld) {
      this.held = { key: this.key, name: ref.name, source: this.source, value: secret };
      this.#updatedMs = journal.changed(this, old?.value, secret);
    }
    this.#tellValue();
  }

  /** What an earlier run held: nobody needs to wait, and the source's own takes its place. */
  restore(secret: Secret): void {
    // What its source has taken back does not come again.
    if (this.#closed || this.held || this.withdrawn || secret.type !== this.ref.type) return;
    const { journal, ref } = this.#options;
    this.held = { key: this.key, name: ref.name, source: this.source, value: secret };
    this.#updatedMs = journal.restored(this, secret);
    this.#tellValue();
  }

  onRejected(reason: string): void {
    if (this.#closed || this.fault === reason) return;
    // Who hears of a value can reach its source.
    this.#unreachable = "";
    this.#rejected = reason;
    this.#options.journal.rejected(this, reason);
    // Files may still be on their way; a server has said what it has.
    const { kind } = this.ref.source;
    if (kind !== "spec" && kind !== "secret_file") this.#answer();
  }

  onRecovered(): void {
    this.#mend("");
  }

  onUnreachable(reason: string): void {
    if (this.#closed || this.fault === reason) return;
    this.#unreachable = reason;
    this.#options.journal.unreachable(this, reason);
  }

  onReached(): void {
    this.#mend(this.#rejected);
  }

  /** What was restored is not ours any more; who waits for a first value waits on. */
  onDenied(reason: string): void {
    if (this.held) this.onRemoved(reason);
    this.withdrawn = true;
  }

  /** A withdrawn identity or bundle must not be used; other sources cannot take back what they gave. */
  onRemoved(reason?: string): void {
    if (this.#closed) return;
    const { journal, onChange } = this.#options;
    const drops = this.ref.source.kind === "workload" && this.held !== undefined;
    journal.removed(this, { dropped: drops, ...reason && { reason } });
    this.withdrawn = true;
    this.#unreachable = "";
    this.#rejected = drops || !this.held ? reason ?? "The source has no such secret" : "";
    if (drops) {
      this.held = undefined;
      this.version = "";
      onChange();
    }
    this.#answer();
    for (const observer of [...this.observers]) observer.onRemoved();
  }

  /** Its first value took longer than somebody wanted to wait. */
  timeOut(): void {
    if (this.timedOut || this.answered) return;
    this.timedOut = true;
    this.#options.journal.timedOut(this);
  }

  refresh(): void | Promise<void> {
    return this.#watch?.refresh();
  }

  status(): SecretStatus {
    const { key, source, fault, ref: { type, name }, held } = this;
    const value = held?.value;
    const state = held ? "active" : this.answered || this.timedOut ? "missing" : "warming";
    const version = held ? this.version : "uninitialized";
    const status = { key, type, name, source, state, version, updatedMs: this.#updatedMs, fault };
    if (value?.type !== "certificate") return status as SecretStatus;
    const { serial, dnsNames, uris, notBeforeMs, notAfterMs } = value;
    const certificate = { serial, dnsNames, uris, notBeforeMs, notAfterMs };
    return { ...status, certificate } as SecretStatus;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#watch?.close();
    this.#watch = undefined;
    this.#options.lease.release();
    this.#options.journal.ended(this);
  }

  /** `left`: what is wrong with it still. */
  #mend(left: string): void {
    const wasWell = this.fault === "";
    this.#unreachable = "";
    this.#rejected = left;
    // What has never come is waited for still.
    if (wasWell || left !== "" || this.#closed || !this.held) return;
    this.#options.journal.recovered(this);
  }

  #tellValue(): void {
    this.answered = true;
    this.#options.onChange();
    for (const observer of [...this.observers]) observer.onValue();
  }

  #answer(): void {
    if (this.answered) return;
    this.answered = true;
    this.#options.onChange();
  }
}
