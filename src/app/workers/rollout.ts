/**
 * Puts a snapshot in force: all data paths prepare it, and only when none of them refuses, all publish it. A
 * refused snapshot is refused whole: the old state serves on everywhere, and only the next one is tried.
 *
 * A data path that is gone, being started, or still owes an answer does not decide; it gets the snapshot in
 * force as soon as it can answer. One that cannot take that snapshot is given up.
 *
 * @module
 */

import { type Clock, type Log, messageOf, type ReportEvent, type Stats } from "../../base/mod.ts";
import {
  type Columns,
  FIRST_UPSTREAM_COLUMN,
  MAX_UPSTREAMS,
  type PublishEffect,
  type SharedCounts,
  UPSTREAM_COLUMNS,
} from "../../proxy/mod.ts";
import { diffSnapshots, type Refusal, type Snapshot } from "../../snapshot/mod.ts";

export interface RolloutMember {
  /** The snapshot that it published last; `undefined`: none, or the data path is gone. */
  readonly published: Snapshot | undefined;
  /** False: the data path is gone or not there yet. Rejects with the reason of a refusal. */
  prepare(snapshot: Snapshot): Promise<boolean>;
  publish(snapshot: Snapshot, columns: Columns): Promise<readonly PublishEffect[]>;
  abandon(): void;
  /** Called for a data path that serves another snapshot than the others. */
  giveUp(reason: string): void;
}

interface RolloutOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly report?: ReportEvent;
  readonly counts: SharedCounts;
  readonly members: readonly RolloutMember[];
}

/** Time that others wait for a data path that does not answer; a healthy one answers earlier. */
const ANSWER_LIMIT_MS = 12_000;

export class Rollout {
  /** The snapshot in force. */
  published: Snapshot | undefined;
  /** Why the newest snapshot is not in force. */
  refused: readonly Refusal[] = [];
  readonly #options: RolloutOptions;
  readonly #columns: ColumnTable;
  /** Members with a call under way; they get no other until it ends. */
  readonly #busy = new Set<RolloutMember>();
  #wanted: Snapshot | undefined;
  /** Number of snapshots applied, and the number of the last one that was decided. */
  #applied = 0;
  #decided = 0;
  #decision = Promise.withResolvers<void>();
  #isLooking = false;
  #looks = 0;
  #effects: PublishEffect[] = [];
  #closed = false;

  constructor(options: RolloutOptions) {
    this.#options = options;
    this.#columns = new ColumnTable(options.counts);
  }

  /** Resolves when this or a later snapshot is in force or refused; only the newest waiting one is tried. */
  async apply(snapshot: Snapshot): Promise<void> {
    this.#wanted = snapshot;
    const turn = ++this.#applied;
    this.look();
    while (this.#decided < turn && !this.#closed) await this.#decision.promise;
  }

  /** What snapshots have ended since the last call, in the data paths that answered in time. */
  takeEffects(): readonly PublishEffect[] {
    return this.#effects.splice(0);
  }

  /** Called when a member without a snapshot has come. */
  look(): void {
    this.#looks++;
    if (!this.#isLooking) void this.#look();
  }

  close(): void {
    this.#closed = true;
    this.#decision.resolve();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    for (let seen = 0; seen !== this.#looks && !this.#closed;) {
      seen = this.#looks;
      if (this.#wanted && this.#decided < this.#applied) await this.#decide(this.#wanted);
      this.#bringUp();
    }
    this.#isLooking = false;
  }

  async #decide(snapshot: Snapshot): Promise<void> {
    const turn = this.#applied;
    const columns = this.#columns.for(snapshot);
    const { prepared, refusals } = await this.#verdicts(snapshot);
    if (this.#closed) return;
    // Without any member, the first one that comes decides.
    if (prepared.length === 0 && refusals.length === 0) return;
    if (refusals.length > 0) {
      this.#refuse(snapshot, refusals.join("; "));
      for (const member of prepared) member.abandon();
    } else {
      this.#publish(snapshot);
      const publishing = prepared.map((member) =>
        this.#occupy(member, async () => {
          const ended = await publish(member, snapshot, columns);
          this.#effects.push(...ended ?? []);
          return ended !== undefined;
        })
      );
      await this.#within(Promise.all(publishing));
    }
    this.#decided = turn;
    const decision = this.#decision;
    this.#decision = Promise.withResolvers();
    decision.resolve();
  }

