/**
 * How a snapshot comes into force: all data paths prepare it, and only when none of them refuses, all
 * publish it. A refused one is refused whole: the old state serves on everywhere, and it is not asked
 * about again; the next one is.
 *
 * A data path that is gone, being started, or still owes an answer has no say; it gets what is in force
 * as soon as it can be asked. One that cannot take that is given up.
 *
 * @module
 */

import { type Clock, type Log, messageOf, type Stats } from "../../base/mod.ts";
import type { Columns, SharedCounts } from "../../proxy/mod.ts";
import type { Refusal, Snapshot } from "../../snapshot/mod.ts";
import { ColumnTable } from "./columns.ts";

/** A data path as those see it that tell it what is true. */
export interface RolloutMember {
  /** What it was last told to publish; `undefined`: it has nothing, or is gone. */
  readonly published: Snapshot | undefined;
  /** False: it has no say, as it is gone or not there yet. Rejects with why it refuses. */
  prepare(snapshot: Snapshot): Promise<boolean>;
  /** What it prepared last. */
  publish(snapshot: Snapshot, columns: Columns): Promise<void>;
  /** What it prepared last is not to be published. */
  abandon(): void;
  /** It serves something else than the others. */
  giveUp(reason: string): void;
}

interface RolloutOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly counts: SharedCounts;
  readonly members: readonly RolloutMember[];
}

/** Others wait so long for a data path that does not answer; one that can answer does so earlier. */
const ANSWER_LIMIT_MS = 12_000;

export class Rollout {
  /** In force. */
  published: Snapshot | undefined;
  /** Why the newest one is not. */
  refused: readonly Refusal[] = [];
  readonly #options: RolloutOptions;
  readonly #columns: ColumnTable;
  /** They were asked something, and are asked nothing else until it is over. */
  readonly #busy = new Set<RolloutMember>();
  #wanted: Snapshot | undefined;
  /** How often a snapshot was wanted, and which of those times has been decided. */
  #asked = 0;
  #decided = 0;
  #decision = Promise.withResolvers<void>();
  #isLooking = false;
  /** How often there was a reason to look. */
  #looks = 0;
  #closed = false;

  constructor(options: RolloutOptions) {
    this.#options = options;
    this.#columns = new ColumnTable(options.counts);
  }

  /** Resolves when it or a later one is in force or refused; of those that wait only the newest is tried. */
  async apply(snapshot: Snapshot): Promise<void> {
    this.#wanted = snapshot;
    const turn = ++this.#asked;
    this.look();
    while (this.#decided < turn && !this.#closed) await this.#decision.promise;
  }

  /** To be called when a member has come that has no snapshot. */
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
      if (this.#wanted && this.#decided < this.#asked) await this.#decide(this.#wanted);
      this.#bringUp();
    }
    this.#isLooking = false;
  }

  async #decide(snapshot: Snapshot): Promise<void> {
    const turn = this.#asked;
    const columns = this.#columns.for(snapshot);
    const { prepared, refusals } = await this.#verdicts(snapshot);
    if (this.#closed) return;
    // Nobody is there to say anything: who comes first is asked.
    if (prepared.length === 0 && refusals.length === 0) return;
    if (refusals.length > 0) {
      this.#refuse(snapshot, refusals.join("; "));
      for (const member of prepared) member.abandon();
    } else {
      this.#publish(snapshot);
      const publishing = prepared.map((member) =>
        this.#occupy(member, () => publish(member, snapshot, columns))
      );
      await this.#within(Promise.all(publishing));
    }
    this.#decided = turn;
    const decision = this.#decision;
    this.#decision = Promise.withResolvers();
    decision.resolve();
  }

  /** Of those that answer in time. Without any answer there are no others to wait for it. */
  async #verdicts(
    snapshot: Snapshot,
  ): Promise<
    { readonly prepared: readonly RolloutMember[]; readonly refusals: readonly string[] }
  > {
    const prepared: RolloutMember[] = [];
    const refusals = new Set<string>();
    let isOver = false;
    const first = Promise.withResolvers<void>();
    const all = Promise.all(
      this.#options.members.filter((member) => !this.#busy.has(member)).map((member) =>
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
        })
      ),
    );
    await this.#within(all);
    await Promise.race([all, first.promise]);
    isOver = true;
    return { prepared, refusals: [...refusals] };
  }

  #publish(snapshot: Snapshot): void {
    const { log, stats } = this.#options;
    const { version } = snapshot;
    this.published = snapshot;
    if (this.refused.length > 0) log.info("snapshot taken again", { version });
    this.refused = [];
    stats.gauge(
      "snapshot_version",
      "Version of the configuration snapshot in use; each one put in force has a higher one",
    ).set(version);
  }

  #refuse({ version }: Snapshot, reason: string): void {
    const { log, stats } = this.#options;
    stats.counter(
      "snapshots_refused_total",
      "Configuration snapshots that a data worker could not use; the old one stays",
    ).add(1);
    if (this.refused[0]?.reason !== reason) {
      const stays = this.published ? "the old one serves on" : "nothing is served";
      log.error(`snapshot refused, ${stays}`, { version, reason });
    }
    this.refused = [{ what: "snapshot", reason }];
  }

  /** Those that do not have what is in force; nobody waits for them. */
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
    return await publish(member, snapshot, this.#columns.for(snapshot));
  }

  /** `task` tells whether the member is there: then it is looked what it lacks by now. */
  async #occupy(member: RolloutMember, task: () => Promise<boolean>): Promise<void> {
    const looks = this.#looks;
    this.#busy.add(member);
    const isThere = await task();
    this.#busy.delete(member);
    // While it was busy it was passed over.
    if (isThere || looks !== this.#looks) this.look();
  }

  /** Resolves with `work`, or when that takes too long. */
  async #within(work: Promise<unknown>): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = this.#options.clock.after(ANSWER_LIMIT_MS, () => late.resolve());
    await Promise.race([work, late.promise]);
    timer.cancel();
  }
}

/** Never rejects. False: it is given up. */
async function publish(
  member: RolloutMember,
  snapshot: Snapshot,
  columns: Columns,
): Promise<boolean> {
  try {
    await member.publish(snapshot, columns);
    return true;
  } catch (error) {
    member.giveUp(`it could not publish what it had prepared: ${messageOf(error)}`);
    return false;
  }
}
