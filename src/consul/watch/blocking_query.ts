/**
 * The loop behind every watch: read, wait for a change, deliver new content, and retry after a failure.
 * It deals with everything that a long poll can do wrong, together with `cursors.ts`:
 *
 * - the first read has no index, and so has the first one after a broken connection: an index that is too
 *   high (a restarted or replaced agent) would block for the whole wait;
 * - an index that goes back starts again without one;
 * - an answer of a server that has seen less than we have is not believed;
 * - answers are compared by content, since index and hash change without a change;
 * - a poll that does not return within its wait is given up;
 * - an index that moves all the time is read at a limited rate, so that changes are joined;
 * - 403 and 404 keep the last value and the loop goes on: rights and registrations come back.
 *
 * @module
 */

import { Backoff, type ErrorCode, ProxyError } from "../../base/mod.ts";
import { AskAgain } from "../http/carrier.ts";
import type { CommonDeps, WatchHandle, WatchSink, WatchState } from "../model/consul.ts";
import type { ConnectionBudget } from "./budget.ts";
import type { ConsulReach } from "./consul_reach.ts";
import type { WatchCursor } from "./cursors.ts";
import { Delivery, toProxyError } from "./delivery.ts";
import { TokenBucket, wakeableSleep } from "./pauses.ts";
import type { PollSlot, PollTurn } from "./poll_slot.ts";
import type { WatchTerms } from "./watch_terms.ts";

/** A short poll is answered at once, changed or not. */
const NO_WAIT_MS = 1;
const LONG_MARGIN_MS = 10_000;
/** A read without index may have to wait for a leader. */
const READ_TIMEOUT_MS = 30_000;
/**
 * Changes that come faster than this for long are joined into one answer. A restart of one instance is
 * several changes, and the proxy must not dial an instance that has gone.
 */
const JOIN_MS = 250;
const JOIN_RARE_MS = 1_000;
const JOIN_BURST = 10;
const PAUSE_LIMIT_MS = 180_000;
/** Watches that are woken together come back within this time. */
const WAKE_SPREAD_MS = 500;

/** One request of a watch, with its position in time. */
export interface PollRequest<T> {
  /** `X-Consul-Index` or content hash of the last answer; absent: answer at once. */
  readonly cursor?: string;
  /** Any server may answer from its own state; absent: as the client is set. */
  readonly stale?: true;
  /** Sent as `wait` along with a cursor. */
  readonly waitMs: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The last value that was believed, and the digest of its bytes. */
  readonly last?: { readonly value: T; readonly digest?: string };
}

export interface PollAnswer<T> {
  readonly value: T;
  /** Absent: the answer cannot be waited on; the next question goes without. */
  readonly cursor?: string;
  /** Digest of its bytes; absent: the bytes alone do not determine the value. */
  readonly digest?: string;
}

export interface PollQuestion<T> {
  /** `leaf web`: for people. */
  readonly name: string;
  /** Label of counters: `leaf`. */
  readonly resource: string;
  /** The watch is about trust or the registration, and always has a long poll. */
  readonly isCritical?: true;
  /** The agent ends the wait with its connection; such watches get a long poll before others. */
  readonly isDropped?: true;
  /** The value changes rarely, and no request waits for it, so other watches get a long poll first. */
  readonly isRare?: true;
  /** An index counts up; a hash is only equal or not. Absent: `index`. */
  readonly cursor?: "hash";
  /**
   * Whether something of `before` is missing in `after`. Only the leader is believed that. Absent: nothing
   * in it can go missing.
   */
  lacks?(after: T, before: T): boolean;
  poll(request: PollRequest<T>): Promise<PollAnswer<T>>;
}

export interface LoopDeps extends CommonDeps {
  readonly budget: ConnectionBudget;
  readonly reach: ConsulReach;
  readonly terms: WatchTerms;
}

interface WatchOptions<T> {
  readonly sink: WatchSink<T>;
  readonly deps: LoopDeps;
}

/** Starts the loop; it runs until the handle is stopped. */
export function startWatch<T>(question: PollQuestion<T>, options: WatchOptions<T>): WatchHandle {
  const loop = new WatchLoop(question, options);
  void loop.run();
  return loop;
}

class WatchLoop<T> implements WatchHandle {
  readonly #question: PollQuestion<T>;
  readonly #deps: LoopDeps;
  readonly #slot: PollSlot;
  readonly #stop = new AbortController();
  readonly #waitMs: number;
  readonly #bucket: TokenBucket;
  readonly #backoff: Backoff;
  readonly #delivery: Delivery<T>;
  readonly #cursor: WatchCursor;
  #digest: string | undefined;
  /** Code of the last failure, until a success. */
  #lastCode: ErrorCode | undefined;
  /** Successes since the last failure; two in a row end the backoff. */
  #streak = 0;

