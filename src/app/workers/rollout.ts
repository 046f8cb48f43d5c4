/**
 * Puts a snapshot in force: all data paths prepare it, and only when none of them refuses, all publish it.
 * Where plugins of a listener are refused, the listener keeps those that it has, in all data paths, and the
 * new ones are tried again. Any other refusal is that of the whole snapshot: the old state serves on.
 *
 * A data path that is gone, being started, or still owes an answer does not decide; it gets the snapshot in
 * force as soon as it can answer. One that cannot take that snapshot is given up.
 *
 * @module
 */

import {
  Backoff,
  type Clock,
  type Log,
  messageOf,
  type Random,
  type ReportEvent,
  type Stats,
  systemRandom,
  type Timer,
} from "../../base/mod.ts";
import { type ListenerRefusal, PluginsRefused } from "../../plugin/mod.ts";
import type { Columns, PublishEffect, SharedCounts } from "../../proxy/mod.ts";
import {
  diffSnapshots,
  keepSnapshot,
  type Refusal,
  REFUSED_HELP,
  type Snapshot,
} from "../../snapshot/mod.ts";
import { ColumnTable } from "./column_table.ts";
import {
  keepMore,
  keepPlugins,
  type KeptPlugins,
  PLUGIN_RETRY,
  RefusedPlugins,
} from "./refused_plugins.ts";

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
  /** Replaced in tests. */
  readonly random?: Random;
}

/** Time that others wait for a data path that does not answer; a healthy one answers earlier. */
const ANSWER_LIMIT_MS = 12_000;

