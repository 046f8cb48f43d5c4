/** The context that all listeners of a data path share. @module */

import type { Generations } from "../../plugin/mod.ts";
import type { Clock, Conditions, Deadlines, Log, Stats } from "../../base/mod.ts";
import type { ClientCertElements, HeldBytes, RequestIds } from "../../http/mod.ts";
import type { Engine } from "../../net/mod.ts";
import type { SharedLimiter } from "./admission.ts";
import type { AccessLogger } from "../observe/access_logger.ts";
import type { Observers } from "../observe/observers.ts";
import type { Tracer } from "../observe/tracer.ts";
import type { Handshakes } from "./handshakes.ts";
import type { LiveConnections } from "./live_connections.ts";
import type { FailureSummary } from "../observe/failure_summary.ts";
import type { UpstreamRefusals } from "../observe/upstream_refusals.ts";
import type { TrustContexts } from "../trust/trust_contexts.ts";
import type { RequestPolicy } from "../../policy/mod.ts";
import type { PolicyPart } from "../../snapshot/mod.ts";

/** The agent's verdict on one connection (`-authorize both`); rejects when the agent gives none. */
export type RemoteAuthorize = (
  request: { readonly target: string; readonly uri: string; readonly serial: string },
) => Promise<{ readonly allowed: boolean; readonly reason: string }>;

export interface Context {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: Log;
  readonly stats: Stats;
  readonly live: LiveConnections;
  readonly handshakes: Handshakes;
  readonly sums: FailureSummary;
  readonly refusals: UpstreamRefusals;
  readonly conditions: Conditions;
  readonly requestIds: RequestIds;
  readonly clientCerts: ClientCertElements;
  /** Account of the bytes that this thread holds for slow peers. */
  readonly held: HeldBytes;
  readonly processLimit: SharedLimiter;
  readonly remoteAuthorize: RemoteAuthorize;
  /** Changes with each snapshot. Without trust or policy there is no traffic. */
  readonly facts: Facts;
}

/** The part for the upstream side: without listeners, limits and policies. */
export interface UpstreamContext
  extends Pick<Context, "engine" | "clock" | "deadlines" | "log" | "stats" | "conditions"> {
  /** Access log and plugins show local addresses, so their presence matters. */
  readonly facts: Pick<Facts, "trusts" | "accessLog" | "plugins">;
}

export interface Facts {
  /** `undefined`: no listener has plugins. */
  plugins: Generations | undefined;
  service: string;
  readonly trusts: TrustContexts;
  policy: PolicyPart | undefined;
  /** The same policy compiled for requests, where a listener judges them; a new object for each change. */
  requestPolicy: RequestPolicy | undefined;
  accessLog: AccessLogger | undefined;
  /** `undefined`: tracing is off. */
  tracer: Tracer | undefined;
  observers: Observers;
  draining: boolean;
  /** Callers of the local service are asked to leave; none is refused. */
  drainingInbound: boolean;
}
