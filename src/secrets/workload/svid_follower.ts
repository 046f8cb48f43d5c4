/**
 * Follows one reference at a Workload API: turns each message into its secret, checks and reports it. A
 * withdrawn secret is kept for a moment, in case a new answer replaces it.
 *
 * @module
 */

import { type Clock, messageOf, type Timer } from "../../base/mod.ts";
import type { Secret, SecretSpec } from "../model/secret.ts";
import type { SecretEvents } from "../model/plan.ts";

/** The part of a message for one reference. */
export type SvidReading =
  /** `another`: the message has not the identity in use, but another one. */
  | {
    readonly kind: "there" | "another";
    /** Throws `credentials_invalid` if it cannot be used. */
    readonly spec: () => SecretSpec;
  }
  /** Continues "Cannot use ...: ". */
  | { readonly kind: "absent"; readonly fact: string };

export type ReadMessage<M> = (message: M) => SvidReading;

export interface SvidFollowerOptions {
  readonly events: SecretEvents;
  /** The reference in messages: `"web"`. */
  readonly name: string;
  /** Decodes and checks; throws `credentials_invalid`. */
  readonly load: (spec: SecretSpec) => Promise<Secret>;
  /** The secret is in use from now on. */
  readonly onAccepted: (secret: Secret) => void;
  readonly clock: Clock;
  /** How long a withdrawn secret stays in use. */
  readonly graceMs: number;
}

export class SvidFollower {
  readonly #options: SvidFollowerOptions;
  /** The newest message that is not read yet. */
  #next: (() => SvidReading) | undefined;
  #working = false;
  /** Changes when a running load must not count any more. */
  #epoch = 0;
  #closed = false;
  #state: "unknown" | "there" | "absent" = "unknown";
  /** The last reported secret, unless it was removed. */
  #current: Secret | undefined;
  #grace: Timer | undefined;
  /** Called at the end of the grace. */
  #afterGrace = () => {};
  /** The last grace of a certificate: an agent that withdraws and gives the same one gets no second grace. */
  #graced: { readonly certPem: string; readonly endsMs: number } | undefined;

  constructor(options: SvidFollowerOptions) {
    this.#options = options;
  }

  /** A withdrawn secret is in use: a new answer is wanted soon. */
  get isInGrace(): boolean {
    return this.#grace !== undefined;
  }

  get events(): SecretEvents {
    return this.#options.events;
  }

  /** A new full state, from either method. */
  deliver(read: () => SvidReading): void {
    this.#next = read;
    if (this.#working || this.#closed) return;
    this.#working = true;
    void this.#work();
  }

  /** The agent denies us every secret. A first value is still awaited. */
  withdraw(reason: string): void {
    this.#epoch++;
    this.#next = undefined;
    if (this.#state === "there") this.#keepThen(() => this.#remove(reason));
    else this.events.onDenied(reason);
  }

  close(): void {
    this.#closed = true;
    this.#endGrace();
    this.#epoch++;
    this.#next = undefined;
  }

  async #work(): Promise<void> {
    // No event before `watch` has returned.
    await Promise.resolve();
    for (let read = this.#next; read; read = this.#next) {
      this.#next = undefined;
      await this.#take(read());
    }
    this.#working = false;
  }

  async #take(reading: SvidReading): Promise<void> {
    const { name, load } = this.#options;
    if (reading.kind === "absent") {
      const reason = `Cannot use ${name}: ${reading.fact}`;
      if (this.#state === "there") this.#keepThen(() => this.#remove(reason));
      else if (this.#state === "unknown") this.#remove(reason);
      return;
    }
    const epoch = this.#epoch;
    const isAnother = reading.kind === "another";
    let secret: Secret;
    try {
      secret = await load(reading.spec());
    } catch (error) {
      if (this.#epoch !== epoch) return;
      const reason = `Cannot use ${name}: ${messageOf(error)}`;
      this.events.onRejected(reason);
      if (isAnother && this.#state === "there") this.#keepThen(() => this.#remove(reason));
      return;
    }
    if (this.#epoch !== epoch) return;
    if (isAnother && this.#state === "there") this.#keepThen(() => this.#accept(secret));
    else this.#accept(secret);
  }

  #accept(secret: Secret): void {
    this.#endGrace();
    this.#state = "there";
    this.#current = secret;
    this.#options.onAccepted(secret);
    this.events.onSecret(secret, "");
  }

  /** Keeps the current secret for the grace; `then` is called unless another answer comes before. */
  #keepThen(then: () => void): void {
    this.#afterGrace = then;
    if (this.#grace) return;
    const { clock } = this.#options;
    const leftMs = this.#graceEndsMs() - clock.monotonic();
    if (leftMs <= 0) return then();
    this.#grace = clock.after(leftMs, () => this.#afterGrace());
  }

  #graceEndsMs(): number {
    const { clock, graceMs } = this.#options;
    const endsMs = clock.monotonic() + graceMs;
    const current = this.#current;
    // A bundle stays the same when an entry is replaced, and proves no identity of ours.
    if (current?.type !== "certificate") return endsMs;
    const { certPem, notAfterMs } = current;
    if (this.#graced?.certPem !== certPem) this.#graced = { certPem, endsMs };
    return Math.min(this.#graced.endsMs, clock.monotonic() + notAfterMs - clock.now());
  }

  #endGrace(): void {
    this.#grace?.cancel();
    this.#grace = undefined;
  }

  #remove(reason: string): void {
    this.#endGrace();
    this.#state = "absent";
    this.#current = undefined;
    this.events.onRemoved(reason);
  }
}
