/**
 * One reference and what became of it: each message is turned into its secret, checked, and told where
 * it differs. The last good one stays whatever comes, unless the agent takes it back.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import type { SecretEvents } from "../provider.ts";
import type { Secret } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";

/** What a message says about one reference. */
export type Reading =
  | { readonly kind: "there"; readonly spec: SecretSpec }
  | { readonly kind: "absent" };

/** Throws `credentials_invalid` where the message has it and it cannot be used. */
export type ReadMessage<M> = (message: M) => Reading;

export interface FollowerOptions {
  readonly events: SecretEvents;
  /** How messages name it: `"web"`. */
  readonly name: string;
  /** Decodes and checks; throws `credentials_invalid`. */
  readonly load: (spec: SecretSpec) => Promise<Secret>;
}

export class Follower {
  readonly #options: FollowerOptions;
  /** What is read next: only the newest message counts. */
  #next: (() => Reading) | undefined;
  #working = false;
  /** Changes where what is being read must not count any more. */
  #epoch = 0;
  #closed = false;
  #state: "unknown" | "there" | "absent" = "unknown";
  #told: Secret | undefined;
  /** Told of last, and not mended since. */
  #fault = "";

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  /** A new full state, from whichever method. */
  deliver(read: () => Reading): void {
    this.#next = read;
    if (this.#working || this.#closed) return;
    this.#working = true;
    void this.#work();
  }

  /** The message itself could not be read. */
  reject(reason: string): void {
    if (this.#closed || this.#fault === reason) return;
    this.#fault = reason;
    this.#options.events.onRejected(reason);
  }

  unreachable(reason: string): void {
    if (this.#closed || this.#fault === reason) return;
    this.#fault = reason;
    this.#options.events.onUnreachable(reason);
  }

  /** The agent says that nothing is ours any more. What never was there is still waited for. */
  withdraw(): void {
    this.#epoch++;
    this.#next = undefined;
    if (this.#state === "there") this.#remove();
  }

  close(): void {
    this.#closed = true;
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
      if (found.kind === "secret") this.#accept(found.secret);
      else if (found.kind === "fault") this.reject(found.reason);
      else if (this.#state !== "absent") this.#remove();
    }
    this.#working = false;
  }

  async #find(read: () => Reading): Promise<
    | { readonly kind: "secret"; readonly secret: Secret }
    | { readonly kind: "fault"; readonly reason: string }
    | { readonly kind: "absent" }
  > {
    const { name, load } = this.#options;
    try {
      const reading = read();
      if (reading.kind === "absent") return reading;
      return { kind: "secret", secret: await load(reading.spec) };
    } catch (error) {
      return { kind: "fault", reason: `Cannot use ${name}: ${messageOf(error)}` };
    }
  }

  #accept(secret: Secret): void {
    const same = this.#told !== undefined && JSON.stringify(this.#told) === JSON.stringify(secret);
    const mended = this.#fault !== "";
    this.#fault = "";
    this.#state = "there";
    this.#told = secret;
    // The same again is told where it ends a fault.
    if (!same || mended) this.#options.events.onSecret(secret, "");
  }

  #remove(): void {
    this.#state = "absent";
    this.#told = undefined;
    this.#fault = "";
    this.#options.events.onRemoved();
  }
}
