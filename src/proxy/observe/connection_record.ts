/** The record of one session: its source, the stage it reached, and what it carries. @module */

import {
  type Counter,
  type ErrorCode,
  type Origin,
  originOf,
  type TrafficRow,
} from "../../base/mod.ts";
import type { ExchangeConnection } from "../../http/mod.ts";
import type { TrustedPeer } from "../../identity/mod.ts";
import type { PresentedPeer, Relay, RelayEnd } from "../../net/mod.ts";
import type { ConnectionView, RequestsView } from "./view.ts";

/** Stages of the data flow, in their order. */
export type ConnectionStage =
  | "accept"
  | "handshake"
  | "identity"
  | "authorize"
  | "plugins"
  | "target"
  | "endpoint"
  | "dial"
  | "relay"
  | "http";

/** A moment, in monotonic milliseconds and in ticks of the sweep. */
export interface SweepTime {
  readonly ms: number;
  readonly tick: number;
  readonly tickMs: number;
}

export interface OpenRequests {
  view(now: SweepTime): RequestsView;
}

let lastId = 0;

export class ConnectionRecord implements ExchangeConnection {
  readonly id: number = ++lastId;
  readonly direction: "inbound" | "outbound";
  readonly listener: string;
  readonly remote: string;
  readonly openedMs: number;
  readonly destination: string;
  stage: ConnectionStage = "accept";
  source = "";
  /** Service of the caller; `""`: not identified yet. */
  caller = "";
  endpoint = "";
  rule = "";
  /** SNI of the caller's handshake; `""`: none. */
  serverName = "";
  tlsVersion = "";
  resumed = false;
  relay: Relay | undefined;
  /** Set once the session carries HTTP. */
  requests: OpenRequests | undefined;
  readonly speaksHttp: boolean;
  /** It was handed to the service of its listener. */
  served = false;
  /** Our ends, and Envoy's name of the cluster; noted only for observers that need addresses. */
  local = "";
  upstreamLocal = "";
  cluster = "";
  traffic: TrafficRow | undefined;

  constructor(
    { direction, name, destination, http }: {
      readonly direction: "inbound" | "outbound";
      readonly name: string;
      readonly destination: string;
      readonly http: object | null;
    },
    remote: string,
    openedMs: number,
  ) {
    this.direction = direction;
    this.listener = name;
    this.destination = destination;
    this.speaksHttp = http !== null;
    this.remote = remote;
    this.openedMs = openedMs;
  }

  /** Notes the handshake with the side that is in the mesh. */
  secured({ version, resumed }: PresentedPeer, counters: { readonly resumed: Counter }): void {
    this.tlsVersion = version;
    this.resumed = resumed;
    if (resumed) counters.resumed.add(1);
  }

  view(now: SweepTime): ConnectionView {
    const { relay } = this;
    const http = this.requests?.view(now) ?? null;
    return {
      id: String(this.id),
      listener: this.listener,
      direction: this.direction,
      source: this.source,
      destination: this.destination,
      remote: this.remote,
      endpoint: this.endpoint,
      stage: this.stage,
      ageMs: Math.round(now.ms - this.openedMs),
      idleMs: relay ? (now.tick - relay.activeTick) * now.tickMs : http?.idleMs ?? 0,
      receivedBytes: relay?.receivedBytes ?? 0,
      sentBytes: relay?.sentBytes ?? 0,
      rule: this.rule,
      tlsVersion: this.tlsVersion,
      resumed: this.resumed,
      http,
    };
  }
}

/** A caller without a verified identity: its name may be made up, and each may have another. */
const NO_IDENTITY = "(no identity)";

/** The caller in tables and metrics: `web`, `finance/web` in another namespace, `ap/finance/web` in another partition. */
export function callerName(
  peer: Pick<TrustedPeer, "id" | "name" | "verified"> | undefined,
): string {
  if (!peer?.verified) return NO_IDENTITY;
  if (!peer.id) return peer.name;
  const { partition, namespace, service } = peer.id;
  if (partition !== "default") return `${partition}/${namespace}/${service}`;
  return namespace === "default" ? service : `${namespace}/${service}`;
}

/** In order, or with a code from the table. */
export type Ending =
  | { readonly kind: "completed"; readonly by: "downstream" | "upstream" }
  | {
    readonly kind: "failed";
    readonly code: ErrorCode;
    readonly reason: string;
    /** The proxy ended a connection that was relaying, whichever side the code blames. */
    readonly by?: "proxy" | undefined;
    /** The same failure was warned of a short while ago. */
    readonly quiet?: boolean;
  };

export function endedByOf(ending: Ending): Origin {
  return ending.kind === "completed" ? ending.by : ending.by ?? originOf(ending.code);
}

/** The ending of a connection whose relay is over. */
export function endingOf(end: RelayEnd): Ending {
  if (end.kind === "ended") return { kind: "completed", by: end.first };
  return {
    kind: "failed",
    code: end.by === "downstream" ? "downstream_reset" : "endpoint_reset",
    reason: "",
  };
}
