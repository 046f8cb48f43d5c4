/**
 * Pauses all listeners while the process is short of file descriptors. Accepting on would fail, keep the
 * runtime busy with failing, and leave accepted clients without a connection to go on with; paused, new
 * clients wait in the kernel until others have left.
 *
 * @module
 */

import type { Clock, Timer } from "../base/mod.ts";
import { fdHeadroom } from "./descriptors.ts";
import type { Listener } from "./port.ts";

export interface AcceptGateOptions {
  readonly clock: Clock;
  /** Told when accepting stops and when it goes on, with the descriptors left at that time. */
  readonly onChange: (paused: boolean, headroom: number) => void;
  /** Told that a listener could not go on; it is tried again every two seconds. */
  readonly onLost?: (listener: Listener, error: unknown) => void;
  /** Pause below this many descriptors; default {@link RESERVE}, less where the limit is small. */
  readonly reserve?: number;
  /** Threads that each have a gate of their own in this process. */
  readonly workers?: number;
  readonly headroom?: () => number;
}

/** Left for dials of connections that were accepted already, the agent, logs and certificates. */
export const RESERVE = 64;
/** What one accepted connection takes: itself and its way on. */
const PER_CONNECTION = 2;
const PERIOD_MS = 2_000;
const PAUSED_PERIOD_MS = 100;

export class AcceptGate {
  readonly #options: AcceptGateOptions;
  readonly #headroom: () => number;
  readonly #reserve: number;
  readonly #listeners = new Set<Listener>();
  /** Those that did not resume: somebody took their address while they were paused. */
  readonly #lost = new Set<Listener>();
  #timer: Timer | undefined;
  #paused = false;
  /** Connections that may come before the next look. */
  #left = 0;

  constructor(options: AcceptGateOptions) {
    this.#options = options;
    this.#headroom = options.headroom ?? fdHeadroom;
    this.#reserve = options.reserve ?? Math.min(RESERVE, Math.floor(this.#headroom() / 4));
    this.check();
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** From now on paused and resumed with the others. */
  add(listener: Listener): void {
    this.#listeners.add(listener);
    if (this.#paused) listener.pause();
  }

  /** Before it is closed, so that it is not resumed afterwards. */
  remove(listener: Listener): void {
    this.#listeners.delete(listener);
    this.#lost.delete(listener);
  }

  /**
   * To be called for each connection that a listener gave: one comparison, and rarely a look. False: it
   * came with others after accepting had stopped, and must be reset.
   */
  opened(): boolean {
    if (--this.#left < 0) this.check();
    return !this.#paused;
  }

  /** Looks now; also every two seconds, for what else opens files. */
  check(): void {
    const headroom = this.#headroom();
    // Resuming at the same mark would pause again with the next client.
    const short = headroom < (this.#paused ? 2 * this.#reserve : this.#reserve);
    const share = PER_CONNECTION * (this.#options.workers ?? 1);
    this.#left = short ? 0 : Math.floor((headroom - this.#reserve) / share);
    if (short !== this.#paused) this.#change(short, headroom);
    else if (!short) { for (const listener of this.#lost) this.#resume(listener); }
    this.#timer?.cancel();
    const periodMs = this.#paused ? PAUSED_PERIOD_MS : PERIOD_MS;
    this.#timer = this.#options.clock.after(periodMs, () => this.check());
  }

  /** Lets go of all listeners as they are. */
  close(): void {
    this.#timer?.cancel();
    this.#left = Infinity;
    this.#listeners.clear();
  }

  #change(paused: boolean, headroom: number): void {
    this.#paused = paused;
    for (const listener of this.#listeners) {
      if (paused) listener.pause();
      else this.#resume(listener);
    }
    this.#options.onChange(paused, headroom);
  }

  #resume(listener: Listener): void {
    try {
      listener.resume();
      this.#lost.delete(listener);
    } catch (error) {
      this.#lost.add(listener);
      this.#options.onLost?.(listener, error);
    }
  }
}
