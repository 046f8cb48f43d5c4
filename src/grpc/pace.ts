/**
 * The rate of messages on one call: a burst, then a number per second, and never more than a third of our
 * time.
 *
 * @module
 */

import type { Clock } from "../base/mod.ts";
import type { GrpcLimits } from "./types.ts";

const REST_SHARE = 2;
const REST_LIMIT_MS = 250;

export class Pace {
  readonly #clock: Clock;
  readonly #limits: GrpcLimits;
  #tokens: number;
  #refilledMs: number;
  #heldBackSinceMs: number | undefined;

  constructor(clock: Clock, limits: GrpcLimits) {
    this.#clock = clock;
    this.#limits = limits;
    this.#tokens = limits.messageBurst;
    this.#refilledMs = clock.monotonic();
  }

  /** A message that began at `begunMs` was handled: how long the next one has to wait. */
  waitMs(begunMs: number): number | "flood" {
    const { messageBurst, messagesPerSecond, floodMs } = this.#limits;
    const nowMs = this.#clock.monotonic();
    const refill = (nowMs - this.#refilledMs) * messagesPerSecond / 1000;
    this.#tokens = Math.min(messageBurst, this.#tokens + refill) - 1;
    this.#refilledMs = nowMs;
    // Half full again: that was a burst, and it is over.
    if (this.#tokens > messageBurst / 2) this.#heldBackSinceMs = undefined;
    const restMs = restAfter(nowMs - begunMs);
    if (this.#tokens >= 0) return restMs;
    this.#heldBackSinceMs ??= nowMs;
    if (nowMs - this.#heldBackSinceMs > floodMs) return "flood";
    return Math.max(restMs, -this.#tokens * 1000 / messagesPerSecond);
  }
}

function restAfter(spentMs: number): number {
  return spentMs < 1 ? 0 : Math.min(REST_LIMIT_MS, spentMs * REST_SHARE);
}
