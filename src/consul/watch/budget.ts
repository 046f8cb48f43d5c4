/**
 * The connections that this proxy keeps to Consul. An agent allows 200 per client address, shared by every
 * sidecar and tool of the host, and an HTTP/1.1 long poll holds one. So:
 *
 * - critical watches (registration, leaf, roots, intentions) always have a long poll of their own;
 * - a few lanes are kept for short calls: single calls first, then short polls in turn;
 * - the rest are long polls for the other watches: health first (it changes most, and the agent ends such a
 *   poll with its connection), config entries that are not about one upstream last, and among equals the
 *   most recently used ones.
 *
 * A watch without a long poll takes its turn with a short one, within a second while it is in use. Short
 * polls go out together, because waking up costs more than a poll. When Consul refuses for load, the
 * budget is halved, and grows back by one at a time; `budget_growth.ts` has it grow beyond its start.
 *
 * @module
 */

import type { Counter, Gauge, Timer } from "../../base/mod.ts";
import type { CommonDeps } from "../model/consul.ts";
import { BudgetGrowth, type GrowthOptions } from "./budget_growth.ts";
import { left, type PollPriority, PollSlot, USED_LATELY_MS } from "./poll_slot.ts";

/** Lanes for short calls and polls; where there are several, short polls leave one free. */
const LANES = 3;
/** After a refusal for load short polls are rarer for this long. */
const EASED_MS = 60_000;
const GROW_MS = 30_000;
const SWAP_MS = 30_000;
const PREFERENCES: readonly PollPriority[] = ["critical", "first", "middle", "last"];

/** Connections for everything but upstreams, and for each upstream, where the budget is modest. */
const MODEST_CONNECTIONS = 3;
const MODEST_PER_UPSTREAM = 2;

interface BudgetOptions extends Omit<CommonDeps, "random"> {
  /** At the start. */
  readonly connections: number;
  /** Absent: it never has more. */
  readonly growth?: GrowthOptions;
  /** At most 3, and 2 for each upstream: whole fleets ask the same few servers. */
  readonly modest?: boolean;
}

/** `query`: may take a minute, so only one runs at a time. */
export type CallKind = "call" | "query";

interface Waiter {
  readonly kind: "short" | CallKind;
  /** Earliest start by the monotonic clock; it moves nearer when the data is in use. */
  readonly due: () => number;
  readonly start: () => void;
}

export class ConnectionBudget {
  readonly #options: BudgetOptions;
  readonly #slots = new Set<PollSlot>();
  readonly #waiting = new Set<Waiter>();
  readonly #busy = { short: 0, call: 0, query: 0 };
  readonly #limitGauge: Gauge;
  readonly #refusals: Counter;
  #limit: number;
  #easedUntilMs = -Infinity;
  #joined = 0;
  readonly #growth: BudgetGrowth | undefined;
  #pumpTimer: Timer | undefined;
  #growTimer: Timer | undefined;
  #swapTimer: Timer | undefined;

