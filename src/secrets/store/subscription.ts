/** One followed secret: its last good value, which outlives its source's faults. @module */

import { isDeepStrictEqual } from "node:util";
import type { SecretEvents, SecretRef, SecretWatch } from "../model/plan.ts";
import type { HeldSecret, Secret, SecretStatus } from "../model/secret.ts";
import type { OnDemandEvents, OnDemandSecret } from "../on_demand/on_demand.ts";
import type { SecretJournal } from "./journal.ts";
import { sourceText } from "./key.ts";
import type { ProviderLease } from "./providers.ts";

export class Subscription implements SecretEvents, OnDemandSecret {
  readonly key: string;
  readonly ref: SecretRef;
  readonly source: string;
  readonly startedMs: number;
  readonly observers = new Set<OnDemandEvents>();
  /** Plans and on-demand names that follow it. */
  users = 0;
  /** An operator named it. Little is reported of a secret that a client named until it is there. */
  configured = false;
  /** Another object exactly when the content has changed. */
  held: HeldSecret<Secret> | undefined;
  /** There is a value, or none can come for now: a listener need not wait for the first one any more. */
  answered = false;
  timedOut = false;
  /** The source has no such secret; a value that is still held is an old one. */
  withdrawn = false;
  /** The source's version. */
  version = "";
  /** Why the last value cannot be used, or is absent. */
  #rejected = "";
  #unreachable = "";
  #updatedMs = 0;
  #closed = false;
  #watch: SecretWatch | undefined;
  readonly #lease: ProviderLease;
  readonly #journal: SecretJournal;
  readonly #onChange: () => void;

  constructor(
    options: {
      readonly key: string;
      readonly ref: SecretRef;
      readonly lease: ProviderLease;
      readonly journal: SecretJournal;
      readonly nowMs: number;
      /** {@link held} or {@link answered} has changed. */
      readonly onChange: () => void;
    },
  ) {
    const { key, ref, lease, journal, nowMs, onChange } = options;
    this.key = key;
    this.ref = ref;
    this.source = sourceText(ref.source);
    this.startedMs = nowMs;
    this.#journal = journal;
    this.#onChange = onChange;
    this.#lease = lease;
    this.#watch = lease.provider.watch(ref, this);
  }

  get isThere(): boolean {
    return this.held !== undefined && !this.withdrawn;
  }

  /** The current fault of the secret or its source; "": none. */
  get fault(): string {
    return this.#unreachable || this.#rejected;
  }

  get absence(): string {
    if (!this.withdrawn) return "not come";
    return this.#updatedMs > 0 ? "withdrawn" : "not known to its source";
  }

  onSecret(secret: Secret, version: string): void {
    if (this.#closed) return;
    const { ref } = this;
    if (secret.type !== ref.type) {
      return this.onRejected(`Cannot use "${ref.name}": a ${secret.type} came for a ${ref.type}`);
    }
    const old = this.held;
    this.version = version;
    const isOld = old !== undefined && isDeepStrictEqual(old.value, secret);
    // A repeated value only proves that the source is well.
    if (isOld && !this.withdrawn) return this.onRecovered();
    this.#rejected = this.#unreachable = "";
    this.#journal.replaced(this);
    this.withdrawn = false;
    if (!isOld) {
      this.#hold(secret);
      this.#updatedMs = this.#journal.changed(this, old?.value, secret);
    }
    this.#publishValue();
  }

  /** Holds the value of an earlier run until the source's own replaces it. */
  restore(secret: Secret): void {
    // A value that the source has withdrawn is not restored.
    if (this.#closed || this.held || this.withdrawn || secret.type !== this.ref.type) return;
    this.#hold(secret);
    this.#updatedMs = this.#journal.restored(this, secret);
    this.#publishValue();
  }

  onRejected(reason: string): void {
    if (this.#closed || this.fault === reason) return;
    // A source that sends values can be reached.
    this.#unreachable = "";
    this.#rejected = reason;
    this.#journal.rejected(this, reason);
    // The next write may repair a rejected file, so callers wait on. What a server sends is its current
    // secret: they get the fault now.
    const { kind } = this.ref.source;
    if (kind !== "spec" && kind !== "secret_file") this.#answer();
  }

  onRecovered(): void {
    this.#recover("");
  }

  onUnreachable(reason: string): void {
    if (this.#closed || this.fault === reason) return;
    this.#unreachable = reason;
    this.#journal.unreachable(this, reason);
  }

  onReached(): void {
    this.#recover(this.#rejected);
  }

  /** A restored value is not ours any more; a first value is still awaited. */
  onDenied(reason: string): void {
    if (this.held) this.onRemoved(reason);
    this.withdrawn = true;
  }

  /** A withdrawn identity or bundle must not be used; other sources cannot withdraw a secret. */
  onRemoved(reason?: string): void {
    if (this.#closed) return;
    const dropped = this.ref.source.kind === "workload" && this.held !== undefined;
    this.#journal.removed(this, { dropped, ...reason && { reason } });
    this.withdrawn = true;
    this.#unreachable = "";
    this.#rejected = dropped || !this.held ? reason ?? "The source has no such secret" : "";
    if (dropped) {
      this.held = undefined;
      this.version = "";
      this.#onChange();
    }
    this.#answer();
    this.#notify((observer) => observer.onRemoved());
  }

  /** The initial fetch timeout of a listener or upstream has passed. */
  timeOut(): void {
    if (this.timedOut || this.answered) return;
    this.timedOut = true;
    this.#journal.timedOut(this);
  }

  refresh(): void | Promise<void> {
    return this.#watch?.refresh();
  }

  status(): SecretStatus {
    const { key, source, fault, ref: { type, name }, held } = this;
    const status = {
      key,
      type,
      name,
      source,
      state: held ? "active" : this.answered || this.timedOut ? "missing" : "warming",
      version: held ? this.version : "uninitialized",
      updatedMs: this.#updatedMs,
      fault,
    } as const;
    if (held?.value.type !== "certificate") return status;
    const { serial, dnsNames, uris, notBeforeMs, notAfterMs } = held.value;
    return { ...status, certificate: { serial, dnsNames, uris, notBeforeMs, notAfterMs } };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#watch?.close();
    this.#journal.ended(this);
    this.#lease.release();
  }

  #hold(value: Secret): void {
    const { key, source, ref: { name } } = this;
    this.held = { key, name, source, value };
  }

  /** `left`: the fault that remains. */
  #recover(left: string): void {
    const wasWell = this.fault === "";
    this.#unreachable = "";
    this.#rejected = left;
    // A first value is still awaited.
    if (wasWell || left !== "" || this.#closed || !this.held) return;
    this.#journal.recovered(this);
  }

  #publishValue(): void {
    this.answered = true;
    this.#onChange();
    this.#notify((observer) => observer.onValue());
  }

  #notify(call: (observer: OnDemandEvents) => void): void {
    // An observer may remove others.
    for (const observer of [...this.observers]) if (this.observers.has(observer)) call(observer);
  }

  #answer(): void {
    if (this.answered) return;
    this.answered = true;
    this.#onChange();
  }
}
