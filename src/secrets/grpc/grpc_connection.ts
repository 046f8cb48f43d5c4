/**
 * One HTTP/2 connection and the calls on it. The library connects it once; when it is lost its calls
 * end, and the next call gets a new one: when and how often is decided above.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Address, Clock, Timer } from "../../base/mod.ts";
import type { AnyCall } from "./grpc_call.ts";
import { createCredentials, type Destroyable } from "./grpc_credentials.ts";
import type { GrpcLibrary } from "./grpc_credentials.ts";
import { GRPC_UNAVAILABLE, grpcStatus } from "./grpc_status.ts";
import type { GrpcChannelOptions, GrpcLimits, GrpcTlsMaterial } from "./grpc_types.ts";

export interface ConnectionOptions {
  readonly library: GrpcLibrary;
  readonly channel: GrpcChannelOptions;
  readonly limits: GrpcLimits;
  readonly address: Address;
  readonly material: GrpcTlsMaterial | null;
}

/** More than a server's first flight of 1,000 secrets needs; what is not read waits at the server. */
const WINDOW_BYTES = 1024 * 1024;
/** For the last words on a connection that is given up. */
const LINGER_MS = 1_000;

export class Connection {
  readonly #library: GrpcLibrary;
  readonly #channel: InstanceType<GrpcLibrary["Channel"]>;
  readonly #metadata: InstanceType<GrpcLibrary["Metadata"]>;
  readonly #calls = new Set<AnyCall>();
  readonly #connecting: Timer;
  readonly #clock: Clock;
  #socket: Destroyable | undefined;
  #closed = false;
  /** A call on it has had a message. */
  answered = false;
  #wasReady = false;
  #retired = false;

  constructor({ library, channel, limits, address, material }: ConnectionOptions) {
    this.#library = library;
    const serverName = channel.tls?.serverName;
    this.#clock = channel.clock;
    const credentials = createCredentials(library, {
      material,
      onSocket: (socket) => {
        this.#socket = socket;
        return !this.#closed;
      },
    });
    this.#metadata = metadataOf(library, channel.metadata);
    this.#channel = new library.Channel(targetOf(address), credentials, {
      ...(serverName === undefined ? {} : {
        "grpc.ssl_target_name_override": serverName,
        "grpc.default_authority": serverName,
      }),
      "grpc.max_receive_message_length": limits.messageBytes,
      "grpc.keepalive_time_ms": channel.keepAliveMs,
      "grpc.keepalive_timeout_ms": channel.keepAliveTimeoutMs,
      "grpc-node.flow_control_window": WINDOW_BYTES,
      // What follows is the library's own cleverness: all of it is off.
      "grpc.enable_retries": 0,
      "grpc.service_config_disable_resolution": 1,
      "grpc.enable_http_proxy": 0,
      "grpc.enable_channelz": 0,
      "grpc.use_local_subchannel_pool": 1,
    });
    this.#connecting = channel.clock.after(limits.connectMs, () => {
      if (!this.#ready()) this.#fail(`no connection within ${limits.connectMs} ms`);
    });
  }

  /** False: lost or about to be; calls on it may still be served. */
  get usable(): boolean {
    if (this.#retired) return false;
    if (this.#ready()) return true;
    const { CONNECTING, IDLE } = this.#library.connectivityState;
    const state = this.#channel.getConnectivityState(false);
    return !this.#wasReady && (state === CONNECTING || state === IDLE);
  }

  start(call: AnyCall): void {
    const raw = this.#channel.createCall(call.path, Infinity, null, null, null);
    this.#calls.add(call);
    call.start(raw, this.#metadata.clone());
  }

  /** No new calls. */
  retire(): void {
    this.#retired = true;
    if (this.#calls.size === 0) this.close();
  }

  forget(call: AnyCall): void {
    this.#calls.delete(call);
    if (this.#calls.size === 0 && this.#retired) this.close();
  }

  /** Ends every call without an event. */
  close(): void {
    this.#retired = true;
    for (const call of [...this.#calls]) call.close();
    this.#shutDown();
  }

  #ready(): boolean {
    const ready =
      this.#channel.getConnectivityState(false) === this.#library.connectivityState.READY;
    if (ready) this.#wasReady = true;
    return ready;
  }

  #fail(reason: string): void {
    this.#retired = true;
    for (const call of [...this.#calls]) call.fail(grpcStatus(GRPC_UNAVAILABLE, reason));
    this.#shutDown();
  }

  #shutDown(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#connecting.cancel();
    const wasReady = this.#ready() || this.#wasReady;
    this.#channel.close();
    // The library waits for what a silent peer may never do.
    if (wasReady) this.#clock.after(LINGER_MS, () => this.#socket?.destroy());
    else this.#socket?.destroy();
  }
}

function targetOf(address: Address): string {
  if (address.kind === "unix") return `unix:${address.path}`;
  const { host, port } = address;
  if (host.includes(":")) return `ipv6:[${host}]:${port}`;
  return /^\d+(\.\d+){3}$/.test(host) ? `ipv4:${host}:${port}` : `dns:///${host}:${port}`;
}

function metadataOf(
  library: GrpcLibrary,
  entries: Readonly<Record<string, string>>,
): InstanceType<GrpcLibrary["Metadata"]> {
  const metadata = new library.Metadata();
  for (const [name, value] of Object.entries(entries)) {
    metadata.set(name, name.endsWith("-bin") ? Buffer.from(value, "base64") : value);
  }
  return metadata;
}
