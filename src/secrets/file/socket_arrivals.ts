/**
 * Notices a new socket of a server that is away, so that a retry need not wait any longer. Directories
 * are watched, and a slow poll finds what the watches miss.
 *
 * @module
 */

import { type Address, type Clock, type Random, silentLog, type Timer } from "../../base/mod.ts";
import { DirectoryWatches, placesOf } from "./watches.ts";
import { type FileSystem, realFiles } from "./file_system.ts";

export interface ArrivalsOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Only unix sockets can be noticed. */
  readonly addresses: readonly Address[];
  readonly onArrival: () => void;
  readonly files?: FileSystem;
}

/** After a hint: a socket is bound, listened on and given its mode in turn. */
const SETTLE_MS = 50;
/** Every proxy of a machine waits for the same agent. */
const SPREAD_MS = 200;
/** After a hint about another name, and after a watch is made: Deno's begins some milliseconds later. */
const GLANCE_MS = 500;
const POLL_MS = 1_000;
/** Between two arrivals: a path may come and go all the time. */
const REST_MS = 1_000;

export class SocketArrivals {
  readonly #options: ArrivalsOptions;
  readonly #files: FileSystem;
  readonly #paths: readonly string[];
  readonly #onHint = (exact: boolean) => {
    const { random } = this.#options;
    this.#plan(exact ? SETTLE_MS + random() * SPREAD_MS : GLANCE_MS);
  };
  /** Present while the server is away. */
  #watches: DirectoryWatches | undefined;
  #next: { readonly dueMs: number; readonly timer: Timer } | undefined;
  /** Stamps of the paths at the last look. */
  #stamps: readonly string[] | undefined;
  #arrivedMs = -Infinity;

  constructor(options: ArrivalsOptions) {
    this.#options = options;
    this.#files = options.files ?? realFiles;
    this.#paths = options.addresses.flatMap((address) =>
      address.kind === "unix" ? [address.path] : []
    );
  }

  /** The server is away or fails: a socket that appears from now on is an arrival. */
  begin(): void {
    if (this.#watches || this.#paths.length === 0) return;
    const watches = this.#watches = new DirectoryWatches(this.#files, silentLog);
    void this.#look(watches);
  }

  /** The server is back, or not wanted any more. */
  end(): void {
    this.#watches?.close();
    this.#watches = undefined;
    this.#next?.timer.cancel();
    this.#next = undefined;
    this.#stamps = undefined;
  }

  #plan(delayMs: number): void {
    const watches = this.#watches;
    const { clock } = this.#options;
    const dueMs = clock.monotonic() + delayMs;
    // The first hint sets the time: later ones would postpone the look for ever.
    if (!watches || (this.#next && this.#next.dueMs <= dueMs)) return;
    this.#next?.timer.cancel();
    const timer = clock.after(delayMs, () => {
      this.#next = undefined;
      void this.#look(watches);
    });
    this.#next = { dueMs, timer };
  }

  async #look(watches: DirectoryWatches): Promise<void> {
    const files = this.#files;
    // Before the stamps are read, so that no later arrival is missed.
    const places = await Promise.all(this.#paths.map((path) => placesOf(path, files)));
    const isWatchNew = await watches.set(this.#onHint, places.flat());
    await watches.verify();
    const stamps = await Promise.all(this.#paths.map((path) => files.stamp(path)));
    if (this.#watches !== watches) return;
    const before = this.#stamps;
    const isNew = before !== undefined && stamps.some((stamp, i) => stamp && stamp !== before[i]);
    const { clock, onArrival } = this.#options;
    const restMs = this.#arrivedMs + REST_MS - clock.monotonic();
    if (isNew && restMs > 0) return this.#plan(restMs);
    this.#stamps = stamps;
    this.#plan(isWatchNew ? GLANCE_MS : POLL_MS);
    if (!isNew) return;
    this.#arrivedMs = clock.monotonic();
    onArrival();
  }
}