export class Rollout {
  /** The snapshot in force. */
  published: Snapshot | undefined;
  /** The newest snapshot that came into force, as it was wanted: some listeners may have kept their plugins. */
  taken: Snapshot | undefined;
  /** Called when another try has changed the state in force. */
  onRetried: (() => void) | undefined;
  readonly #options: RolloutOptions;
  readonly #columns: ColumnTable;
  readonly #plugins: RefusedPlugins;
  /** Why the newest snapshot is refused whole; `undefined`: it is not. */
  #refusal: string | undefined;
  /** Tries of a snapshot that is refused whole because of plugins. */
  readonly #tries: Backoff;
  #dueMs = Infinity;
  #retry: Timer | undefined;
  #refusedCount = 0;
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
    const { clock, log, report, random = systemRandom } = options;
    this.#plugins = new RefusedPlugins({ clock, log, report, random });
    this.#tries = new Backoff({ ...PLUGIN_RETRY, random });
  }

  /** The parts of the newest snapshot that are not in force, with the reasons. */
  get refused(): readonly Refusal[] {
    const reason = this.#refusal;
    return [...reason === undefined ? [] : [{ what: "snapshot", reason }], ...this.#plugins.list];
  }

  /** The next snapshot, or {@link retryDue}, tries again what was refused. */
  setDue(): void {
    this.#plugins.setDue();
    if (this.#refusal !== undefined) this.#dueMs = -Infinity;
  }

  /** Tries again what was refused and is due. */
  async retryDue(): Promise<void> {
    const dueMs = Math.min(this.#plugins.dueMs, this.#dueMs);
    if (!this.#wanted || dueMs > this.#options.clock.monotonic()) return;
    const before = [this.published, this.taken];
    await this.apply(this.#wanted);
    if (this.published !== before[0] || this.taken !== before[1]) this.onRetried?.();
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
    this.#retry?.cancel();
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

  async #decide(wanted: Snapshot): Promise<void> {
    const turn = this.#applied;
    const fresh: ListenerRefusal[] = [];
    let kept: KeptPlugins = this.#plugins.known(wanted);
    for (;;) {
      const tried = kept.size === 0
        ? wanted
        : keepSnapshot(this.published, keepPlugins(wanted, this.published, kept));
      // Nothing else has changed.
      if (tried === this.published && tried !== wanted) {
        this.#taken(wanted, tried);
        break;
      }
      const { prepared, refusals } = await this.#verdicts(tried);
      if (this.#closed) return;
      // Without any member, the first one that comes decides.
      if (prepared.length === 0 && refusals.length === 0) return;
      if (refusals.length === 0) {
        this.#taken(wanted, tried);
        await this.#publish(tried, prepared);
        break;
      }
      for (const member of prepared) member.abandon();
      const plugins = refusals.flatMap((error) => error instanceof PluginsRefused ? [error] : []);
      const own = plugins.flatMap((error) => error.refusals);
      fresh.push(...own);
      const isOfPlugins = plugins.length === refusals.length;
      const more = isOfPlugins
        ? keepMore(kept, own, { wanted, published: this.published })
        : undefined;
      if (!more) {
        const mayRetry = isOfPlugins && !own.some(({ isHeld }) => isHeld);
        this.#refuse(wanted, refusals, mayRetry);
        break;
      }
      kept = more;
    }
    if (this.#refusal === undefined) this.#plugins.decided(wanted, kept, fresh);
    this.#count(fresh.length > 0 || this.#refusal !== undefined);
    this.#decided = turn;
    this.#retryLater();
    const decision = this.#decision;
    this.#decision = Promise.withResolvers();
    decision.resolve();
  }

  #retryLater(): void {
    const { clock } = this.#options;
    this.#retry?.cancel();
    const dueMs = Math.min(this.#plugins.dueMs, this.#dueMs);
    if (dueMs === Infinity) return;
    this.#retry = clock.after(
      Math.max(0, dueMs - clock.monotonic()),
      () => void this.retryDue(),
    );
  }

  /** Verdicts that come in time. Without any answer, the first one is waited for. */
  async #verdicts(snapshot: Snapshot) {
    const prepared: RolloutMember[] = [];
    /** By message. */
    const refusals = new Map<string, unknown>();
    let isOver = false;
    const first = Promise.withResolvers<void>();
    const ask = (member: RolloutMember) =>
      this.#occupy(member, async () => {
        try {
          if (!await member.prepare(snapshot)) return false;
          if (isOver) member.abandon();
          else prepared.push(member);
        } catch (error) {
          refusals.set(messageOf(error), error);
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
    return { prepared, refusals: [...refusals.values()] };
  }

  /** `wanted` comes into force as `snapshot`. */
  #taken(wanted: Snapshot, snapshot: Snapshot): void {
    const { log, stats, report } = this.#options;
    const { version } = snapshot;
    this.taken = wanted;
    this.published = snapshot;
    if (this.#refusal !== undefined) {
      log.info("snapshot taken again", { version });
      report?.({
        kind: "source",
        subject: "snapshot",
        text: "snapshot taken again",
        isLogged: true,
      });
    }
    this.#refusal = undefined;
    this.#tries.reset();
    this.#dueMs = Infinity;
    stats.gauge(
      "snapshot_version",
      "Version of the configuration snapshot in use; each one put in force has a higher one",
    ).set(version);
  }

  async #publish(snapshot: Snapshot, prepared: readonly RolloutMember[]): Promise<void> {
    const columns = this.#columns.for(snapshot);
    const publishing = prepared.map((member) =>
      this.#occupy(member, async () => {
        const ended = await publish(member, snapshot, columns);
        this.#effects.push(...ended ?? []);
        return ended !== undefined;
      })
    );
    await this.#within(Promise.all(publishing));
  }

  #refuse({ version }: Snapshot, errors: readonly unknown[], mayRetry: boolean): void {
    const { clock, log, report } = this.#options;
    const reason = errors.map(messageOf).join("; ");
    if (this.#refusal !== reason) {
      const stays = this.published ? "the old one serves on" : "nothing is served";
      log.error(`snapshot refused, ${stays}`, { version, reason });
      const text = `snapshot refused, ${stays}: ${reason}`;
      report?.({ kind: "source", subject: "snapshot", text, severity: "error", isLogged: true });
    }
    this.#refusal = reason;
    this.#plugins.postpone();
    this.#dueMs = mayRetry ? clock.monotonic() + this.#tries.next() : Infinity;
  }

  #count(isRefused: boolean): void {
    const { stats } = this.#options;
    const refused = stats.counter(
      "snapshots_refused_total",
      "Times that data workers could not use a configuration snapshot, or plugins of listeners in it",
    );
    if (isRefused) refused.add(1);
    const count = this.refused.length;
    stats.gauge("snapshot_refused", REFUSED_HELP).add(count - this.#refusedCount);
    this.#refusedCount = count;
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