  constructor(question: PollQuestion<T>, options: WatchOptions<T>) {
    const { clock, random, budget, terms } = options.deps;
    this.#question = question;
    this.#deps = options.deps;
    this.#delivery = new Delivery(question, { ...options, signal: this.#stop.signal });
    const { isCritical, isDropped, isRare } = question;
    this.#slot = budget.join(
      isCritical ? "critical" : isDropped ? "first" : isRare ? "last" : "middle",
    );
    // Each watch waits a little less than the maximum, so that watches do not wake in step.
    this.#waitMs = Math.round(terms.waitMs(question) * (0.8 + 0.2 * random()));
    const refillMs = question.isRare ? JOIN_RARE_MS : JOIN_MS;
    this.#bucket = new TokenBucket({ burst: JOIN_BURST, refillMs, clock });
    this.#backoff = new Backoff({ baseMs: 1_000, maxMs: PAUSE_LIMIT_MS, random });
    this.#cursor = terms.createCursor(question.cursor ?? "index");
  }

  get state(): WatchState {
    return this.#delivery.stateWith(this.#slot.mode);
  }

  stop(): void {
    this.#stop.abort();
    this.#slot.leave();
  }

  touch(): void {
    this.#slot.touch();
  }

  async run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#round();
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        if (error instanceof AskAgain) {
          await this.#sleep(this.#bucket.take());
          continue;
        }
        // Only the end of the client aborts a request that its watch did not stop.
        if (error instanceof ProxyError && error.code === "closed") return;
        await this.#failed(toProxyError(error));
      }
    }
  }

  async #round(): Promise<void> {
    const turn = await this.#slot.turn();
    try {
      await this.#ask(turn);
    } catch (error) {
      // A long poll that was ended in favour of another watch is no failure.
      if (turn.signal.aborted) return;
      throw error;
    } finally {
      turn.release();
    }
    // Short turns are paced by the budget.
    if (turn.mode === "long") await this.#sleep(this.#bucket.take());
  }

  /** Asks until an answer is believed, or there is none to be had. */
  async #ask(turn: PollTurn): Promise<void> {
    let failure: unknown;
    for (;;) {
      const answer = await this.#poll(turn).catch((error: unknown) => {
        if (turn.signal.aborted || toProxyError(error).code === "closed") throw error;
        if (!this.#cursor.failed(toProxyError(error).code)) throw error;
        failure = error;
      });
      if (this.#stop.signal.aborted) return;
      if (!answer) continue;
      const { value, cursor, digest } = answer;
      const { last } = this.#delivery;
      const lacks = last !== undefined && this.#question.lacks?.(value, last.value) === true;
      if (this.#cursor.answered({ cursor, lacks })) {
        this.#digest = digest;
        return this.#succeeded(value);
      }
      if (failure !== undefined) throw failure;
    }
  }

  #poll(turn: PollTurn): Promise<PollAnswer<T>> {
    const read = this.#cursor.next();
    const { last } = this.#delivery;
    const digest = this.#digest;
    const waitMs = turn.mode === "long" ? this.#waitMs : NO_WAIT_MS;
    const timeoutMs = read.cursor === undefined || turn.mode === "short"
      ? READ_TIMEOUT_MS
      // Consul adds up to a sixteenth of the wait.
      : Math.ceil(waitMs * 17 / 16) + LONG_MARGIN_MS;
    return this.#question.poll({
      ...read,
      ...(last && { last: digest === undefined ? last : { ...last, digest } }),
      waitMs,
      timeoutMs,
      signal: turn.signal,
    });
  }

  #succeeded(value: T): void {
    const { reach, terms } = this.#deps;
    if (this.#lastCode && terms.isShared(this.#lastCode)) reach.restored();
    this.#lastCode = undefined;
    if (++this.#streak >= 2) this.#backoff.reset();
    this.#delivery.succeeded(value);
  }

  async #failed(error: ProxyError): Promise<void> {
    const { reach, random, terms } = this.#deps;
    this.#streak = 0;
    // A refusal shows that Consul is back: the pauses start again.
    if (this.#lastCode === "agent_unreachable" && error.code !== this.#lastCode) {
      this.#backoff.reset();
    }
    this.#lastCode = error.code;
    if (error.code === "agent_unreachable") reach.lost();
    const limitMs = terms.pauseLimitMs(error.code, {
      isCritical: this.#question.isCritical === true,
      failures: this.#delivery.failures,
    });
    const pauseMs = Math.min(this.#backoff.next(), limitMs * (0.75 + 0.25 * random()));
    this.#delivery.failed(error, { retry_ms: Math.round(pauseMs) });
    const isShared = terms.isShared(error.code);
    // Another token may have the right, and another server the entry.
    await this.#sleep(pauseMs, (wake) => reach.on(isShared ? "restored" : "moved", wake));
  }

  async #sleep(ms: number, onWake?: (wake: () => void) => () => void): Promise<void> {
    if (ms <= 0) return;
    const { clock, random } = this.#deps;
    const signal = this.#stop.signal;
    const woken = await wakeableSleep(clock, ms, { signal, ...(onWake ? { onWake } : {}) });
    if (woken) await wakeableSleep(clock, random() * WAKE_SPREAD_MS, { signal });
  }
}
