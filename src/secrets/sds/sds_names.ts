/** The names subscribed at one SDS server, with their followers and the last spec of each. @module */

import { type Clock, messageOf } from "../../base/mod.ts";
import type { PlainMessage } from "../../wire/mod.ts";
import type { OfferedResource, ResourceHost, XdsStream } from "../../xds/mod.ts";
import { parseSecret, SPEC_NOUNS } from "../envoy/envoy_secret.ts";
import { filesOf, withDefaults } from "../load/mod.ts";
import type { FileEvents, SecretEvents, SecretRef, SecretWatch } from "../model/plan.ts";
import type { Secret, SecretSpec } from "../model/secret.ts";
import type { SdsStats } from "./sds_reports.ts";

export interface NameEntry {
  readonly name: string;
  readonly followers: Set<SdsFollower>;
  /** The stream on which it is subscribed; `undefined`: not yet. */
  stream: XdsStream<PlainMessage> | undefined;
  /** The last spec that could be read, for followers that come later. */
  held:
    | { readonly spec: SecretSpec; readonly version: string; readonly digest: string }
    | undefined;
}

interface NamesOptions extends Pick<SdsFollowerOptions, "load" | "followFiles"> {
  readonly clock: Clock;
  readonly stats: SdsStats;
  /** Names that are to be subscribed and unsubscribed: in one request for one turn of the event loop. */
  readonly onChange: (added: readonly NameEntry[], gone: readonly NameEntry[]) => void;
}

/** How long certificates are checked in a row before traffic gets its turn. */
const TURN_MS = 1;

export class SecretNames implements ResourceHost<PlainMessage> {
  readonly #options: NamesOptions;
  readonly #entries = new Map<string, NameEntry>();
  /** Names whose subscription has changed in this turn. */
  readonly #changed = new Set<NameEntry>();
  #turnEndsMs = 0;

  constructor(options: NamesOptions) {
    this.#options = options;
  }

  all(): Iterable<NameEntry> {
    return this.#entries.values();
  }

  each(names: Iterable<string>, fn: (follower: SdsFollower) => void): void {
    for (const name of names) this.#entries.get(name)?.followers.forEach(fn);
  }

  watch(ref: SecretRef, events: SecretEvents): SecretWatch {
    const { name } = ref;
    let entry = this.#entries.get(name);
    if (!entry) {
      entry = { name, followers: new Set(), stream: undefined, held: undefined };
      this.#entries.set(name, entry);
      this.#change(entry);
    }
    const followed = entry;
    const { followers, held } = followed;
    const follower = new SdsFollower({ ...this.#options, ref, events });
    followers.add(follower);
    if (held) queueMicrotask(() => void follower.offer(held.spec, held.version));
    return {
      refresh: () => {
        followed.stream?.refresh();
        return follower.refresh();
      },
      close: () => {
        follower.close();
        if (!followers.delete(follower) || followers.size > 0) return;
        this.#entries.delete(name);
        this.#change(followed);
      },
    };
  }

  async accept(offered: OfferedResource<PlainMessage>): Promise<string | undefined> {
    const { name, version, digest } = offered;
    const { stats, followFiles } = this.#options;
    await this.#turn();
    const entry = this.#entries.get(name);
    if (!entry) return undefined;
    stats.add("attempt", name);
    try {
      const held = entry.held?.digest === digest ? entry.held : undefined;
      const allowFiles = followFiles !== undefined;
      const { spec } = held ?? parseSecret(offered.read(), { allowFiles });
      // Unchanged bytes are offered again only to followers that could not use them.
      const followers = [...entry.followers].filter((of) => !held || of.hasFault);
      entry.held = { spec, version, digest };
      const outcomes = await Promise.all(followers.map((of) => of.offer(spec, version)));
      const reason = outcomes.find((outcome) => outcome !== undefined);
      stats.add(reason === undefined ? "success" : "rejected", name);
      return reason;
    } catch (error) {
      const reason = messageOf(error);
      this.rejected(name, reason);
      return reason;
    }
  }

  rejected(name: string, reason: string): void {
    this.#options.stats.add("rejected", name);
    this.each([name], (of) => of.reject(reason));
  }

  removed(name: string): void {
    const entry = this.#entries.get(name);
    if (!entry) return;
    entry.held = undefined;
    for (const follower of entry.followers) follower.remove();
  }

  close(): void {
    for (const { followers } of this.#entries.values()) followers.forEach((of) => of.close());
    this.#entries.clear();
    this.#changed.clear();
  }

  #change(entry: NameEntry): void {
    if (this.#changed.size === 0) queueMicrotask(() => this.#publish());
    this.#changed.add(entry);
  }

  #publish(): void {
    const isCurrent = (entry: NameEntry) => this.#entries.get(entry.name) === entry;
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const { name } of changed) if (!this.#entries.has(name)) this.#options.stats.forget(name);
    this.#options.onChange(
      changed.filter((entry) => isCurrent(entry) && !entry.stream),
      changed.filter((entry) => !isCurrent(entry) && entry.stream),
    );
  }

  async #turn(): Promise<void> {
    const { clock } = this.#options;
    if (clock.monotonic() < this.#turnEndsMs) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#turnEndsMs = clock.monotonic() + TURN_MS;
  }
}

interface SdsFollowerOptions {
  readonly ref: SecretRef;
  readonly events: SecretEvents;
  /** Decodes and checks; throws `credentials_invalid`. */
  readonly load: (spec: SecretSpec) => Promise<Secret>;
  /** Follows the files that a spec names; absent: a server may not name any. */
  readonly followFiles: FollowFiles | undefined;
}

/** Follows files like their provider; the first reading has events, too. */
export type FollowFiles = (spec: SecretSpec, ref: SecretRef, events: FileEvents) => SecretWatch;

export class SdsFollower {
  readonly #options: SdsFollowerOptions;
  /** Files of the last spec that names some and was not refused outright. */
  #files: SecretWatch | undefined;
  /** The server's last offer was refused, whatever its files are now. */
  #isRefused = false;
  /** The files cannot be used. */
  #isTorn = false;
  /** Changes when a running load must not count any more. */
  #epoch = 0;
  #giveUp: (() => void) | undefined;
  #closed = false;

