/**
 * Memory that holds bytes because one side of an exchange is slower than the other: responses that a caller
 * does not read, bodies that an endpoint does not take. Every byte is counted for the exchange, the
 * connection and the caller that it is held for. Where a thread holds too much, the caller with the most
 * loses the exchanges that have made no progress for the longest time; no other caller is refused or
 * slowed down.
 *
 * @module
 */

import { Bag, type BagMember, NO_PLACE } from "../base/mod.ts";

/**
 * Parts of a thread's limit, for one connection. From here on its windows open late, and its upstreams are
 * paused at the first byte; what makes no progress for {@link STUCK_TURNS} is ended:
 */
const LARGE_PART = 1 / 8;
/** The same after {@link SLOW_TURNS}: */
const CONNECTION_PART = 1 / 4;
/** What has come in one burst is not held up by a slow side: only from here on it is ended at once. */
const BURST_PART = 1 / 2;
/** What streams of one connection may be sent beyond their first windows. */
const LENT_PART = 1 / 16;
/** From here on that is done for every connection: the account is strained. */
const TIGHT_PART = 1 / 2;
/** So much is left of a limit after exchanges were stopped for it. */
const LEFT_PART = 7 / 8;
/** Below it a window may be larger than at first. */
const CALM_PART = 1 / 8;
/** Bytes read by plugins after which their garbage is collected. */
const COLLECT_PART = 1 / 8;
/** Turns of {@link HeldBytes.turn} without progress. */
const STUCK_TURNS = 5;
const SLOW_TURNS = 2;

/** What bytes are held for: it can be stopped, which gives them back. */
export interface HeldOwner {
  /**
   * Ends what has made no progress for the longest time; with `since` only if it made none after that. False: nothing was ended.
   */
  stopOldest(reason: string, since?: number): boolean;
}

/** One caller: an identity, or an address. */
class CallerBytes {
  readonly key: string;
  bytes = 0;
  readonly accounts = new Bag<HeldAccount>();

  constructor(key: string) {
    this.key = key;
  }
}

export class HeldBytes {
  readonly limitBytes: number;
  bytes = 0;
  /** Bytes by which windows are larger than at first. */
  #lent = 0;
  /** Only callers that something is held for. */
  readonly #callers = new Map<string, CallerBytes>();
  /** Grows with everything that some exchange makes progress by. */
  progress = 0;
  /** {@link HeldBytes.progress} at the last turns, oldest first. */
  readonly #turns: number[] = [];
  #isDue = false;
  readonly #makeRoomLater = () => this.#makeRoom();
  readonly #collect: () => void;
  /** What plugins have read since the last time. */
  #readBytes = 0;

  /** `collect`: see {@link HeldBytes.readByPlugin}. */
  constructor(limitBytes: number, collect: () => void = () => {}) {
    this.limitBytes = limitBytes;
    this.#collect = collect;
  }

  /** Little is left. */
  get isStrained(): boolean {
    return this.bytes > this.limitBytes * TIGHT_PART;
  }

  /** Each connection has an account of its own. `holder` absent: nothing can be stopped for it. */
  open(caller: string, holder?: HeldOwner): HeldAccount {
    return new HeldAccount(this, caller, holder);
  }

