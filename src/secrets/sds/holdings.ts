/**
 * A subscription: its names, and of each the version that is in use and the time that it has to live.
 * It lives on over streams.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { SdsResource } from "./sds_messages.ts";
import { Expiries, offeredOf, type ProtocolHost } from "./sds_protocol.ts";

export class Holdings {
  readonly #host: ProtocolHost;
  readonly #expiries: Expiries;
  readonly #names = new Set<string>();
  readonly #versions = new Map<string, string>();

  constructor(host: ProtocolHost, clock: Clock) {
    this.#host = host;
    this.#expiries = new Expiries(clock, (name) => this.remove(name));
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

  /** That what is in use lives on. */
  renew({ name, ttlMs }: SdsResource): void {
    this.#expiries.set(name, ttlMs);
  }

  /** Refuses, or takes into use; the reason is told to the host where it does not know it already. */
  async use(resource: SdsResource, twice: boolean): Promise<string | undefined> {
    const { name, version } = resource;
    const offered = twice ? "it is in the response twice" : offeredOf(resource);
    if (typeof offered === "string") {
      this.#host.rejected(name, offered);
      return offered;
    }
    const reason = await this.#host.accept(offered);
    // Given up while it was looked at: nobody knows it now.
    if (reason !== undefined || !this.#names.has(name)) return reason;
    this.#versions.set(name, version);
    this.renew(resource);
    return undefined;
  }

  /** There is none any more. */
  remove(name: string): void {
    this.#forget(name);
    this.#host.removed(name);
  }

  /** Ends timers. */
  close(): void {
    this.#expiries.close();
  }

  #forget(name: string): void {
    this.#versions.delete(name);
    this.#expiries.forget(name);
  }
}
