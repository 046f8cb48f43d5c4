/**
 * The one loop behind every watch: ask, wait for a change, deliver what is new, and after a failure
 * come back. All the ways in which a long poll can mislead are dealt with here and in `stand.ts`:
 *
 * - the first read has no index, and so has the first one after any broken connection: an index that
 *   is too high (a restarted or replaced agent) would block for the whole wait;
 * - an index that goes back starts again without;
 * - what a server says that has seen less than we have is not believed;
 * - an answer is compared by content, since index and hash change without a change;
 * - a poll that does not return within its wait is given up;
 * - an index that moves all the time is asked at a limited rate, so that changes are joined;
 * - 403 and 404 keep the last value and go on: rights and registrations come back.
 *
 * @module
 */

import {
  Backoff,
  type Clock,
  type ErrorCode,
  type Log,
  ProxyError,
  type Random,
  type Stats,
} from "../../base/mod.ts";
import type { WatchHandle, WatchSink, WatchState } from "../agent.ts";
import type { ConnectionBudget } from "./budget.ts";
import { Delivery, toProxyError } from "./delivery.ts";
import { AskAgain } from "../http/carrier.ts";
import type { AgentLink } from "../http/link.ts";
import type { WatchTerms } from "./watch_terms.ts";
import type { PollSlot, PollTurn } from "./poll_slot.ts";
import type { WatchCursor } from "./watch_cursor.ts";
import { TokenBucket } from "./token_bucket.ts";
import { wakeableSleep } from "./wakeable_sleep.ts";

/** A short poll asks to be answered at once, changed or not. */
const NO_WAIT_MS = 1;
const LONG_MARGIN_MS = 10_000;
/** A read without index may have to wait for a leader. */
const READ_TIMEOUT_MS = 30_000;
/**
 * Changes that come faster than this for long are joined into one answer. A restart of an instance alone
 * is several changes, and whoever follows them must not dial one that has gone.
 */
const JOIN_MS = 250;
const JOIN_RARE_MS = 1_000;
/** No pause is longer. */
const PAUSE_LIMIT_MS = 180_000;

/** One question and its place in time. */
export interface PollRequest<T> {
  /** `X-Consul-Index` or content hash of the last answer; absent: answer at once. */
  readonly cursor?: string;
  /** Any server may answer from what it has; absent: as the client is set. */
  readonly stale?: true;
  /** To be sent as `wait` along with a cursor. */
  readonly waitMs: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** What was believed last, and the digest of its bytes. */
  readonly last?: { readonly value: T; readonly digest?: string };
}

export interface PollAnswer<T> {
  readonly value: T;
  /** Absent: the answer cannot be waited on, ask again without. */
  readonly cursor?: string;
  /** Of its bytes; absent: they do not tell what the value is. */
  readonly digest?: string;
}

export interface PollQuestion<T> {
  /** `leaf web`: for people. */
  readonly name: string;
  /** Label of counters: `leaf`. */
  readonly resource: string;
  readonly critical: boolean;
  /** The agent ends the wait when we go; also worth a long poll before those that it does not. */
  readonly dropped: boolean;
  /** It changes once in a while, and nothing of a request waits for it: others get a long poll first. */
  readonly isRare?: boolean;
  /** An index counts up; a hash is only equal or not. */
  readonly cursor: "index" | "hash";
  /**
   * Is something of `before` not in `after` any more? Only the leader is believed that. Absent: nothing
   * in it can go missing.
   */
  lacks?(after: T, before: T): boolean;
  poll(request: PollRequest<T>): Promise<PollAnswer<T>>;
}

export interface LoopDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  readonly budget: ConnectionBudget;
  readonly link: AgentLink;
  readonly footing: WatchTerms;
}

/** Starts the loop; it runs until the handle is stopped. */
export function startWatch<T>(
  question: PollQuestion<T>,
  options: { readonly sink: WatchSink<T>; readonly deps: LoopDeps },
): WatchHandle {
  const loop = new WatchLoop(question, options);
  void loop.run();
  return loop;
}

class WatchLoop<T> implements WatchHandle {
  readonly #question: PollQuestion<T>;
  readonly #deps: LoopDeps;
  readonly #seat: PollSlot;
  readonly #stop = new AbortController();
  readonly #waitMs: number;
  readonly #bucket: TokenBucket;
  readonly #backoff: Backoff;
  readonly #delivery: Delivery<T>;
  readonly #stand: WatchCursor;
  /** Of the bytes of what was believed last. */
  #digest: string | undefined;
  /** Of the last failure, until a success. */
  #lastCode: ErrorCode | undefined;
  /** Successes since the last failure; two in a row end the backoff. */
  #streak = 0;

