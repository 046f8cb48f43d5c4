/**
 * Which servers run, which are listed as ready, and which one leads, with the times that Consul 1.22.7 takes
 * on three servers, or those of a test.
 *
 * @module
 */

import type { Clock, Timer } from "../../../../src/base/mod.ts";

export interface ClusterTiming {
  /** From the loss of a leader to the next one. */
  readonly electionMs: number;
  /** Until a dead or hung server is no longer listed. */
  readonly unlistMs: number;
  /** Until a server that came back is listed again. */
  readonly relistMs: number;
  /** How long a restarted server answers stale reads from an empty store. */
  readonly emptyMs: number;
  /** How long a write waits for a leader. */
  readonly writeMs: number;
}

export const CONSUL_TIMING: ClusterTiming = {
  electionMs: 3_000,
  unlistMs: 7_500,
  relistMs: 1_000,
  emptyMs: 600,
  writeMs: 12_000,
};

export type ServerState = "running" | "hung" | "stopped";

interface Member {
  state: ServerState;
  listed: boolean;
  timer: Timer | undefined;
}

export class Cluster {
  readonly #clock: Clock;
  readonly timing: ClusterTiming;
  readonly #members: Member[];
  #leader: number | undefined = 0;
  /** When the last leader was lost, by the monotonic clock. */
  #leaderlessMs = 0;
  /** There is no election but by {@link elect}. */
  #isHeld = false;
  #election: Timer | undefined;
  readonly #onLed = new Set<(led: boolean) => void>();
  readonly #onListed = new Set<() => void>();

  constructor(count: number, options: { readonly clock: Clock; readonly timing: ClusterTiming }) {
    this.#clock = options.clock;
    this.timing = options.timing;
    this.#members = Array.from({ length: count }, () => ({
      state: "running",
      listed: true,
      timer: undefined,
    }));
  }

  /** Undefined while there is none. */
  get leader(): number | undefined {
    return this.#leader;
  }

  /** Time without a leader; 0 while there is one. */
  get leaderlessMs(): number {
    return this.#leader === undefined ? this.#clock.monotonic() - this.#leaderlessMs : 0;
  }

  stateOf(server: number): ServerState {
    return this.#members[server]?.state ?? "stopped";
  }

  /** Numbers of the servers that count as ready. */
  get listed(): readonly number[] {
    return this.#members.flatMap((member, server) => member.listed ? [server] : []);
  }

  /** `fn` is called whenever a leader is found or lost. Returns how to stop. */
  onLed(fn: (led: boolean) => void): () => void {
    this.#onLed.add(fn);
    return () => void this.#onLed.delete(fn);
  }

  /** `fn` is called whenever the list of ready servers has changed. Returns how to stop. */
  onListed(fn: () => void): () => void {
    this.#onListed.add(fn);
    return () => void this.#onListed.delete(fn);
  }

  /** A server stops running, or runs again. */
  set(server: number, state: ServerState): void {
    const member = this.#members[server];
    if (!member || member.state === state) return;
    const ran = member.state === "running";
    const runs = state === "running";
    member.state = state;
    if (ran === runs) return;
    member.timer?.cancel();
    const { unlistMs, relistMs } = this.timing;
    member.timer = this.#clock.after(runs ? relistMs : unlistMs, () => {
      if (member.listed === runs) return;
      member.listed = runs;
      for (const fn of [...this.#onListed]) fn();
    });
    if (server === this.#leader || !this.#hasQuorum) this.#lose();
    if (this.#leader === undefined) this.#callElection();
  }

  /** There is no leader until {@link elect}, whichever servers run. */
  loseQuorum(): void {
    this.#isHeld = true;
    this.#election?.cancel();
    this.#lose();
  }

  /** Makes a running server the leader if there is a quorum; another one than before if it can. */
  elect(): void {
    this.#isHeld = false;
    if (!this.#hasQuorum) return;
    this.#election?.cancel();
    const before = this.#leader ?? -1;
    this.#lose();
    const count = this.#members.length;
    for (let step = 1; step <= count; step++) {
      const server = (before + step + count) % count;
      if (this.stateOf(server) !== "running") continue;
      this.#leader = server;
      for (const fn of [...this.#onLed]) fn(true);
      return;
    }
  }

  stop(): void {
    this.#election?.cancel();
    for (const member of this.#members) member.timer?.cancel();
  }

  get #hasQuorum(): boolean {
    const running = this.#members.filter((member) => member.state === "running").length;
    return running > this.#members.length / 2;
  }

  #lose(): void {
    if (this.#leader === undefined) return;
    this.#leader = undefined;
    this.#leaderlessMs = this.#clock.monotonic();
    for (const fn of [...this.#onLed]) fn(false);
  }

  #callElection(): void {
    if (this.#isHeld || !this.#hasQuorum) return;
    this.#election?.cancel();
    this.#election = this.#clock.after(this.timing.electionMs, () => this.elect());
  }
}
