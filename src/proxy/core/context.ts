/**
 * What every listener of a data path works with.
 *
 * @module
 */

import type { Generations } from "../../plugin/mod.ts";
import type { Clock, Deadlines, Log, Stats } from "../../base/mod.ts";
import type { ClientCertElements, HeldBytes, RequestIds } from "../../http/mod.ts";
import type { Engine } from "../../net/mod.ts";
import type { SharedLimiter } from "./admission.ts";
import type { AccessLogger } from "../observe/access_logger.ts";
import type { Handshakes } from "./handshakes.ts";
import type { LiveConnections } from "./live_connections.ts";
import type { FailureSummary } from "../observe/failure_summary.ts";
import type { TrustContexts } from "../trust/trust_contexts.ts";
import type { RequestPolicy } from "../../policy/mod.ts";
import type { PolicyPart } from "../../snapshot/mod.ts";

/** The agent's own verdict on one connection (`-authorize both`); rejects when it cannot be had. */
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
  readonly requestIds: RequestIds;
  readonly clientCerts: ClientCertElements;
  /** Memory of this thread for sides that are slower than the other. */
  readonly held: HeldBytes;
  /** Connections of the whole process. */
  readonly processLimit: SharedLimiter;
  readonly remoteAuthorize: RemoteAuthorize;
  /** Facts of now; replaced as snapshots come in. No trust or policy: no traffic. */
  readonly facts: Facts;
}

export interface Facts {
  /** What stands around requests; `undefined`: nothing anywhere. */
  plugins: Generations | undefined;
  service: string;
  readonly trusts: TrustContexts;
  policy: PolicyPart | undefined;
  /** The same policy, where a listener judges requests; another object whenever it changes. */
  requestPolicy: RequestPolicy | undefined;
  /** Nobody wants one: undefined. */
  accessLog: AccessLogger | undefined;
  draining: boolean;
  /** Those who call the local service are asked to leave; nobody is refused for it. */
  drainingInbound: boolean;
}
