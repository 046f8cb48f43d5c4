/**
 * Accounts for the memory of bytes that wait because one side of an exchange is slower than the other:
 * responses that a caller does not read, bodies that an endpoint does not take. Every byte is counted for
 * its exchange, its connection and its caller. When a thread holds too much, the caller with the most bytes
 * loses the exchanges that have made no progress for the longest time; no other caller is refused or slowed
 * down.
 *
 * @module
 */

import { Bag, type BagMember, NO_PLACE } from "../base/mod.ts";

/**
 * Parts of a thread's limit, for one connection. Above this part its windows open late and its upstreams
 * are paused at the first byte; exchanges without progress for {@link STUCK_TURNS} are ended.
 */
const LARGE_PART = 1 / 8;
/** Above this part exchanges without progress for {@link SLOW_TURNS} are ended. */
const CONNECTION_PART = 1 / 4;
/** Above this part an exchange is ended at once. A single burst below it is not a sign of a slow side. */
const BURST_PART = 1 / 2;
/** Part of the limit that the streams of one connection may together borrow for larger windows. */
const LENT_PART = 1 / 16;
/** Above this part the account is strained: all upstreams are paused at the first byte. */
const TIGHT_PART = 1 / 2;
/** Exchanges are stopped until no more than this part of the exceeded limit is held. */
const LEFT_PART = 7 / 8;
/** Below this part windows may grow. */
const CALM_PART = 1 / 8;
/** Bytes read by plugins after which garbage is collected. */
const COLLECT_PART = 1 / 8;
/** Turns of {@link HeldBytes.turn} without progress. */
const STUCK_TURNS = 5;
const SLOW_TURNS = 2;

/** The owner of held bytes: it can stop exchanges, which releases their bytes. */
export interface HeldOwner {
  /** Ends the exchange longest without progress, since `since` if given; false: none was ended. */
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
  /** Bytes by which windows exceed their initial size. */
  #lent = 0;
  /** Only callers with held bytes. */
  readonly #callers = new Map<string, CallerBytes>();
  /** Grows with every release, which is progress of some exchange, and with every turn. */
  progress = 0;
  /** {@link HeldBytes.progress} at the last turns, oldest first. */
  readonly #turns: number[] = [];
  #isDue = false;
  readonly #makeRoomLater = () => this.#makeRoom();
  readonly #collect: () => void;
  /** Bytes that plugins have read since the last collection. */
  #readBytes = 0;

  /** `collect`: see {@link HeldBytes.readByPlugin}. */
  constructor(limitBytes: number, collect: () => void = () => {}) {
    this.limitBytes = limitBytes;
    this.#collect = collect;
  }

  /** More than half of the limit is held. */
  get isStrained(): boolean {
    return this.bytes > this.limitBytes * TIGHT_PART;
  }

  /** Each connection has an account of its own. `holder` absent: no exchange of it can be stopped. */
  open(caller: string, holder?: HeldOwner): HeldAccount {
    return new HeldAccount(this, caller, holder);
  }

  /** Plugins copy chunks, which the runtime is slow to free: while much is held, it collects. */
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

  /** {@link HeldBytes.progress} that many turns ago; -1: there were fewer turns. */
  progressBefore(turns: number): number {
    return this.#turns.at(-turns) ?? -1;
  }

  /** So little is held that windows may grow. */
  get isCalm(): boolean {
    return this.bytes <= this.limitBytes * CALM_PART;
  }

  /** Whether a window may grow by `size` octets, until {@link HeldBytes.takeBack}. */
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

  /** For accounts: the caller has no held bytes left. */
  forget(caller: CallerBytes): void {
    this.#callers.delete(caller.key);
  }

  /** For accounts: makes room when this account or the whole thread holds too much. */
  check(account: HeldAccount): void {
    const isOver = this.bytes > this.limitBytes || account.bytes > account.burstBytes;
    if (!isOver || this.#isDue) return;
    this.#isDue = true;
    // In a microtask: the caller is reading or sending these bytes.
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

  /** False: nothing was released. */
  #stop(account: HeldAccount, reason: string): boolean {
    const { bytes } = this;
    return account.holder?.stopOldest(reason) === true && this.bytes < bytes;
  }

  /** The largest connection of the caller with the most bytes. */
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

/** The held bytes of one connection of a caller. */
export class HeldAccount implements BagMember {
  place = NO_PLACE;
  bytes = 0;
  readonly all: HeldBytes;
  readonly holder: HeldOwner | undefined;
  readonly burstBytes: number;
  readonly #limitBytes: number;
  readonly #largeBytes: number;
  #lent = 0;
  /** The key of its caller; `""`: unknown. */
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

  /** It holds so much that its peers may send more only as it makes progress. */
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
   * To be called once a second: ends stuck exchanges until the connection is below its limits. On a
   * connection whose windows open late, a stuck exchange would stop all others.
   */
  endStuck(): void {
    if (!this.isLarge || !this.holder) return;
    const slowSince = this.all.progressBefore(SLOW_TURNS);
    while (this.bytes > this.#limitBytes && this.holder.stopOldest(CONNECTION_REASON, slowSince));
    const stuckSince = this.all.progressBefore(STUCK_TURNS);
    while (this.isLarge && this.holder.stopOldest(STUCK_REASON, stuckSince));
  }
}

/** The held bytes of one exchange, on both of its sides. */
export class HeldShare {
  bytes = 0;
  readonly account: HeldAccount;
  /** {@link HeldBytes.progress} at the last release. */
  progress = 0;

  constructor(account: HeldAccount) {
    this.account = account;
  }

  hold(size: number): void {
    if (this.bytes === 0) this.progress = this.account.all.progress;
    this.bytes += size;
    this.account.hold(size);
  }

  /** Counts bytes that a plugin reads. The sender may be the slow side, so that more bytes are progress. */
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
