/** The endpoints of one target: picks the next one and keeps the results of picks. @module */

import { formatAddress, type Random } from "../base/mod.ts";
import { Group } from "./group.ts";
import { countFailure, eject, mayEject } from "./health.ts";
import {
  boundedWeight,
  type Endpoint,
  EndpointRecord,
  type EndpointState,
  keyOf,
  type LoadBalancing,
  type OutlierPolicy,
} from "./types.ts";
import type { Balancer } from "./balancer.ts";
import { LeastRequest, RandomChoice } from "./random.ts";
import { Maglev, RingHash } from "./consistent_hash.ts";
import { RoundRobin } from "./round_robin.ts";

export interface PoolOptions {
  readonly balancing: LoadBalancing;
  readonly outlier: OutlierPolicy;
  readonly random: Random;
}

export interface PickOptions {
  /** Hash of the key that stays with its endpoint (L4: source address), see `hashText`; none: random. */
  readonly hash?: number | undefined;
  /** Endpoints not to pick, as those that this connection already tried. */
  readonly exclude?: ReadonlySet<EndpointState> | undefined;
}

/** One endpoint as the admin server shows it. */
export interface EndpointSummary {
  readonly id: string;
  readonly address: string;
  readonly weight: number;
  readonly active: number;
  readonly failures: number;
  /** The last failure, or that it ends connections at once; `""`: it answered since. */
  readonly lastFailure: string;
  /** Age of `lastFailure`; absent: there is none. */
  readonly failedAgoMs?: number | undefined;
  /** Age of the last good answer; absent: there was none. */
  readonly answeredAgoMs?: number | undefined;
  readonly ejectedForMs: number;
  readonly lastResort: boolean;
}

/** Times are of a clock that never goes backwards. Picking allocates nothing. */
export class EndpointPool {
  readonly #random: Random;
  #balancing: LoadBalancing;
  #outlier: OutlierPolicy;
  #records = new Map<string, EndpointRecord>();
  /** Number of good answers from any endpoint. */
  #answers = 0;
  readonly #live: Group;
  readonly #lastResort: Group;

  constructor(options: PoolOptions) {
    this.#random = options.random;
    this.#balancing = options.balancing;
    this.#outlier = options.outlier;
    this.#live = new Group(createBalancer(options.balancing, options.random));
    this.#lastResort = new Group(createBalancer(options.balancing, options.random));
  }

  /** Replaces the endpoints; one that keeps id, host and port keeps its state and leases. */
  update(endpoints: readonly Endpoint[], lastResort: readonly Endpoint[] = []): void {
    const records = new Map<string, EndpointRecord>();
    const previous = this.#records;
    const live = gather(endpoints, { previous, records, lastResort: false });
    const rest = gather(lastResort, { previous, records, lastResort: true });
    this.#records = records;
    // Tables outlive an update that changes nothing, as a list in another order.
    if (live.changed || live.members.length !== this.#live.members.length) {
      this.#live.setMembers(live.members);
    }
    if (rest.changed || rest.members.length !== this.#lastResort.members.length) {
      this.#lastResort.setMembers(rest.members);
    }
  }

