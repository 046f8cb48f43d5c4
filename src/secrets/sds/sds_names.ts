/**
 * The names subscribed at one SDS server, with their followers and the last spec of each: the host of the
 * discovery protocol.
 *
 * @module
 */

import { type Clock, messageOf } from "../../base/mod.ts";
import { parseSecret } from "../envoy/envoy_secret.ts";
import type { SecretSpec } from "../model/spec.ts";
import type { PlainMessage } from "../../wire/mod.ts";
import type { OfferedResource, ResourceHost, XdsStream } from "../../xds/mod.ts";
import type { SdsFollower } from "./sds_follower.ts";
import type { SdsStats } from "./sds_reports.ts";

/** One name and its followers. */
export interface NameEntry {
  readonly name: string;
  readonly followers: Set<SdsFollower>;
  /** The stream on which it is subscribed; `undefined`: not yet. */
  stream: XdsStream<PlainMessage> | undefined;
  /** The last spec that could be read, for followers that come later. */
  held: HeldSpec | undefined;
}

interface HeldSpec {
  readonly spec: SecretSpec;
  readonly version: string;
  readonly digest: string;
}

interface NamesOptions {
  readonly clock: Clock;
  readonly stats: SdsStats;
  /** Whether the server may name files of this machine. */
  readonly allowFiles: boolean;
}

/** How long certificates are checked in a row before traffic gets its turn. */
const TURN_MS = 1;

export class SecretNames implements ResourceHost<PlainMessage> {
  readonly #options: NamesOptions;
  readonly #entries = new Map<string, NameEntry>();
  #turnEndsMs = 0;

  constructor(options: NamesOptions) {
    this.#options = options;
  }

  get(name: string): NameEntry | undefined {
    return this.#entries.get(name);
  }

  all(): Iterable<NameEntry> {
    return this.#entries.values();
  }

  /** A new name, without followers. */
  add(name: string): NameEntry {
    const entry = { name, followers: new Set<SdsFollower>(), stream: undefined, held: undefined };
    this.#entries.set(name, entry);
    return entry;
  }

  delete(name: string): void {
    this.#entries.delete(name);
  }

  /** Calls `fn` with each follower of these names. */
  each(names: Iterable<string>, fn: (follower: SdsFollower) => void): void {
    for (const name of names) this.#entries.get(name)?.followers.forEach(fn);
  }

  async accept(offered: OfferedResource<PlainMessage>): Promise<string | undefined> {
    const { name, version, digest } = offered;
    const { stats, allowFiles } = this.#options;
    await this.#turn();
    const entry = this.#entries.get(name);
    if (!entry) return undefined;
    stats.add("attempt", name);
    try {
      const held = entry.held?.digest === digest ? entry.held : undefined;
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

  /** Ends every follower. */
  close(): void {
    for (const { followers } of this.#entries.values()) followers.forEach((of) => of.close());
    this.#entries.clear();
  }

  async #turn(): Promise<void> {
    const { clock } = this.#options;
    if (clock.monotonic() < this.#turnEndsMs) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#turnEndsMs = clock.monotonic() + TURN_MS;
  }
}