  constructor(options: SdsFollowerOptions) {
    this.#options = options;
  }

  get events(): SecretEvents {
    return this.#options.events;
  }

  /** The last offer cannot be used. */
  get hasFault(): boolean {
    return this.#isRefused || this.#isTorn;
  }

  /** Returns why the offer cannot be used; `undefined`: it is in use. Never rejects. */
  async offer(spec: SecretSpec, version: string): Promise<string | undefined> {
    // A value that was held before `watch` is offered later, and may come too late.
    if (this.#closed) return undefined;
    const { ref, load, followFiles } = this.#options;
    const epoch = this.#nextEpoch();
    if (spec.type !== ref.type) {
      return this.reject(
        `it is a ${SPEC_NOUNS[spec.type]}, and a ${SPEC_NOUNS[ref.type]} is wanted`,
      );
    }
    if (followFiles && namesFiles(spec)) return await this.#follow(spec, version, followFiles);
    try {
      const secret = await load(withDefaults(spec, ref.defaults));
      if (this.#epoch !== epoch) return undefined;
      this.#stopFiles();
      this.#isRefused = false;
      this.events.onSecret(secret, version);
      return undefined;
    } catch (error) {
      const reason = messageOf(error);
      return this.#epoch === epoch ? this.reject(reason) : reason;
    }
  }

  /** Returns the reason. */
  reject(reason: string): string {
    this.#isRefused = true;
    this.#report(reason);
    return reason;
  }

  remove(): void {
    this.#nextEpoch();
    this.#stopFiles();
    this.#isRefused = false;
    this.events.onRemoved();
  }

  refresh(): void | Promise<void> {
    return this.#files?.refresh();
  }

  close(): void {
    this.#closed = true;
    this.#nextEpoch();
    this.#stopFiles();
  }

  #follow(spec: SecretSpec, version: string, follow: FollowFiles): Promise<string | undefined> {
    this.#isRefused = false;
    const before = this.#files;
    return new Promise((resolve) => {
      this.#giveUp = () => resolve(undefined);
      // A later offer that is refused leaves these files in force.
      const isCurrent = () => this.#files === watch;
      const watch = this.#files = follow(spec, this.#options.ref, {
        onSecret: (secret) => {
          resolve(undefined);
          if (!isCurrent()) return;
          this.#isTorn = false;
          this.events.onSecret(secret, version);
        },
        // The files stay watched although the server gets a NACK: they may still come.
        onRejected: (reason) => {
          resolve(reason);
          if (!isCurrent()) return;
          this.#isTorn = true;
          this.#report(reason);
        },
        onRecovered: () => {
          if (!isCurrent()) return;
          this.#isTorn = false;
          this.events.onRecovered();
        },
      });
      before?.close();
    });
  }

  #nextEpoch(): number {
    // A wait for files that are not wanted any more would never end.
    this.#giveUp?.();
    this.#giveUp = undefined;
    return ++this.#epoch;
  }

  #report(reason: string): void {
    this.events.onRejected(`Cannot use "${this.#options.ref.name}": ${reason}`);
  }

  #stopFiles(): void {
    this.#files?.close();
    this.#files = undefined;
    this.#isTorn = false;
  }
}

/** The system's roots do not count: the configuration names them, not the server. */
function namesFiles(spec: SecretSpec): boolean {
  return filesOf(spec.type === "validation" ? { ...spec, systemRoots: false } : spec).length > 0;
}