  /** Takes effect with the next pick; ejections that began run to their end. */
  setPolicy(balancing: LoadBalancing, outlier: OutlierPolicy): void {
    this.#outlier = outlier;
    if (sameBalancing(this.#balancing, balancing)) return;
    this.#balancing = balancing;
    this.#live.setBalancer(createBalancer(balancing, this.#random));
    this.#lastResort.setBalancer(createBalancer(balancing, this.#random));
  }

  /** An endpoint that is neither ejected nor excluded; `undefined`: try the next target. */
  pick(nowMs: number, options?: PickOptions): EndpointState | undefined {
    return this.#live.pick(nowMs, options?.hash, options?.exclude);
  }

  /** If no target has another: one of last resort, else the ejected one due back first. */
  pickLastResort(nowMs: number, options?: PickOptions): EndpointState | undefined {
    return this.#lastResort.pick(nowMs, options?.hash, options?.exclude) ??
      this.#lastResort.firstEjected(nowMs, options?.exclude);
  }

  /** The ejected endpoint due back first: an ejection never leaves connections without one. */
  pickEjected(nowMs: number, options?: PickOptions): EndpointState | undefined {
    return this.#live.firstEjected(nowMs, options?.exclude);
  }

  /** Failures in a row that eject. */
  get maxFailures(): number {
    return this.#outlier.maxFailures;
  }

  get size(): number {
    return this.#records.size;
  }

  /** Whether `state` is one of this pool's endpoints now. */
  has(state: EndpointState): boolean {
    return this.#records.get(keyOf(state.endpoint)) === state;
  }

  /** Number of endpoints that can be picked now, without the last resort. */
  usableCount(nowMs: number): number {
    return this.#live.usable(nowMs).length;
  }

  /** A connection to `state` begins; one {@link EndpointPool.release} follows every call. */
  acquire(state: EndpointState): void {
    const record: { active: number } = state;
    record.active++;
  }

  release(state: EndpointState): void {
    const record: { active: number } = state;
    record.active--;
  }

  /** A good answer: failures are counted from zero again. An ejection runs to its end. */
  succeeded(state: EndpointState, nowMs: number): void {
    const record: Partial<EndpointRecord> & { failures: number } = state;
    record.failures = 0;
    record.lastFailure = "";
    record.answeredMs = nowMs;
    record.answersBefore = -1;
    this.#answers++;
  }

  /**
   * The endpoint accepted the connection and ended it at once. That is a failure of this endpoint only if
   * another one has answered since it began to: a source that an intention denies is denied by all.
   * `true`: that ejected it.
   */
  refused(state: EndpointState, nowMs: number, why = ""): boolean {
    const record = this.#records.get(keyOf(state.endpoint));
    if (!record || record !== state) return false;
    note(record, nowMs, why);
    if (record.answersBefore < 0) record.answersBefore = this.#answers;
    return this.#answers > record.answersBefore && this.failed(state, nowMs, why);
  }

  /** It failed; `true`: that ejected it. A removed or ejected endpoint is not counted. */
  failed(state: EndpointState, nowMs: number, why = ""): boolean {
    const record = this.#counted(state, nowMs, why);
    return record !== undefined && countFailure(record, this.#outlier) &&
      this.#eject(record, nowMs);
  }

  /** The endpoint is known to answer nothing: no failures are counted first. `true`: it is ejected. */
  silent(state: EndpointState, nowMs: number, why = ""): boolean {
    const record = this.#counted(state, nowMs, why);
    return record !== undefined && this.#eject(record, nowMs);
  }

  /** Notes the failure of one of ours; undefined: it is ejected or not ours, so it is not counted. */
  #counted(state: EndpointState, nowMs: number, why: string): EndpointRecord | undefined {
    const record = this.#records.get(keyOf(state.endpoint));
    if (!record || record !== state) return undefined;
    this.#groupOf(record).usable(nowMs);
    note(record, nowMs, why);
    return record.ejected ? undefined : record;
  }

  /** Goes on with an ejection of an earlier process, if this pool has the endpoint. */
  resume(address: string, forMs: number, nowMs: number): void {
    for (const record of this.#records.values()) {
      if (record.ejected || addressOf(record) !== address) continue;
      const group = this.#groupOf(record);
      if (!mayEject(group.ejected, group.members.length, this.#outlier)) continue;
      record.ejected = true;
      record.ejectedUntilMs = nowMs + Math.min(forMs, this.#outlier.maxEjectionMs);
      record.timesEjected = 1;
      group.invalidate();
    }
  }

  #groupOf({ lastResort }: EndpointRecord): Group {
    return lastResort ? this.#lastResort : this.#live;
  }

  #eject(record: EndpointRecord, nowMs: number): boolean {
    const group = this.#groupOf(record);
    if (this.#random() * 100 >= this.#outlier.enforcingPercent) return false;
    if (!mayEject(group.ejected, group.members.length, this.#outlier)) return false;
    eject(record, nowMs, this.#outlier);
    group.invalidate();
    return true;
  }

  /** All endpoints, those that cannot be picked included. */
  get states(): Iterable<EndpointState> {
    return this.#records.values();
  }

  views(nowMs: number): EndpointSummary[] {
    return [...this.#records.values()].map((record): EndpointSummary => ({
      id: record.endpoint.id,
      address: addressOf(record),
      weight: record.weight,
      active: record.active,
      failures: record.failures,
      ...lastAnswer(record, nowMs),
      ejectedForMs: record.ejected ? Math.max(0, record.ejectedUntilMs - nowMs) : 0,
      lastResort: record.lastResort,
    }));
  }
}

function addressOf({ endpoint }: EndpointRecord): string {
  return formatAddress({ kind: "tcp", ...endpoint });
}

function note(record: EndpointRecord, nowMs: number, why: string): void {
  record.lastFailure = why;
  record.failedMs = nowMs;
}

function lastAnswer(
  record: EndpointRecord,
  nowMs: number,
): Pick<EndpointSummary, "lastFailure" | "failedAgoMs" | "answeredAgoMs"> {
  const { lastFailure, failedMs, answeredMs } = record;
  return {
    ...lastFailure !== "" && isFailing(record)
      ? { lastFailure, failedAgoMs: nowMs - failedMs }
      : { lastFailure: "" },
    ...answeredMs >= 0 && { answeredAgoMs: nowMs - answeredMs },
  };
}

/** Whether it failed, or ended a connection at once, and has not answered since. */
function isFailing({ failures, ejected, answersBefore }: EndpointRecord): boolean {
  return failures > 0 || ejected || answersBefore >= 0;
}

/** States of `endpoints`, known ones reused; adds them to `records`, where the first of a key wins. */
function gather(
  endpoints: readonly Endpoint[],
  { previous, records, lastResort }: {
    readonly previous: ReadonlyMap<string, EndpointRecord>;
    readonly records: Map<string, EndpointRecord>;
    readonly lastResort: boolean;
  },
): { readonly members: readonly EndpointRecord[]; readonly changed: boolean } {
  const members: EndpointRecord[] = [];
  let changed = false;
  for (const endpoint of endpoints) {
    const key = keyOf(endpoint);
    if (records.has(key)) continue;
    const known = previous.get(key);
    const record = known ?? new EndpointRecord(key, endpoint, lastResort);
    const weight = boundedWeight(endpoint.weight);
    changed ||= !known || known.lastResort !== lastResort || known.weight !== weight;
    record.endpoint = endpoint;
    record.weight = weight;
    record.lastResort = lastResort;
    records.set(key, record);
    members.push(record);
  }
  return { members, changed };
}

export function createBalancer(balancing: LoadBalancing, random: Random): Balancer {
  switch (balancing.kind) {
    case "round_robin":
      return new RoundRobin(random);
    case "random":
      return new RandomChoice(random);
    case "least_request":
      return new LeastRequest(random, balancing.choiceCount);
    case "ring_hash":
      return new RingHash(random, balancing);
    case "maglev":
      return new Maglev(random);
  }
}

/** Whether a balancer made for `a` also serves `b`. */
export function sameBalancing(a: LoadBalancing, b: LoadBalancing): boolean {
  if (a.kind === "least_request") {
    return b.kind === "least_request" && a.choiceCount === b.choiceCount;
  }
  if (a.kind === "ring_hash") {
    return b.kind === "ring_hash" && a.minimumSize === b.minimumSize &&
      a.maximumSize === b.maximumSize;
  }
  return a.kind === b.kind;
}
