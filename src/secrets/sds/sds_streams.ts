/**
 * The streams to one SDS server: which names go over which, which variant of the protocol they speak, and
 * what is said when they fail. All names share a stream where the server allows it.
 *
 * @module
 */

import { type Clock, formatAddress, type Log, type Random } from "../../base/mod.ts";
import { SocketArrivals } from "../file/socket_arrivals.ts";
import { formatStatus, type GrpcChannel } from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import type { SdsApi, SdsServer } from "../plan.ts";
import { ServerHealth } from "./sds_health.ts";
import type { NameEntry, SecretNames } from "./sds_names.ts";
import type { Retry } from "./sds_retry.ts";
import type { SdsStats } from "./sds_stats.ts";
import { retryOf, SdsStream, type SdsVariant, type StreamEnd } from "./sds_stream.ts";

export interface SdsStreamsOptions {
  readonly server: SdsServer;
  readonly api: SdsApi;
  readonly channel: GrpcChannel;
  readonly names: SecretNames;
  readonly stats: SdsStats;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Of this program. */
  readonly version: string;
}

/** Names in one log line. */
const NAMES_SHOWN = 10;

export class SdsStreams {
  readonly #options: SdsStreamsOptions;
  readonly #arrivals: SocketArrivals;
  readonly #health: ServerHealth;
  readonly #lost: Retry;
  readonly #streams = new Set<SdsStream>();
  /** Those that have had a message, and those whose last end was a fault. */
  readonly #answering = new Set<SdsStream>();
  readonly #failing = new Set<SdsStream>();
  /** The one for all names, until the server refuses such a thing. */
  #shared: SdsStream | undefined;
  #oneEach = false;
  #variant: SdsVariant;

  constructor(options: SdsStreamsOptions) {
    const { server, api, clock, random, log } = options;
    this.#options = options;
    this.#variant = api === "sotw" ? "sotw" : "delta";
    this.#health = new ServerHealth(clock, log);
    this.#lost = retryOf({ clock, random, server });
    this.#arrivals = new SocketArrivals({
      clock,
      random,
      addresses: server.addresses,
      onArrival: () => {
        for (const stream of this.#streams) stream.refresh();
      },
    });
  }

  /** Asks for what has no stream yet. */
  join(entries: readonly NameEntry[]): void {
    if (entries.length === 0) return;
    if (this.#oneEach) {
      for (const entry of entries) {
        entry.stream = this.#newStream();
        entry.stream.change([entry.name], []);
      }
      return;
    }
    const stream = this.#shared ??= this.#newStream();
    for (const entry of entries) entry.stream = stream;
    stream.change(entries.map(({ name }) => name), []);
  }

  /** Nobody follows these any more. */
  leave(entries: readonly NameEntry[]): void {
    const names = Map.groupBy(entries, ({ stream }) => stream);
    for (const [stream, gone] of names) {
      stream?.change([], gone.map(({ name }) => name));
      if (stream && stream !== this.#shared && stream.names.size === 0) this.#end(stream);
    }
  }

  close(): void {
    for (const stream of this.#streams) stream.close();
    this.#streams.clear();
    this.#arrivals.end();
  }

  #newStream(): SdsStream {
    const stream: SdsStream = new SdsStream({
      ...this.#options,
      variant: this.#variant,
      host: this.#options.names,
      lost: this.#lost,
      events: {
        onOpening: (names) => this.#count("attempt", names),
        onWell: () => this.#reached(stream),
        onEnded: (end) => this.#ended(stream, end),
      },
    });
    this.#streams.add(stream);
    return stream;
  }

  #end(stream: SdsStream): void {
    stream.close();
    this.#streams.delete(stream);
    this.#mended(stream);
    this.#setAnswering(stream, false);
    if (this.#shared === stream) this.#shared = undefined;
  }

  #reached(stream: SdsStream): void {
    this.#setAnswering(stream, true);
    this.#mended(stream);
    if (this.#failing.size === 0) this.#health.reached();
    this.#options.names.each(stream.names, (of) => of.events.onReached());
  }

  #mended(stream: SdsStream): void {
    this.#failing.delete(stream);
    if (this.#failing.size === 0) this.#arrivals.end();
  }

  #setAnswering(stream: SdsStream, is: boolean): void {
    if (is) this.#answering.add(stream);
    else this.#answering.delete(stream);
    this.#options.stats.connected(this.#answering.size > 0);
  }

  #ended(
    stream: SdsStream,
    { status, wasWell }: StreamEnd,
  ): "again" | "stop" {
    const { server, api, names, log } = this.#options;
    this.#setAnswering(stream, false);
    const reason = formatStatus(status);
    if (status.code === GRPC_STATUS.unimplemented && this.#variant === "delta") {
      const message = "sds server does not know delta, asked for the state of the world";
      if (api === "delta") log.warn(message, { reason });
      else log.info(message, { reason });
      this.#variant = "sotw";
      this.#reopen();
      return "stop";
    }
    const several = stream.names.size > 1;
    if (status.code === GRPC_STATUS.invalidArgument && several && stream === this.#shared) {
      // Because one of them is refused, or because it takes one at a time (SPIRE): alone they tell.
      const message = "sds server refused these names together, asked for each alone";
      const shown = [...stream.names].slice(0, NAMES_SHOWN).join(", ");
      log.info(message, { names: shown, count: stream.names.size, reason });
      this.#oneEach = true;
      this.#reopen();
      return "stop";
    }
    if (wasWell) return "again";
    this.#count("failure", stream.names);
    this.#failing.add(stream);
    this.#arrivals.begin();
    const [name, second] = stream.names;
    const only = second === undefined ? name : undefined;
    this.#health.failed(status, only);
    const where = server.addresses.map(formatAddress).join(", ");
    const told = `SDS server "${server.name}" at ${where}`;
    const isRefused = only !== undefined && status.code === GRPC_STATUS.invalidArgument;
    const text = isRefused
      ? `The ${told} refused "${only}": ${reason}`
      : `Cannot read from the ${told}: ${reason}`;
    names.each(stream.names, (of) => of.events.onUnreachable(text));
    return "again";
  }

  /** Takes every name to new streams, by the rules of now. */
  #reopen(): void {
    for (const stream of this.#streams) this.#end(stream);
    const entries = [...this.#options.names.all()].filter(({ stream }) => stream);
    for (const entry of entries) entry.stream = undefined;
    this.join(entries);
  }

  #count(metric: "attempt" | "failure", names: Iterable<string>): void {
    for (const name of names) this.#options.stats.add(metric, name);
  }
}