  /**
   * Plugins take bodies in chunks and copy them, and the runtime is in no hurry to give that memory back:
   * it is asked to while much is held.
   */
  readByPlugin(size: number): void {
    this.#readBytes += size;
    if (this.isCalm || this.#readBytes < this.limitBytes * COLLECT_PART) return;
    this.#readBytes = 0;
    this.#collect();
  }

  /** To be called once a second. */
  turn(): void {
    this.#turns.push(this.progress++);
    if (this.#turns.length > STUCK_TURNS) this.#turns.shift();
  }

  /** {@link HeldBytes.progress} so many turns ago; -1: it is not that long ago that it began. */
  progressBefore(turns: number): number {
    return this.#turns.at(-turns) ?? -1;
  }

  /** So little is held that who sends a lot may send more at a time. */
  get isCalm(): boolean {
    return this.bytes <= this.limitBytes * CALM_PART;
  }

  /** Whether a window may be larger by so much, until that is taken back. */
  lend(size: number): boolean {
    if (!this.isCalm || this.#lent + size > this.limitBytes) return false;
    this.#lent += size;
    return true;
  }

  takeBack(size: number): void {
    this.#lent -= size;
  }

  /** For accounts. */
  callerOf(key: string): CallerBytes {
    let caller = this.#callers.get(key);
    if (!caller) this.#callers.set(key, caller = new CallerBytes(key));
    return caller;
  }

  /** For accounts: nothing is held for it any more. */
  forget(caller: CallerBytes): void {
    this.#callers.delete(caller.key);
  }

  /** For accounts: one of them, or all together, may hold too much. */
  check(account: HeldAccount): void {
    const isOver = this.bytes > this.limitBytes || account.bytes > account.burstBytes;
    if (!isOver || this.#isDue) return;
    this.#isDue = true;
    // Not in the middle of what reads or sends these bytes.
    queueMicrotask(this.#makeRoomLater);
  }

  #makeRoom(): void {
    this.#isDue = false;
    for (const { accounts } of [...this.#callers.values()]) {
      for (const account of accounts.all()) {
        if (account.bytes > account.burstBytes) this.#shrink(account);
      }
    }
    if (this.bytes <= this.limitBytes) return;
    const leftBytes = this.limitBytes * LEFT_PART;
    const spared = new Set<HeldAccount>();
    while (this.bytes > leftBytes) {
      const account = this.#largest(spared);
      if (!account) return;
      if (!this.#stop(account, THREAD_REASON)) spared.add(account);
    }
  }

  #shrink(account: HeldAccount): void {
    const leftBytes = account.burstBytes * LEFT_PART;
    while (account.bytes > leftBytes && this.#stop(account, CONNECTION_REASON));
  }

  /** False: nothing came of it. */
  #stop(account: HeldAccount, reason: string): boolean {
    const { bytes } = this;
    return account.holder?.stopOldest(reason) === true && this.bytes < bytes;
  }

  /** The connection with the most, of the caller with the most. */
  #largest(spared: ReadonlySet<HeldAccount>): HeldAccount | undefined {
    let most: HeldAccount | undefined;
    let mostBytes = 0;
    for (const { bytes, accounts } of this.#callers.values()) {
      if (bytes <= mostBytes) continue;
      const largest = largestOf(accounts.all().filter((account) => !spared.has(account)));
      if (!largest) continue;
      most = largest;
      mostBytes = bytes;
    }
    return most;
  }
}

function largestOf(accounts: readonly HeldAccount[]): HeldAccount | undefined {
  let largest: HeldAccount | undefined;
  for (const account of accounts) {
    if (!largest || account.bytes > largest.bytes) largest = account;
  }
  return largest;
}

/** What one connection of a caller has held for it. */
export class HeldAccount implements BagMember {
  place = NO_PLACE;
  bytes = 0;
  readonly all: HeldBytes;
  readonly holder: HeldOwner | undefined;
  readonly burstBytes: number;
  readonly #limitBytes: number;
  readonly #largeBytes: number;
  #lent = 0;
  /** The key of its caller; `""`: none in particular. */
  readonly caller: string;
  #ofCaller: CallerBytes | undefined;

  constructor(all: HeldBytes, caller: string, holder: HeldOwner | undefined) {
    this.all = all;
    this.caller = caller;
    this.holder = holder;
    this.burstBytes = all.limitBytes * BURST_PART;
    this.#limitBytes = all.limitBytes * CONNECTION_PART;
    this.#largeBytes = all.limitBytes * LARGE_PART;
  }

  hold(size: number): void {
    if (size === 0) return;
    const caller = this.#ofCaller ??= this.#enter();
    this.bytes += size;
    caller.bytes += size;
    this.all.bytes += size;
    this.all.check(this);
  }

  release(size: number): void {
    const caller = this.#ofCaller;
    if (size === 0 || !caller) return;
    this.bytes -= size;
    caller.bytes -= size;
    this.all.bytes -= size;
    this.all.progress++;
    if (this.bytes > 0) return;
    this.#ofCaller = undefined;
    caller.accounts.delete(this);
    if (caller.accounts.size === 0) this.all.forget(caller);
  }

  #enter(): CallerBytes {
    const caller = this.all.callerOf(this.caller);
    caller.accounts.add(this);
    return caller;
  }

  /** It has so much that it is sent more only as it makes progress. */
  get isLarge(): boolean {
    return this.bytes > this.#largeBytes;
  }

  /** Its upstreams are paused at the first byte that it does not take. */
  get isTight(): boolean {
    return this.isLarge || this.all.isStrained;
  }

  /** As {@link HeldBytes.lend}, for a stream of this connection. */
  lend(size: number): boolean {
    if (this.#lent + size > this.all.limitBytes * LENT_PART || !this.all.lend(size)) return false;
    this.#lent += size;
    return true;
  }

  takeBack(size: number): void {
    this.#lent -= size;
    this.all.takeBack(size);
  }

  /**
   * To be called once a second: ends what is stuck, as much of it as is too much. What is stuck on a
   * connection whose windows open late would stop the rest of it.
   */
  endStuck(): void {
    if (!this.isLarge || !this.holder) return;
    const slowSince = this.all.progressBefore(SLOW_TURNS);
    while (this.bytes > this.#limitBytes && this.holder.stopOldest(CONNECTION_REASON, slowSince));
    const stuckSince = this.all.progressBefore(STUCK_TURNS);
    while (this.isLarge && this.holder.stopOldest(STUCK_REASON, stuckSince));
  }
}

/** What one exchange has held for it, on both of its sides. */
export class HeldShare {
  bytes = 0;
  readonly account: HeldAccount;
  /** {@link HeldBytes.progress} when some of it was taken last. */
  progress = 0;

  constructor(account: HeldAccount) {
    this.account = account;
  }

  hold(size: number): void {
    if (this.bytes === 0) this.progress = this.account.all.progress;
    this.bytes += size;
    this.account.hold(size);
  }

  /** What a plugin reads. The side that sends may be the slow one: that it sends more is progress. */
  holdRead(size: number): void {
    this.hold(size);
    this.progress = this.account.all.progress;
    this.account.all.readByPlugin(size);
  }

  release(size: number): void {
    if (size === 0) return;
    this.bytes -= size;
    this.account.release(size);
    this.progress = this.account.all.progress;
  }
}

const CONNECTION_REASON = "too many bytes wait on its connection for a slower side";
const THREAD_REASON = "too many bytes wait for slower sides, most of them for its caller";
const STUCK_REASON = "its bytes were not taken for seconds, and others of its connection wait";

/** A thread's limit. */
export const HELD_LIMIT_BYTES: number = 64 * 1024 * 1024;
/** The account of this thread, for connections without one of their own. */
export const heldByThread: HeldBytes = new HeldBytes(HELD_LIMIT_BYTES);
