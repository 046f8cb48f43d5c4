/**
 * What a source of snapshots from the agent is given.
 *
 * @module
 */

import type { Clock, Log, Stats } from "../../base/mod.ts";
import type { Consul } from "../../consul/mod.ts";
import type { SecretStore } from "../../secrets/mod.ts";
import type { RegistrationSource } from "./consul_facts.ts";
import type { EnvironmentVariables } from "../shell/credential_plans.ts";
import type { JudgeCredentials } from "../shell/judge_credentials.ts";
import type { PluginWatch } from "../plugins/plugin_watch.ts";
import type { SnapshotStore } from "../state/store.ts";

export interface ConsulSourceOptions {
  readonly agent: Consul;
  readonly registration: RegistrationSource;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  /** Keeps the last good snapshot over restarts. */
  readonly store?: SnapshotStore;
  readonly authorize?: "match" | "both";
  readonly strictSpiffeChain?: boolean;
  /** Prepared queries without an interval of their own; default 10 s. */
  readonly defaultQueryIntervalMs?: number;
  /** Upstream connections without a byte; default 1 h, as Envoy's. 0: never. */
  readonly idleTimeoutMs?: number;
  /** Upstream connections at all; default 0: for ever. */
  readonly lifetimeMs?: number;
  /** How long upstreams are waited for; default 5 s. */
  readonly graceMs?: number;
  /** How long the endpoints of an emptied list are kept; default 5 min. */
  readonly lastResortMs?: number;
  /** Default: the real check. */
  readonly judge?: JudgeCredentials;
  /** For listeners and upstreams with credentials of their own. */
  readonly createSecretStore: () => SecretStore;
  /** Where SPIFFE_ENDPOINT_SOCKET is looked up; default nowhere. */
  readonly env?: EnvironmentVariables;
  /** Absent: changed files of plugins count from the next reload. */
  readonly pluginWatch?: PluginWatch | undefined;
}
