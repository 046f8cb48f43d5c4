/**
 * One reference: each message is turned into its secret, checked, and told. What the agent takes back is
 * kept for a moment, in case a new answer takes its place.
 *
 * @module
 */

import { type Clock, messageOf, type Timer } from "../../base/mod.ts";
import type { SecretEvents } from "../secret_provider.ts";
import type { Secret } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";

/** What a message says about one reference. */
export type SvidReading =
  /** `another`: not the one in use, which it has no more. */
  | {
    readonly kind: "there" | "another";
    /** Throws `credentials_invalid` where it cannot be used. */
    readonly spec: () => SecretSpec;
  }
  /** Continues "Cannot use ...: ". */
  | { readonly kind: "absent"; readonly fact: string };

export type ReadMessage<M> = (message: M) => SvidReading;

export interface SvidFollowerOptions {
  readonly events: SecretEvents;
  /** How messages name it: `"web"`. */
  readonly name: string;
  /** Decodes and checks; throws `credentials_invalid`. */
  readonly load: (spec: SecretSpec) => Promise<Secret>;
  /** It is in use from now on. */
  readonly onTaken: (secret: Secret) => void;
  readonly clock: Clock;
  /** What was taken back stays for this long, in case a new answer takes its place. */
  readonly graceMs: number;
}

type Found =
  | { readonly kind: "secret"; readonly secret: Secret; readonly isAnother: boolean }
  | { readonly kind: "fault"; readonly reason: string; readonly isAnother: boolean }
  | { readonly kind: "absent"; readonly reason: string };

export class SvidFollower {
  readonly #options: SvidFollowerOptions;
  /** What is read next: only the newest message counts. */
  #next: (() => SvidReading) | undefined;
  #working = false;
  /** Changes where what is being read must not count any more. */
  #epoch = 0;
  #closed = false;
  #state: "unknown" | "there" | "absent" = "unknown";
  /** Told last, and not taken back. */
  #told: Secret | undefined;
  #grace: Timer | undefined;
  /** What ends the grace. */
  #afterGrace = () => {};
  /** What the grace is or was given to, so that one who takes and gives the same has no second one. */
  #graced: { readonly certPem: string; readonly endsMs: number } | undefined;

  constructor(options: SvidFollowerOptions) {
    this.#options = options;
  }

  /** In use though it was taken back: a new answer is wanted soon. */
  get isInGrace(): boolean {
    return this.#grace !== undefined;
  }

  /** A new full state, from whichever method. */
  deliver(read: () => SvidReading): void {
    this.#next = read;
    if (this.#working || this.#closed) return;
    this.#working = true;
    void this.#work();
  }

  get events(): SecretEvents {
    return this.#options.events;
  }

  /** The agent says that nothing is ours any more. What never was there is still waited for. */
  withdraw(reason: string): void {
    this.#epoch++;
    this.#next = undefined;
    if (this.#state === "there") this.#takeBack(() => this.#remove(reason));
    else this.events.onDenied(reason);
  }

  close(): void {
    this.#closed = true;
    this.#endGrace();
    this.#epoch++;
    this.#next = undefined;
  }

  async #work(): Promise<void> {
    // Subscribers hear nothing before `watch` has returned.
    await Promise.resolve();
    for (let read = this.#next; read; read = this.#next) {
      this.#next = undefined;
      const epoch = this.#epoch;
      const found = await this.#find(read);
      if (this.#epoch !== epoch) continue;
      this.#take(found);
    }
    this.#working = false;
  }

  async #find(read: () => SvidReading): Promise<Found> {
    const { name, load } = this.#options;
    const reading = read();
    if (reading.kind === "absent") {
      return { kind: "absent", reason: `Cannot use ${name}: ${reading.fact}` };
    }
    const isAnother = reading.kind === "another";
    try {
      return { kind: "secret", secret: await load(reading.spec()), isAnother };
    } catch (error) {
      return { kind: "fault", reason: `Cannot use ${name}: ${messageOf(error)}`, isAnother };
    }
  }

  #take(found: Found): void {
    const isThere = this.#state === "there";
    switch (found.kind) {
      case "secret":
        if (!found.isAnother || !isThere) return this.#accept(found.secret);
        return this.#takeBack(() => this.#accept(found.secret));
      case "fault":
        this.events.onRejected(found.reason);
        if (found.isAnother && isThere) this.#takeBack(() => this.#remove(found.reason));
        return;
      case "absent":
        if (isThere) this.#takeBack(() => this.#remove(found.reason));
        else if (this.#state === "unknown") this.#remove(found.reason);
    }
  }

  #accept(secret: Secret): void {
    this.#endGrace();
    this.#state = "there";
    this.#told = secret;
    this.#options.onTaken(secret);
    this.events.onSecret(secret, "");
  }

  /** `then`: what becomes of it if nothing else comes. */
  #takeBack(then: () => void): void {
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
    const told = this.#told;
    // Bundles stay the same when an entry is replaced; and nobody is anybody by a bundle.
    if (told?.type !== "certificate") return endsMs;
    const { certPem, notAfterMs } = told;
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
    this.#told = undefined;
    this.events.onRemoved(reason);
  }
}
