/** The state of a subscription that outlives its streams: names, versions, times to live. @module */

import type { Clock, Random, Timer } from "../base/mod.ts";
import type { ErrorDetail, ResourceType, XdsClient, XdsResource } from "./messages.ts";

export interface OfferedResource<T> {
  readonly name: string;
  readonly version: string;
  readonly digest: string;
  readonly read: () => T;
}

/** Uses the resources. Called only while a message is handled, or by a timer (TTL). */
export interface ResourceHost<T> {
  /** Puts a resource into use; the returned reason refuses it. Never rejects. */
  accept(offered: OfferedResource<T>): Promise<string | undefined>;
  /** A response cannot be used for this name, for a reason that `accept` did not return. */
  rejected(name: string, reason: string): void;
  /** The server says that there is no such resource, or its time to live has run out. */
  removed(name: string): void;
}

export interface ProtocolOptions<T, Request> {
  readonly type: ResourceType<T>;
  readonly client: XdsClient;
  readonly send: (request: Request) => void;
  readonly host: ResourceHost<T>;
  readonly clock: Clock;
  readonly random: Random;
}

/** gRPC's INTERNAL, as Envoy sends it. */
const NACK_CODE = 13;
const DETAIL_LIMIT = 4096;
const TRUNCATED = "... (truncated)";

export class ResponseFaults {
  readonly #texts: string[] = [];
  #length = 0;

  get any(): boolean {
    return this.#texts.length > 0;
  }

  add(text: string): void {
    // One more text than fits shows that there were more.
    if (this.#length <= DETAIL_LIMIT) this.#texts.push(text);
    this.#length += text.length + 2;
  }

  detail(): ErrorDetail {
    const text = this.#texts.join("; ");
    const message = text.length <= DETAIL_LIMIT
      ? text
      : text.slice(0, DETAIL_LIMIT - TRUNCATED.length) + TRUNCATED;
    return { code: NACK_CODE, message };
  }
}

interface ResponseRules<T> {
  /** A fault of the response as a whole. */
  readonly fault: string | undefined;
  /** False: the stream of the response is gone. */
  isCurrent(): boolean;
  /** Whether a heartbeat is about the version in use. */
  isKnown(heartbeat: XdsResource<T>): boolean;
  /** The fault of a resource whose name is not subscribed; `undefined`: none. */
  unexpected(resource: XdsResource<T>): string | undefined;
}

/** A day: a server's time to live may be longer than a clock's longest timer. */
const LONGEST_TIMER_MS = 86_400_000;

export class HeldResources<T> {
  readonly #options: ProtocolOptions<T, never>;
  readonly #names = new Set<string>();
  readonly #versions = new Map<string, string>();
  readonly #expiries = new Map<string, Timer>();

  constructor(options: ProtocolOptions<T, never>) {
    this.#options = options;
  }

  get names(): ReadonlySet<string> {
    return this.#names;
  }

  /** A version of every name is in use, so a server with no change need not answer a new stream. */
  get isComplete(): boolean {
    return this.#names.size > 0 && [...this.#names].every((name) => this.#versions.has(name));
  }

  get versions(): ReadonlyMap<string, string> {
    return this.#versions;
  }

  /** The name, if it is the only one. */
  get only(): string | undefined {
    return this.#names.size === 1 ? [...this.#names][0] : undefined;
  }

  /** Returns the names that were not subscribed before, and those that are not any more. */
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

  /** Handles the resources of a response one after the other, then its removals. */
  async take(
    { typeUrl, resources, removed = [] }: {
      readonly typeUrl: string;
      readonly resources: readonly XdsResource<T>[];
      readonly removed?: readonly string[];
    },
    rules: ResponseRules<T>,
  ): Promise<ResponseFaults> {
    const { type, host } = this.#options;
    const faults = new ResponseFaults();
    const fault = typeUrl === type.typeUrl
      ? rules.fault
      : `the response is of type "${typeUrl.slice(0, 200)}"`;
    if (fault !== undefined) {
      faults.add(fault);
      for (const name of this.#names) host.rejected(name, fault);
      return faults;
    }
    const byName = Map.groupBy(resources, ({ name }) => name);
    for (const resource of resources) {
      if (!rules.isCurrent()) break;
      const { name, content } = resource;
      const isTwice = (byName.get(name)?.length ?? 0) > 1;
      const isHeartbeat = content.kind === "heartbeat" && !isTwice;
      if (!this.#names.has(name)) {
        const reason = rules.unexpected(resource);
        if (reason !== undefined) faults.add(reason);
      } else if (isHeartbeat && rules.isKnown(resource)) this.#renew(resource);
      else {
        const reason = await this.#use(resource, isTwice);
        if (reason !== undefined) faults.add(`${name}: ${reason}`);
      }
    }
    for (const name of removed) if (rules.isCurrent() && this.#names.has(name)) this.#remove(name);
    return faults;
  }

  close(): void {
    for (const timer of this.#expiries.values()) timer.cancel();
    this.#expiries.clear();
  }

  /** Puts a resource into use, or returns the reason why not, which the host knows then. */
  async #use(resource: XdsResource<T>, isTwice: boolean): Promise<string | undefined> {
    const { host } = this.#options;
    const { name, version } = resource;
    const offered = isTwice ? "it is in the response twice" : offeredOf(resource);
    if (typeof offered === "string") {
      host.rejected(name, offered);
      return offered;
    }
    const reason = await host.accept(offered);
    // The name may have been unsubscribed meanwhile.
    if (reason !== undefined || !this.#names.has(name)) return reason;
    this.#versions.set(name, version);
    this.#renew(resource);
    return undefined;
  }

  /** Starts the time to live again; without one, the resource lives for ever. */
  #renew({ name, ttlMs }: XdsResource<T>): void {
    this.#expiries.get(name)?.cancel();
    this.#expiries.delete(name);
    if (ttlMs !== undefined) this.#expireAfter(name, ttlMs);
  }

  #expireAfter(name: string, ttlMs: number): void {
    const partMs = Math.min(ttlMs, LONGEST_TIMER_MS);
    const timer = this.#options.clock.after(partMs, () => {
      if (ttlMs > partMs) this.#expireAfter(name, ttlMs - partMs);
      else this.#remove(name);
    });
    this.#expiries.set(name, timer);
  }

  #remove(name: string): void {
    this.#forget(name);
    this.#options.host.removed(name);
  }

  #forget(name: string): void {
    this.#versions.delete(name);
    this.#expiries.get(name)?.cancel();
    this.#expiries.delete(name);
  }
}

function offeredOf<T>({ name, version, content }: XdsResource<T>): OfferedResource<T> | string {
  switch (content.kind) {
    case "resource":
      return { name, version, digest: content.digest, read: content.read };
    case "unreadable":
      return content.reason;
    case "heartbeat":
      return "it is not there";
  }
}

/** The fault of a resource without a subscribed name. */
export function unsubscribedFault<T>({ name, content }: XdsResource<T>): string {
  if (name !== "") return `"${name.slice(0, 256)}" was not asked for`;
  const reason = content.kind === "unreadable" ? content.reason : "it has no name";
  return `a resource cannot be used: ${reason}`;
}
