/**
 * Rules against peers that cause work without progress, with the numbers of Envoy. Rates are counted anew
 * each second, so that a long-lived connection is not taken for a fast one; the time is compared only when
 * a limit is reached.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";

const LIMITS = {
  /** Consecutive frames without content or end. */
  empty: 1,
  /** PING and SETTINGS that need an answer, and unknown frames, in a second. */
  replies: 1_000,
  /** Frames that may still come for a stream that we have reset: informational heads, a head, trailers. */
  latePerReset: 4,
  /** PRIORITY in a second, for each open stream plus one. */
  priorities: 100,
  /** WINDOW_UPDATE in a second: a base, more for each stream, and for each frame of DATA sent. */
  windowUpdates: 5,
  windowUpdatesPerStream: 2,
  windowUpdatesPerData: 20,
  /** RST_STREAM, sent or provoked by the peer: a burst, and the refill for each second. */
  resets: 1_000,
  resetsPerSecond: 33,
  /**
   * A stream younger than `earlyMs` is reset early. Less than half of all streams may be, where at least
   * `earlyStreams` are taken as the number of all.
   */
  earlyMs: 1_000,
  earlyStreams: 500,
} as const;

const SECOND_MS = 1_000;

export class Floods {
  readonly #clock: Clock;
  #empty = 0;
  readonly #replies: Rate;
  readonly #priorities: Rate;
  readonly #windowUpdates: Rate;
  #dataFrames = 0;
  #streams = 0;
  #earlyResets = 0;
  #lateFrames = 0;
  #lateBytes = 0;
  #resetTokens: number = LIMITS.resets;
  #tokensAtMs: number;
  #nowMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#nowMs = this.#tokensAtMs = clock.monotonic();
    this.#replies = new Rate(this.#nowMs);
    this.#priorities = new Rate(this.#nowMs);
    this.#windowUpdates = new Rate(this.#nowMs);
  }

  beginRead(nowMs: number): void {
    this.#nowMs = nowMs;
  }

  sentData(): void {
    this.#dataFrames++;
  }

  opened(): void {
    this.#streams++;
  }

  /** A frame with content came. */
  progress(): void {
    this.#empty = 0;
  }

  /** We reset a stream: `windowBytes` of DATA, and some frames, may be under way. */
  resetByUs(windowBytes: number): void {
    this.#lateFrames += LIMITS.latePerReset;
    this.#lateBytes += windowBytes;
  }

  /** A stream has ended on both sides: one RST_STREAM may be under way (RFC 9113 5.1). */
  ended(): void {
    this.#lateFrames++;
  }

  // Each returns the name of the flood, or "".

  empty(): string {
    return ++this.#empty > LIMITS.empty ? "empty frames" : "";
  }

  reply(): string {
    return this.#replies.exceeds(LIMITS.replies, this.#nowMs) ? "PING and SETTINGS" : "";
  }

  /** A frame came on a closed stream. */
  late(): string {
    if (this.#lateFrames <= 0) return this.reply() && "frames on closed streams";
    this.#lateFrames--;
    return "";
  }

  /** DATA came on a stream that we have reset. */
  lateData(size: number): string {
    this.#lateBytes -= size;
    return this.#lateBytes < 0 ? "DATA on streams that were reset" : "";
  }

  priority(streams: number): string {
    const limit = LIMITS.priorities * (1 + streams);
    return this.#priorities.exceeds(limit, this.#nowMs) ? "PRIORITY" : "";
  }

  windowUpdate(streams: number): string {
    const limit = LIMITS.windowUpdates + LIMITS.windowUpdatesPerStream * streams +
      LIMITS.windowUpdatesPerData * this.#dataFrames;
    return this.#windowUpdates.exceeds(limit, this.#nowMs) ? "WINDOW_UPDATE" : "";
  }

  /** A stream was reset that began at `startedMs`. */
  reset(startedMs: number): string {
    const nowMs = this.#clock.monotonic();
    const refill = (nowMs - this.#tokensAtMs) / SECOND_MS * LIMITS.resetsPerSecond;
    this.#resetTokens = Math.min(LIMITS.resets, this.#resetTokens + refill) - 1;
    this.#tokensAtMs = nowMs;
    if (this.#resetTokens < 0) return "RST_STREAM";
    if (nowMs - startedMs >= LIMITS.earlyMs) return "";
    const least = Math.max(this.#streams, LIMITS.earlyStreams);
    return ++this.#earlyResets * 2 >= least ? "streams that are reset at once" : "";
  }
}

/** Counts events in a second; the second is looked at when the limit is reached. */
class Rate {
  #count = 0;
  #sinceMs: number;

  constructor(nowMs: number) {
    this.#sinceMs = nowMs;
  }

  exceeds(limit: number, nowMs: number): boolean {
    if (++this.#count <= limit) return false;
    if (nowMs - this.#sinceMs < SECOND_MS) return true;
    this.#sinceMs = nowMs;
    this.#count = 0;
    return false;
  }
}