  constructor(options: BudgetOptions) {
    this.#options = options;
    this.#limit = Math.max(1, options.connections);
    const { stats, clock, log, growth } = options;
    this.#growth = growth &&
      new BudgetGrowth(growth, { clock, log, start: this.#limit, budget: this });
    const help = "Most connections to the agent that this proxy allows itself now";
    this.#limitGauge = stats.gauge("agent_connections_limit", help);
    this.#limitGauge.set(this.#limit);
    const refused =
      "Requests that the agent refused because it had too many connections or requests";
    this.#refusals = stats.counter("agent_connections_refused_total", refused);
  }

  get limit(): number {
    return this.#limit;
  }

  /** Watches without a long poll that would take one. */
  get wanted(): number {
    let wanted = 0;
    for (const slot of this.#slots) if (slot.mode === "short") wanted++;
    return wanted;
  }

  /** Connections in use at this moment, without idle kept ones. */
  get inUse(): number {
    const long = [...this.#slots].filter(({ preference, holding }) =>
      preference === "critical" || holding === "long"
    );
    return long.length + this.#busyLanes;
  }

  /**
   * For a watch that has a long poll while there is one to spare, else takes its turn. A critical one always
   * has a connection of its own, whatever the limit.
   */
  join(preference: PollPriority = "first"): PollSlot {
    const { clock } = this.#options;
    const slot = new PollSlot({
      preference,
      clock,
      phase: this.#joined++,
      isEased: () => clock.monotonic() < this.#easedUntilMs,
      wait: (due, signal) => this.#lane("short", { due, signal }),
      used: (isNew) => {
        this.#scheduleSwap();
        if (isNew) this.#pump();
      },
      left: () => {
        this.#slots.delete(slot);
        this.#assign();
      },
    });
    this.#slots.add(slot);
    this.#assign();
    return slot;
  }

  /** Runs one short call in a lane. Waiting for the lane ends with `signal`. */
  async call<T>(
    kind: CallKind,
    { run, ...options }: { readonly signal?: AbortSignal; readonly run: () => Promise<T> },
  ): Promise<T> {
    const release = await this.#lane(kind, { due: AT_ONCE, ...options });
    try {
      return await run();
    } finally {
      release();
    }
  }

  /** Consul refused for load: halves the limit, which grows back slowly. */
  refused(): void {
    this.#refusals.add(1);
    this.#growth?.refused(this.#limit);
    this.#easedUntilMs = this.#options.clock.monotonic() + EASED_MS;
    const limit = Math.max(1, Math.floor(this.#limit / 2));
    this.#growTimer?.cancel();
    this.#growTimer = this.#options.clock.after(GROW_MS, () => this.#grow());
    if (limit === this.#limit) return;
    const fields = { from: this.#limit, to: limit };
    this.#options.log.warn("connections refused for load, budget halved", fields);
    this.setLimit(limit);
  }

  setLimit(limit: number): void {
    this.#limit = limit;
    this.#limitGauge.set(limit);
    this.#assign();
  }

  close(): void {
    this.#growth?.close();
    for (const timer of [this.#pumpTimer, this.#growTimer, this.#swapTimer]) timer?.cancel();
    for (const slot of [...this.#slots]) slot.leave();
  }

  #count(wanted: PollPriority): number {
    let count = 0;
    for (const { preference } of this.#slots) if (preference === wanted) count++;
    return count;
  }

  get #busyLanes(): number {
    return this.#busy.short + this.#busy.call + this.#busy.query;
  }

  get #lanes(): number {
    const lanes = this.#options.modest ? 1 : LANES;
    return Math.max(1, Math.min(lanes, this.#limit - this.#count("critical")));
  }

  /** Long polls and lanes together. */
  get #allowed(): number {
    if (!this.#options.modest) return this.#limit;
    // Each upstream has a chain, and only chains are in the middle.
    const upstreams = this.#count("middle");
    return Math.min(this.#limit, MODEST_CONNECTIONS + MODEST_PER_UPSTREAM * upstreams);
  }

  #grow(): void {
    this.#growTimer = undefined;
    if (this.#limit >= this.#options.connections) return;
    this.setLimit(this.#limit + 1);
    this.#growTimer = this.#options.clock.after(GROW_MS, () => this.#grow());
  }

  /** Gives the long polls to the watches used last; among equals one keeps its poll until {@link #swap}. */
  #assign(): void {
    const room = Math.max(this.#count("critical"), this.#allowed - this.#lanes);
    const order = [...this.#slots].sort((a, b) =>
      PREFERENCES.indexOf(a.preference) - PREFERENCES.indexOf(b.preference) ||
      Number(b.mode === "long") - Number(a.mode === "long") ||
      b.lastUsedMs - a.lastUsedMs
    );
    for (const [at, slot] of order.entries()) slot.setMode(at < room ? "long" : "short");
    this.#pump();
    this.#growth?.look();
  }

  #scheduleSwap(): void {
    this.#swapTimer ??= this.#options.clock.after(SWAP_MS, () => {
      this.#swapTimer = undefined;
      this.#swap();
    });
  }

  /** Moves one long poll from the watch used longest ago to one in use that has none. */
  #swap(): void {
    let loser: PollSlot | undefined;
    let winner: PollSlot | undefined;
    for (const slot of this.#slots) {
      if (slot.preference === "critical") continue;
      if (slot.mode === "long" && (!loser || slot.lastUsedMs < loser.lastUsedMs)) loser = slot;
      if (slot.mode === "short" && (!winner || slot.lastUsedMs > winner.lastUsedMs)) winner = slot;
    }
    // Both are in use: an ended long poll costs a connection.
    if (!loser || !winner || winner.lastUsedMs - loser.lastUsedMs < USED_LATELY_MS) return;
    if (PREFERENCES.indexOf(loser.preference) < PREFERENCES.indexOf(winner.preference)) return;
    loser.setMode("short");
    winner.setMode("long");
    this.#scheduleSwap();
  }

  /** Waits for a lane; resolves to a function that gives it back. */
  #lane(
    kind: Waiter["kind"],
    { due, signal }: { readonly due: () => number; readonly signal?: AbortSignal },
  ): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(left());
      const onAbort = () => {
        if (this.#waiting.delete(waiter)) reject(left());
      };
      const start = () => {
        signal?.removeEventListener("abort", onAbort);
        let released = false;
        resolve(() => {
          if (released) return;
          released = true;
          this.#busy[kind]--;
          this.#pump();
        });
      };
      const waiter: Waiter = { kind, due, start };
      signal?.addEventListener("abort", onAbort);
      this.#waiting.add(waiter);
      this.#pump();
    });
  }

  #pump(): void {
    this.#pumpTimer?.cancel();
    this.#pumpTimer = undefined;
    for (let next = this.#next(); next; next = this.#next()) {
      this.#waiting.delete(next);
      this.#busy[next.kind]++;
      next.start();
    }
  }

  /** The waiter whose turn it is now; sets a timer where none is due yet. */
  #next(): Waiter | undefined {
    if (this.#busyLanes >= this.#lanes) return undefined;
    const several = this.#lanes > 1 ? this.#lanes - 1 : 1;
    let best: Waiter | undefined;
    let bestMs = Infinity;
    for (const waiter of this.#waiting) {
      if (waiter.kind === "short" && this.#busy.short >= several) continue;
      if (waiter.kind === "query" && this.#busy.query >= 1) continue;
      const isBefore = best ? rank(waiter) - rank(best) : -1;
      if (isBefore > 0) continue;
      const dueMs = waiter.due();
      if (isBefore === 0 && dueMs >= bestMs) continue;
      best = waiter;
      bestMs = dueMs;
    }
    const { clock } = this.#options;
    const waitMs = bestMs - clock.monotonic();
    if (!best || waitMs <= 0) return best;
    this.#pumpTimer?.cancel();
    this.#pumpTimer = clock.after(waitMs, () => this.#pump());
    return undefined;
  }
}

const AT_ONCE = () => -Infinity;

/** Single calls go first, since callers wait for them. */
const rank = ({ kind }: Waiter) => kind === "short" ? 1 : 0;
