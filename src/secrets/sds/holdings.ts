/**
 * A subscription: its names, and of each the version that is in use and the time that it has to live.
 * It lives on over streams.
 *
 * @module
 */

import type { Clock, Timer } from "../../base/mod.ts";
import type { SdsResource } from "./sds_messages.ts";
import type { OfferedSecret, ProtocolHost, ResponseFaults } from "./sds_protocol.ts";

/** What the variants of the protocol see differently. */
export interface ResponseRules {
  /** False: the stream that it came over has gone. */
  isCurrent(): boolean;
  /** Whether it says that what is in use lives on, and no more. */
  isHeartbeat(resource: SdsResource): boolean;
  /** What is wrong with one of a name that is not followed; `undefined`: nothing. */
  unexpected(resource: SdsResource): string | undefined;
}

/** A day: a clock's longest timer is shorter than what a server may say. */
const LONGEST_TIMER_MS = 86_400_000;

export class Holdings {
  readonly #host: ProtocolHost;
  readonly #clock: Clock;
  readonly #names = new Set<string>();
  readonly #versions = new Map<string, string>();
  readonly #expiries = new Map<string, Timer>();

  constructor(host: ProtocolHost, clock: Clock) {
    this.#host = host;
    this.#clock = clock;
  }

  get names(): ReadonlySet<string> {
    return this.#names;
  }

  /** A version of each name is in use. */
  get isComplete(): boolean {
    return this.#names.size > 0 && [...this.#names].every((name) => this.#versions.has(name));
  }

  /** By name, of what is in use. */
  get versions(): ReadonlyMap<string, string> {
    return this.#versions;
  }

  /** Takes up names and gives up others; what that changed. */
  change(
    subscribe: readonly string[],
    unsubscribe: readonly string[],
  ): { readonly added: readonly string[]; readonly gone: readonly string[] } {
    const gone = unsubscribe.filter((name) => this.#names.delete(name));
    for (const name of gone) this.#forget(name);
    const added = subscribe.filter((name) => !this.#names.has(name));
    for (const name of added) this.#names.add(name);
    return { added, gone };
  }

  /** Deals with what a response brings, one after the other; `faults` gets what is wrong with it. */
  async take(
    resources: readonly SdsResource[],
    faults: ResponseFaults,
    rules: ResponseRules,
  ): Promise<void> {
    const counts = Map.groupBy(resources, ({ name }) => name);
    for (const resource of resources) {
      if (!rules.isCurrent()) return;
      const { name } = resource;
      const isTwice = (counts.get(name)?.length ?? 0) > 1;
      if (!this.#names.has(name)) {
        const fault = rules.unexpected(resource);
        if (fault !== undefined) faults.add(fault);
      } else if (!isTwice && rules.isHeartbeat(resource)) this.#renew(resource);
      else {
        const reason = await this.#use(resource, isTwice);
        if (reason !== undefined) faults.add(`${name}: ${reason}`);
      }
    }
  }

  /** There is none any more. */
  remove(name: string): void {
    this.#forget(name);
    this.#host.removed(name);
  }

  /** Ends timers. */
  close(): void {
    for (const timer of this.#expiries.values()) timer.cancel();
    this.#expiries.clear();
  }

  /** Refuses, or takes into use; the reason is told to the host where it does not know it already. */
  async #use(resource: SdsResource, isTwice: boolean): Promise<string | undefined> {
    const { name, version } = resource;
    const offered = isTwice ? "it is in the response twice" : offeredOf(resource);
    if (typeof offered === "string") {
      this.#host.rejected(name, offered);
      return offered;
    }
    const reason = await this.#host.accept(offered);
    // Given up while it was looked at: nobody knows it now.
    if (reason !== undefined || !this.#names.has(name)) return reason;
    this.#versions.set(name, version);
    this.#renew(resource);
    return undefined;
  }

  /** What is in use lives on for its time, or for ever where it has none. */
  #renew({ name, ttlMs }: SdsResource): void {
    this.#expiries.get(name)?.cancel();
    this.#expiries.delete(name);
    if (ttlMs !== undefined) this.#expireAfter(name, ttlMs);
  }

  #expireAfter(name: string, ttlMs: number): void {
    const partMs = Math.min(ttlMs, LONGEST_TIMER_MS);
    const timer = this.#clock.after(partMs, () => {
      if (ttlMs > partMs) this.#expireAfter(name, ttlMs - partMs);
      else this.remove(name);
    });
    this.#expiries.set(name, timer);
  }

  #forget(name: string): void {
    this.#versions.delete(name);
    this.#expiries.get(name)?.cancel();
    this.#expiries.delete(name);
  }
}

/** The content that can be used, or why there is none. */
function offeredOf({ name, version, content }: SdsResource): OfferedSecret | string {
  switch (content.kind) {
    case "secret":
      return { name, version, digest: content.digest, read: content.read };
    case "unreadable":
      return content.reason;
    case "heartbeat":
      return "it is not there";
  }
}