  /** Verdicts that come in time. Without any answer, the first one is waited for. */
  async #verdicts(snapshot: Snapshot) {
    const prepared: RolloutMember[] = [];
    const refusals = new Set<string>();
    let isOver = false;
    const first = Promise.withResolvers<void>();
    const ask = (member: RolloutMember) =>
      this.#occupy(member, async () => {
        try {
          if (!await member.prepare(snapshot)) return false;
          if (isOver) member.abandon();
          else prepared.push(member);
        } catch (error) {
          refusals.add(messageOf(error));
        }
        first.resolve();
        return true;
      });
    const members = this.#options.members.filter((member) => !this.#busy.has(member));
    const isKnown = () => prepared.length > 0 || refusals.size > 0;
    // A plugin that blocks its thread while it is created costs one data path.
    for (const one = createsPlugins(this.published, snapshot); one && !isKnown();) {
      const member = members.shift();
      if (!member) break;
      await this.#within(ask(member));
    }
    const all = refusals.size > 0 ? Promise.resolve() : Promise.all(members.map(ask));
    await this.#within(all);
    await Promise.race([all, first.promise]);
    isOver = true;
    return { prepared, refusals: [...refusals] };
  }

  #publish(snapshot: Snapshot): void {
    const { log, stats, report } = this.#options;
    const { version } = snapshot;
    this.published = snapshot;
    if (this.refused.length > 0) {
      log.info("snapshot taken again", { version });
      report?.({
        kind: "source",
        subject: "snapshot",
        text: "snapshot taken again",
        isLogged: true,
      });
    }
    this.refused = [];
    stats.gauge(
      "snapshot_version",
      "Version of the configuration snapshot in use; each one put in force has a higher one",
    ).set(version);
  }

  #refuse({ version }: Snapshot, reason: string): void {
    const { log, stats, report } = this.#options;
    stats.counter(
      "snapshots_refused_total",
      "Configuration snapshots that a data worker could not use; the old one stays",
    ).add(1);
    if (this.refused[0]?.reason !== reason) {
      const stays = this.published ? "the old one serves on" : "nothing is served";
      log.error(`snapshot refused, ${stays}`, { version, reason });
      const text = `snapshot refused, ${stays}: ${reason}`;
      report?.({ kind: "source", subject: "snapshot", text, severity: "error", isLogged: true });
    }
    this.refused = [{ what: "snapshot", reason }];
  }

  /** Gives the snapshot in force to members that lack it, without waiting for them. */
  #bringUp(): void {
    const { members } = this.#options;
    const snapshot = this.published;
    if (!snapshot) return;
    for (const member of members) {
      if (member.published === snapshot || this.#busy.has(member)) continue;
      void this.#occupy(member, () => this.#bring(member, snapshot));
    }
    const isSettled = members.every((member) =>
      !this.#busy.has(member) && (member.published === snapshot || !member.published)
    );
    if (isSettled) this.#columns.settled(snapshot);
  }

  async #bring(member: RolloutMember, snapshot: Snapshot): Promise<boolean> {
    try {
      if (!await member.prepare(snapshot)) return false;
    } catch (error) {
      member.giveUp(`it refuses the snapshot in force: ${messageOf(error)}`);
      return false;
    }
    // A newer one may have come into force meanwhile.
    if (this.published !== snapshot) return true;
    return await publish(member, snapshot, this.#columns.for(snapshot)) !== undefined;
  }

  /** `task` resolves with true when the member is there; then {@link look} runs again. */
  async #occupy(member: RolloutMember, task: () => Promise<boolean>): Promise<void> {
    const looks = this.#looks;
    this.#busy.add(member);
    const isThere = await task();
    this.#busy.delete(member);
    // A busy member was passed over.
    if (isThere || looks !== this.#looks) this.look();
  }

  /** Resolves with `work`, or after the time limit. */
  async #within(work: Promise<unknown>): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = this.#options.clock.after(ANSWER_LIMIT_MS, () => late.resolve());
    await Promise.race([work, late.promise]);
    timer.cancel();
  }
}

/** Whether plugins from files may be created for `next`. */
function createsPlugins(previous: Snapshot | undefined, next: Snapshot): boolean {
  if (Object.keys(next.pluginCode).length === 0) return false;
  const { pluginCode, inbound, upstreams, edges, chains } = diffSnapshots(previous, next);
  const changed = [pluginCode, inbound, upstreams, edges, chains];
  return changed.some((parts) => Object.keys(parts).length > 0);
}

/** Never rejects. `undefined`: the member is given up. */
async function publish(
  member: RolloutMember,
  snapshot: Snapshot,
  columns: Columns,
): Promise<readonly PublishEffect[] | undefined> {
  try {
    return await member.publish(snapshot, columns);
  } catch (error) {
    member.giveUp(`it could not publish what it had prepared: ${messageOf(error)}`);
    return undefined;
  }
}

export class ColumnTable {
  readonly #counts: SharedCounts;
  readonly #columns = new Map<string, number>();
  /** Upstreams without listeners; connections may still be open. */
  readonly #leaving = new Set<string>();
  readonly #free: number[] = [];
  #used = 0;
  #latest: { readonly snapshot: Snapshot; readonly columns: Columns } | undefined;

  constructor(counts: SharedCounts) {
    this.#counts = counts;
  }

  /** Columns of all upstreams of `snapshot`, except those without room. */
  for(snapshot: Snapshot): Columns {
    if (this.#latest?.snapshot === snapshot) return this.#latest.columns;
    const columns: Record<string, number> = {};
    const ids = Object.keys(snapshot.upstreams);
    for (const id of ids) this.#leaving.delete(id);
    this.#takeBack();
    for (const id of ids) {
      const column = this.#columns.get(id) ?? this.#assign(id);
      if (column !== undefined) columns[id] = column;
    }
    this.#latest = { snapshot, columns };
    return columns;
  }

  /** Called once all workers use `snapshot` and no other is under way. */
  settled(snapshot: Snapshot): void {
    for (const id of this.#columns.keys()) {
      if (!snapshot.upstreams[id]) this.#leaving.add(id);
    }
    this.#takeBack();
  }

  #assign(id: string): number | undefined {
    const column = this.#free.pop() ??
      (this.#used < MAX_UPSTREAMS
        ? FIRST_UPSTREAM_COLUMN + UPSTREAM_COLUMNS * this.#used++
        : undefined);
    if (column !== undefined) this.#columns.set(id, column);
    return column;
  }

  #takeBack(): void {
    for (const id of this.#leaving) {
      const column = this.#columns.get(id);
      if (column === undefined || this.#isUsed(column)) continue;
      this.#leaving.delete(id);
      this.#columns.delete(id);
      this.#free.push(column);
    }
  }

  #isUsed(first: number): boolean {
    for (let i = 0; i < UPSTREAM_COLUMNS; i++) if (this.#counts.total(first + i) > 0) return true;
    return false;
  }
}
