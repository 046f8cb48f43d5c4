/**
 * Lets requests for the same response wait for the first of them. A response that turns out not to be stored
 * is remembered for a while, so that its requests do not wait for one another again.
 *
 * @module
 */

import type { BoundedMap, Host } from "../../src/plugin/api.ts";

/** A request that others wait for. */
export interface Flight {
  readonly key: string;
  readonly over: PromiseWithResolvers<void>;
}

/** Then a request goes on alone; a plugin may hold one for ten seconds. */
const MAX_WAIT_MS = 5_000;
const MAX_WAITING = 1_000;
const APART_MS = 10_000;
const MAX_APART = 1_000;
/** Requests with longer keys, which take memory after their end, do not wait for one another. */
const MAX_KEY_CHARS = 1_024;

export class Flights {
  readonly #host: Host;
  readonly #under = new Map<string, Flight>();
  readonly #apart: BoundedMap<true>;
  #waiting = 0;

  constructor(host: Host) {
    this.#host = host;
    this.#apart = host.map<true>({ limit: MAX_APART, ttlMs: APART_MS });
  }

  /** `undefined`: there is no request to wait for. */
  wait(key: string, signal: AbortSignal): Promise<void> | undefined {
    const flight = this.#under.get(key);
    if (!flight || this.#waiting >= MAX_WAITING) return undefined;
    this.#waiting++;
    return this.#within(flight, signal).finally(() => this.#waiting--);
  }

  async #within(flight: Flight, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const late = this.#host.clock.sleep(MAX_WAIT_MS, AbortSignal.any([signal, over.signal]));
    await Promise.race([flight.over.promise, late]);
    over.abort();
  }

  /** `undefined`: other requests do not wait for this one. */
  begin(key: string): Flight | undefined {
    if (key.length > MAX_KEY_CHARS) return undefined;
    if (this.#under.has(key) || this.#apart.get(key)) return undefined;
    const flight = { key, over: Promise.withResolvers<void>() };
    this.#under.set(key, flight);
    return flight;
  }

  /** May be called again. */
  end(flight: Flight, isStored: boolean): void {
    if (this.#under.get(flight.key) !== flight) return;
    this.#under.delete(flight.key);
    if (!isStored) this.#apart.set(flight.key, true);
    flight.over.resolve();
  }
}