  constructor(
    question: PollQuestion<T>,
    options: { readonly sink: WatchSink<T>; readonly deps: LoopDeps },
  ) {
    const { clock, random, budget, footing } = options.deps;
    this.#question = question;
    this.#deps = options.deps;
    this.#delivery = new Delivery(question, { ...options, signal: this.#stop.signal });
    this.#seat = question.critical
      ? budget.joinCritical()
      : budget.join(question.dropped ? "first" : question.isRare ? "last" : "middle");
    // Each asks for a little less, so that they do not wake in step.
    this.#waitMs = Math.round(footing.waitMs(question) * (0.8 + 0.2 * random()));
    const refillMs = question.isRare ? JOIN_RARE_MS : JOIN_MS;
    this.#bucket = new TokenBucket({ burst: 10, refillMs, clock });
    this.#backoff = new Backoff({ baseMs: 1_000, maxMs: PAUSE_LIMIT_MS, random });
    this.#stand = footing.createStand(question.cursor);
  }

  get state(): WatchState {
    return this.#delivery.stateWith(this.#seat.mode);
  }

  stop(): void {
    this.#stop.abort();
    this.#seat.leave();
  }

  touch(): void {
    this.#seat.touch();
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
        // Nobody aborts but the one who stops everything.
        if (error instanceof ProxyError && error.code === "closed") return;
        await this.#failed(toProxyError(error));
      }
    }
  }

  async #round(): Promise<void> {
    const turn = await this.#seat.turn();
    try {
      await this.#ask(turn);
    } catch (error) {
      // A long poll that was ended for another watch: not a failure.
      if (turn.signal.aborted) return;
      throw error;
    } finally {
      turn.release();
    }
    // Short turns are paced by the budget.
    if (turn.mode === "long") await this.#sleep(this.#bucket.take());
  }

  /** Until an answer is believed, or there is none to be had. */
  async #ask(turn: PollTurn): Promise<void> {
    let failure: unknown;
    for (;;) {
      const answer = await this.#poll(turn).catch((error: unknown) => {
        if (turn.signal.aborted || toProxyError(error).code === "closed") throw error;
        if (!this.#stand.failed(toProxyError(error).code)) throw error;
        failure = error;
      });
      if (this.#stop.signal.aborted) return;
      if (!answer) continue;
      const { value, cursor, digest } = answer;
      if (this.#stand.answered({ cursor, lacks: this.#lacks(value) })) {
        this.#digest = digest;
        return this.#succeeded(value);
      }
      if (failure !== undefined) throw failure;
    }
  }

  #poll(turn: PollTurn): Promise<PollAnswer<T>> {
    const ask = this.#stand.ask();
    const waitMs = turn.mode === "long" ? this.#waitMs : NO_WAIT_MS;
    const timeoutMs = ask.cursor === undefined || turn.mode === "short"
      ? READ_TIMEOUT_MS
      // The agent adds up to a sixteenth of the wait.
      : Math.ceil(waitMs * 17 / 16) + LONG_MARGIN_MS;
    return this.#question.poll({
      ...ask,
      ...(this.#delivery.last && { last: this.#last(this.#delivery.last.value) }),
      waitMs,
      timeoutMs,
      signal: turn.signal,
    });
  }

  #last(value: T): NonNullable<PollRequest<T>["last"]> {
    return this.#digest === undefined ? { value } : { value, digest: this.#digest };
  }

  #lacks(value: T): boolean {
    const before = this.#delivery.last;
    return before !== undefined && this.#question.lacks?.(value, before.value) === true;
  }

  #succeeded(value: T): void {
    const { link, footing } = this.#deps;
    if (this.#lastCode && footing.isShared(this.#lastCode)) link.restored();
    this.#lastCode = undefined;
    if (++this.#streak >= 2) this.#backoff.reset();
    this.#delivery.succeeded(value);
  }

  async #failed(error: ProxyError): Promise<void> {
    const { link, random, footing } = this.#deps;
    this.#streak = 0;
    // An agent that answers, if only with a refusal, is back: the pauses start again.
    if (this.#lastCode === "agent_unreachable" && error.code !== this.#lastCode) {
      this.#backoff.reset();
    }
    this.#lastCode = error.code;
    if (error.code === "agent_unreachable") link.lost();
    const limitMs = footing.pauseLimitMs(error.code, {
      critical: this.#question.critical,
      failures: this.#delivery.failures,
    });
    const pauseMs = Math.min(this.#backoff.next(), limitMs * (0.75 + 0.25 * random()));
    this.#delivery.failed(error, { retry_ms: Math.round(pauseMs) });
    const isShared = footing.isShared(error.code);
    // What a token may not, or a server does not have, another one may.
    await this.#sleep(pauseMs, (wake) => isShared ? link.onRestored(wake) : link.onMoved(wake));
  }

  async #sleep(ms: number, onWake?: (wake: () => void) => () => void): Promise<void> {
    if (ms <= 0) return;
    const { clock, random } = this.#deps;
    const signal = this.#stop.signal;
    const woken = await wakeableSleep(clock, ms, { signal, ...(onWake ? { onWake } : {}) });
    // All wake at once; they need not ask at once.
    if (woken) await wakeableSleep(clock, random() * 500, { signal });
  }
}
