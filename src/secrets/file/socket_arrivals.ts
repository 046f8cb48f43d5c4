/** Notices a new socket of a server that is away, by polls: a `stat` costs less than watches. @module */

import type { Address, Clock, Random, Timer } from "../../base/mod.ts";
import { type FileSystem, realFiles } from "./file_system.ts";

interface ArrivalsOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Only unix sockets can be noticed. */
  readonly addresses: readonly Address[];
  readonly onArrival: () => void;
  readonly files?: FileSystem;
}

const POLL_MS = 200;
/** A socket is bound, listened on and given its mode in turn. */
const SETTLE_MS = 50;
/** Every proxy of a machine waits for the same agent. */
const SPREAD_MS = 200;
/** Between two arrivals: a path may come and go all the time. */
const REST_MS = 1_000;

export class SocketArrivals {
  readonly #options: ArrivalsOptions;
  readonly #files: Pick<FileSystem, "stamp">;
  readonly #paths: readonly string[];
  #timer: Timer | undefined;
  /** Counts outages; 0 while there is none. */
  #outage = 0;
  #outages = 0;
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
    if (this.#outage > 0 || this.#paths.length === 0) return;
    void this.#look(this.#outage = ++this.#outages);
  }

  /** The server is back, or not wanted any more. */
  end(): void {
    this.#outage = 0;
    this.#timer?.cancel();
    this.#stamps = undefined;
  }

  async #look(outage: number): Promise<void> {
    const stamps = await Promise.all(this.#paths.map((path) => this.#files.stamp(path)));
    if (this.#outage !== outage) return;
    const { clock, random, onArrival } = this.#options;
    const before = this.#stamps ?? stamps;
    const isNew = stamps.some((stamp, i) => stamp !== "" && stamp !== before[i]);
    const arrives = isNew && clock.monotonic() - this.#arrivedMs >= REST_MS;
    if (arrives || !isNew) this.#stamps = stamps;
    this.#timer = clock.after(arrives ? SETTLE_MS + random() * SPREAD_MS : POLL_MS, () => {
      if (arrives) {
        this.#arrivedMs = clock.monotonic();
        onArrival();
      }
      if (this.#outage === outage) void this.#look(outage);
    });
  }
}
