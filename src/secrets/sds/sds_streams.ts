/**
 * The streams to one SDS server: which names go over which stream, the variant of the protocol, and what
 * is reported when a stream fails. All names share one stream if the server allows it.
 *
 * @module
 */

import { type Clock, formatAddress, type Log, type Random } from "../../base/mod.ts";
import { formatStatus, type GrpcChannel, type StreamEnd } from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import type { PlainMessage } from "../../wire/mod.ts";
import { SharedRetry, XdsStream, type XdsVariant } from "../../xds/mod.ts";
import { SocketArrivals } from "../file/socket_arrivals.ts";
import type { SdsApi, SdsServer } from "../model/plan.ts";
import type { NameEntry, SecretNames } from "./sds_names.ts";
import { type SdsStats, ServerHealth } from "./sds_reports.ts";
import { SDS_METHODS, SECRET_RESOURCE } from "./secret_resource.ts";

interface SdsStreamsOptions {
  readonly server: SdsServer;
  readonly api: SdsApi;
  readonly channel: GrpcChannel;
  readonly names: SecretNames;
  readonly stats: SdsStats;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** The version of this program. */
  readonly version: string;
}

type SecretStream = XdsStream<PlainMessage>;

/** Names in one log line. */
const NAMES_SHOWN = 10;

export class SdsStreams {
  readonly #options: SdsStreamsOptions;
  readonly #arrivals: SocketArrivals;
  readonly #health: ServerHealth;
  readonly #lost: SharedRetry;
  readonly #streams = new Set<SecretStream>();
  /** Streams that have had a message. */
  readonly #answering = new Set<SecretStream>();
  /** Streams whose last end was a fault. */
  readonly #failing = new Set<SecretStream>();
  /** The stream of all names, until the server refuses several names on one. */
  #shared: SecretStream | undefined;
  #oneEach = false;
  #variant: XdsVariant;

  constructor(options: SdsStreamsOptions) {
    const { server, api, clock, random, log } = options;
    this.#options = options;
    this.#variant = api === "sotw" ? "sotw" : "delta";
    this.#health = new ServerHealth(clock, log);
    this.#lost = this.#newRetry();
    this.#arrivals = new SocketArrivals({
      clock,
      random,
      addresses: server.addresses,
      onArrival: () => {
        for (const stream of this.#streams) stream.refresh();
      },
    });
  }

  /** Subscribes names that have no stream yet. */
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

  /** Unsubscribes names without followers. */
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

  #newRetry(): SharedRetry {
    const { clock, random, server: { backoffBaseMs: baseMs, backoffMaxMs: maxMs } } = this.#options;
    return new SharedRetry({ clock, random, baseMs, maxMs });
  }

  #newStream(): SecretStream {
    const { channel, names, clock, random, server, version } = this.#options;
    const stream: SecretStream = new XdsStream({
      channel,
      clock,
      random,
      variant: this.#variant,
      methods: SDS_METHODS,
      type: SECRET_RESOURCE,
      client: { node: server.node, version },
      host: names,
      retry: this.#newRetry(),
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

  #end(stream: SecretStream): void {
    stream.close();
    this.#streams.delete(stream);
    this.#recovered(stream);
    this.#setAnswering(stream, false);
    if (this.#shared === stream) this.#shared = undefined;
  }

  #reached(stream: SecretStream): void {
    this.#setAnswering(stream, true);
    this.#recovered(stream);
    if (this.#failing.size === 0) this.#health.reached();
    this.#options.names.each(stream.names, (of) => of.events.onReached());
  }

  #recovered(stream: SecretStream): void {
    this.#failing.delete(stream);
    if (this.#failing.size === 0) this.#arrivals.end();
  }

  #setAnswering(stream: SecretStream, is: boolean): void {
    if (is) this.#answering.add(stream);
    else this.#answering.delete(stream);
    this.#options.stats.connected(this.#answering.size > 0);
  }

  #ended(stream: SecretStream, { status, isWell }: StreamEnd): "again" | "stop" {
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
    const [only, second] = stream.names;
    const isAlone = second === undefined;
    const isRefusal = status.code === GRPC_STATUS.invalidArgument;
    if (isRefusal && !isAlone && stream === this.#shared) {
      // One of the names is refused, or the server takes one name a stream (SPIRE).
      const message = "sds server refused these names together, asked for each alone";
      const shown = [...stream.names].slice(0, NAMES_SHOWN).join(", ");
      log.info(message, { names: shown, count: stream.names.size, reason });
      this.#oneEach = true;
      this.#reopen();
      return "stop";
    }
    if (isWell) return "again";
    this.#count("failure", stream.names);
    this.#failing.add(stream);
    this.#arrivals.begin();
    this.#health.failed(status, isAlone ? only : undefined);
    const where = `SDS server "${server.name}" at ${
      server.addresses.map(formatAddress).join(", ")
    }`;
    const text = isRefusal && isAlone
      ? `The ${where} refused "${only}": ${reason}`
      : `Cannot read from the ${where}: ${reason}`;
    names.each(stream.names, (of) => of.events.onUnreachable(text));
    return "again";
  }

  /** Moves every name to new streams, by the current variant and sharing. */
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
