/** HTTP connections to one endpoint: the client's pool with our dials and counters. @module */

import type { ErrorCode } from "../../base/mod.ts";
import {
  ClientPool,
  type ClientVersion,
  DEFAULT_HTTP_LIMITS,
  type KeptConnection,
  type PoolEvents,
  type PoolFault,
  type Reached,
  type ReachHandler,
} from "../../http/mod.ts";
import type { Dial } from "../../net/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import type { UpstreamContext } from "../core/context.ts";
import type { ConnectionStage } from "../observe/connection_record.ts";
import type { HttpPoolStats } from "../observe/http_stats.ts";
import type { EndpointDialHandler, LocalEndpoint, ProvenEndpoint } from "./endpoint_dial.ts";

/** An endpoint that the stages which prove or dial one have made, and no other code. */
type DialledEndpoint = ProvenEndpoint | LocalEndpoint;

export interface PooledEndpoint extends Reached {
  readonly endpoint: DialledEndpoint;
  /** `10.0.0.9:8080`. */
  readonly host: string;
}

export type PooledConnection = KeptConnection<PooledEndpoint>;

interface PoolFailure {
  readonly code: ErrorCode;
  readonly reason: string;
  /** The address dialled last; `""`: none. */
  readonly tried: string;
}

export interface ConnectionPoolOptions {
  dial(handler: EndpointDialHandler<DialledEndpoint>): Dial;
  /** Spoken where the handshake did not settle it. */
  readonly version: ClientVersion;
  readonly context: UpstreamContext;
  readonly stats: HttpPoolStats;
  /** Places for connections; `undefined`: as many as are needed. */
  readonly connections: SharedLimiter | undefined;
  /** Nothing comes from the endpoint, though requests are open: it may hang. */
  readonly onSilent?: () => void;
  /** The code for a request that waited too long. */
  readonly timedOut: "endpoint_timed_out" | "local_timed_out";
}

/** How long a request waits for a connection with room. */
const MAX_WAIT_MS = 30_000;
const TIMEOUTS: ReadonlySet<ErrorCode> = new Set(["endpoint_timed_out", "local_timed_out"]);
export const NO_DIAL: Dial = { cancel: () => {} };

export class ConnectionPool extends ClientPool<PooledEndpoint, PoolFailure> {
  constructor(options: ConnectionPoolOptions) {
    const { version, context, stats, connections, onSilent, timedOut } = options;
    super({
      version,
      limits: DEFAULT_HTTP_LIMITS,
      clock: context.clock,
      deadlines: context.deadlines,
      timers: context.deadlines,
      limiter: connections,
      waitMs: MAX_WAIT_MS,
      dial: (handler) => dialWith(options, handler),
      failureOf: (fault) => failureOf(fault, timedOut),
      events: countedBy(stats, onSilent),
    });
  }

  /** Calls the handler with a connection that has room, now or later; it must be used at once. */
  acquire(handler: EndpointDialHandler<PooledConnection>): Dial {
    const connection = this.ready();
    if (connection) {
      handler.onDialled(connection);
      return NO_DIAL;
    }
    return this.reach({
      onDialled: (connection) => handler.onDialled(connection),
      onFailed: ({ code, reason, tried }) => handler.onFailed(code, reason, tried),
    });
  }

  /** Resets connections to servers that are no longer trusted, and drains those made with other credentials. */
  rejudge(): void {
    for (const { reached: { endpoint }, client } of this.connections) {
      if (!("fault" in endpoint)) continue;
      const fault = endpoint.fault();
      if (fault !== undefined) client.reset(fault);
      else if (!endpoint.isOfNow) client.drain();
    }
  }
}

function dialWith(
  { dial, context: { facts } }: ConnectionPoolOptions,
  handler: ReachHandler<PooledEndpoint, PoolFailure>,
): Dial {
  const record = { stage: "dial" as ConnectionStage, endpoint: "", secured: () => {} };
  return dial({
    record,
    onDialled(endpoint) {
      // The connection remembers its local address, which cannot be read once it is closed.
      if (facts.accessLog || facts.plugins) void endpoint.local;
      const protocol = "protocol" in endpoint ? endpoint.protocol : "";
      handler.onDialled({ stream: endpoint.stream, protocol, host: record.endpoint, endpoint });
    },
    onFailed: (code, reason) => handler.onFailed({ code, reason, tried: record.endpoint }),
  });
}

/** The other faults are of options that are not set here. */
function failureOf(
  fault: PoolFault<PooledEndpoint>,
  timedOut: ConnectionPoolOptions["timedOut"],
): PoolFailure {
  if (fault.kind !== "waited_long") {
    return { code: "no_endpoint", reason: "the endpoint is gone", tried: "" };
  }
  const { waitedMs, connection } = fault;
  const reason = `no connection had room for ${waitedMs} ms`;
  return { code: timedOut, reason, tried: connection?.reached.host ?? "" };
}

function countedBy(
  stats: HttpPoolStats,
  onSilent: (() => void) | undefined,
): PoolEvents<PooledEndpoint, PoolFailure> {
  return {
    onOpened() {
      stats.connectionsOpened.add(1);
      stats.connectionsActive.add(1);
    },
    onClosed: () => stats.connectionsActive.add(-1),
    onDialFailed({ code }) {
      stats.connectFailures.add(1);
      if (TIMEOUTS.has(code)) stats.connectTimeouts.add(1);
    },
    onWaiting(change) {
      if (change > 0) stats.pending.add(1);
      stats.pendingActive.add(change);
    },
    ...(onSilent && { onSilent }),
  };
}
