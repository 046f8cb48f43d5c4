/** Secrets from one SDS server. All names share one stream if the server allows it. @module */

import { type Clock, formatAddress, type Log, type Random, type Stats } from "../../base/mod.ts";
import { formatStatus, GrpcChannel, type GrpcLimits, type StreamEnd } from "../../grpc/mod.ts";
import { type DialEngine, GRPC_STATUS } from "../../http/mod.ts";
import type { PlainMessage } from "../../wire/mod.ts";
import { SharedRetry, XdsStream, type XdsVariant } from "../../xds/mod.ts";
import { SocketArrivals } from "../file/socket_arrivals.ts";
import type { LoadSecret } from "../load/mod.ts";
import type {
  SdsApi,
  SdsServer,
  SecretEvents,
  SecretProvider,
  SecretRef,
  SecretWatch,
} from "../model/plan.ts";
import { type FollowFiles, type NameEntry, SecretNames } from "./sds_names.ts";
import { SdsStats, ServerHealth } from "./sds_reports.ts";
import { SDS_METHODS, SECRET_RESOURCE } from "./secret_resource.ts";
import { serverTls } from "./server_tls.ts";

export interface SdsDeps {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** The version of this program, which is sent to the server. */
  readonly version: string;
  /** Loads secrets, the server's own TLS credentials, and the configuration's part of a validation. */
  readonly load: LoadSecret;
  /** Present: a server may name files of this machine, which are followed then. */
  readonly followFiles?: FollowFiles;
  readonly limits?: Partial<GrpcLimits>;
}

type SecretStream = XdsStream<PlainMessage>;

const NAMES_SHOWN = 10;

/** Every reference must have this server and variant as its source. */
export class SdsProvider implements SecretProvider {
  readonly #server: SdsServer;
  readonly #api: SdsApi;
  readonly #deps: SdsDeps;
  readonly #channel: GrpcChannel;
  readonly #names: SecretNames;
  readonly #stats: SdsStats;
  readonly #log: Log;
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
  #closed = false;

  constructor(server: SdsServer, api: SdsApi, deps: SdsDeps) {
    const { clock, load, followFiles } = deps;
    this.#server = server;
    this.#api = api;
    this.#deps = deps;
    this.#variant = api === "sotw" ? "sotw" : "delta";
    this.#log = deps.log.with({ sds: server.name });
    this.#stats = new SdsStats(deps.stats, `sds ${server.name}`);
    this.#health = new ServerHealth(clock, this.#log);
    this.#lost = this.#newRetry();
    this.#channel = new GrpcChannel({
      ...deps,
      ...server,
      tls: serverTls(server, { load, nowMs: () => clock.now() }),
    });
    this.#names = new SecretNames({
      clock,
      stats: this.#stats,
      load,
      followFiles,
      onChange: (added, gone) => {
        if (this.#closed) return;
        this.#leave(gone);
        this.#join(added);
      },
    });
    this.#arrivals = new SocketArrivals({
      ...deps,
      addresses: server.addresses,
      onArrival: () => {
        for (const stream of this.#streams) stream.refresh();
      },
    });
  }

  watch(ref: SecretRef, events: SecretEvents): SecretWatch {
    if (ref.source.kind !== "sds" || this.#closed) {
      throw new TypeError(`Cannot watch "${ref.name}": it is no secret of this SDS server`);
    }
    return this.#names.watch(ref, events);
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#names.close();
    for (const stream of this.#streams) stream.close();
    this.#streams.clear();
    this.#arrivals.end();
    this.#channel.close();
    this.#stats.close();
    return Promise.resolve();
  }

  #join(entries: readonly NameEntry[]): void {
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

  #leave(entries: readonly NameEntry[]): void {
    const names = Map.groupBy(entries, ({ stream }) => stream);
    for (const [stream, gone] of names) {
      stream?.change([], gone.map(({ name }) => name));
      if (stream && stream !== this.#shared && stream.names.size === 0) this.#end(stream);
    }
  }

  #newRetry(): SharedRetry {
    const { backoffBaseMs: baseMs, backoffMaxMs: maxMs } = this.#server;
    const { clock, random } = this.#deps;
    return new SharedRetry({ clock, random, baseMs, maxMs });
  }

  #newStream(): SecretStream {
    const { clock, random, version } = this.#deps;
    const stream: SecretStream = new XdsStream({
      channel: this.#channel,
      clock,
      random,
      variant: this.#variant,
      methods: SDS_METHODS,
      type: SECRET_RESOURCE,
      client: { node: this.#server.node, version },
      host: this.#names,
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
    this.#names.each(stream.names, (of) => of.events.onReached());
  }

  #recovered(stream: SecretStream): void {
    this.#failing.delete(stream);
    if (this.#failing.size === 0) this.#arrivals.end();
  }

  #setAnswering(stream: SecretStream, is: boolean): void {
    if (is) this.#answering.add(stream);
    else this.#answering.delete(stream);
    this.#stats.connected(this.#answering.size > 0);
  }

  #ended(stream: SecretStream, { status, isWell }: StreamEnd): "again" | "stop" {
    const server = this.#server;
    const log = this.#log;
    this.#setAnswering(stream, false);
    const reason = formatStatus(status);
    if (status.code === GRPC_STATUS.unimplemented && this.#variant === "delta") {
      const message = "sds server does not know delta, asked for the state of the world";
      if (this.#api === "delta") log.warn(message, { reason });
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
    const addresses = server.addresses.map(formatAddress).join(", ");
    const where = `SDS server "${server.name}" at ${addresses}`;
    const text = isRefusal && isAlone
      ? `The ${where} refused "${only}": ${reason}`
      : `Cannot read from the ${where}: ${reason}`;
    this.#names.each(stream.names, (of) => of.events.onUnreachable(text));
    return "again";
  }

  /** Moves every name to new streams, by the current variant and sharing. */
  #reopen(): void {
    for (const stream of this.#streams) this.#end(stream);
    const entries = [...this.#names.all()].filter(({ stream }) => stream);
    for (const entry of entries) entry.stream = undefined;
    this.#join(entries);
  }

  #count(metric: "attempt" | "failure", names: Iterable<string>): void {
    for (const name of names) this.#stats.add(metric, name);
  }
}
