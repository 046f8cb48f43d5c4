/**
 * A clock that runs by itself and leaves out the pauses in which this process got no processor: after
 * one of them a timer does not fire before the pending events were delivered. For tests with real files
 * and sockets whose limits must be short.
 *
 * @example
 * using clock = new SteadyClock();
 * new GrpcChannel({ clock, ... }); // the limits of which now mean time that the machine really gave
 *
 * @module
 */

import { clearInterval, clearTimeout, setInterval, setTimeout } from "node:timers";
import type { Clock, Timer } from "../../../src/base/mod.ts";

const TICK_MS = 5;
/** So much of the time between two looks counts, however long it was. */
const STEP_MS = 10;

export class SteadyClock implements Clock, Disposable {
  readonly #ticker = setInterval(() => this.#look(), TICK_MS);
  #seenMs = performance.now();
  #steadyMs = 0;
  #held = 0;

  now(): number {
    return Date.now();
  }

  monotonic(): number {
    return this.#look();
  }

  after(delayMs: number, fn: () => void): Timer {
    const dueMs = this.#look() + delayMs;
    const wait = () => {
      const leftMs = Math.min(Math.max(dueMs - this.#look(), 1), 2 ** 30);
      return setTimeout(() => {
        if (this.#look() >= dueMs) fn();
        else timer = wait();
      }, leftMs);
    };
    let timer = wait();
    return { cancel: () => clearTimeout(timer) };
  }

  /**
   * Time does not pass while `act` runs: as fast as files can be written on a machine without load.
   */
  async still<T>(act: () => Promise<T>): Promise<T> {
    this.#look();
    this.#held++;
    try {
      return await act();
    } finally {
      this.#look();
      this.#held--;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#ticker);
  }

  #look(): number {
    const nowMs = performance.now();
    if (this.#held === 0) this.#steadyMs += Math.min(nowMs - this.#seenMs, STEP_MS);
    this.#seenMs = nowMs;
    return this.#steadyMs;
  }
}
