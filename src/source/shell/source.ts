/** Where snapshots come from: the agent, or a file. The data path knows only this. @module */

import type { ErrorCode, ProxyError } from "../../base/mod.ts";
import type { MetricsSettings, ServersStatus, WatchState } from "../../consul/mod.ts";
import type { FetchedCertificate, SecretsReport } from "./secrets_link.ts";
import type { CredentialsPart, Refusal, Snapshot } from "../../snapshot/mod.ts";

/**
 * Resolves when it is decided, with the state in force: the snapshot, or one in which some listeners keep
 * the plugins that they have. `undefined`: the snapshot is refused.
 */
export type TakeSnapshot = (snapshot: Snapshot) => Promise<Snapshot | undefined>;

export interface SnapshotSource {
  /**
   * Begins. `onSnapshot` is called with the first whole snapshot and then with every changed one;
   * `onFatal` at most once, when nothing can ever be served and the process should end with the error.
   */
  start(onSnapshot: TakeSnapshot, onFatal?: (error: ProxyError) => void): void;
  /** Another try has put more of the newest snapshot in force: a restart may go on with this state. */
  retried(inForce: Snapshot): void;
  /** Configuration that was not taken, and why; also before the first snapshot. */
  readonly refused: readonly Refusal[];
  /** Settings of the configuration that are not followed, as sentences. */
  readonly warnings: readonly string[];
  /** Upstreams that carried traffic lately; their watches go first where connections are scarce. */
  used(upstreamIds: readonly string[]): void;
  status(): SourceStatus;
  /** Fetches the certificate for the name in a client's SNI. True: a snapshot with it is published. */
  fetchCertificate(request: FetchedCertificate): Promise<boolean>;
  /** States and events of secrets. */
  secrets(): SecretsReport;
  /** Sentences about settings that are not followed: the upstream's with that id, or the proxy's. */
  unfollowed(upstream: string | undefined): readonly string[];
  /** Reads files again; a source without files does nothing. Never throws. False: see `refused`. */
  reload(): Promise<boolean>;
  close(): Promise<void>;
}

/** For the admin server and readiness. */
export interface SourceStatus {
  readonly kind: "consul" | "file";
  /** Parts that the first snapshot still lacks; empty once there is one. */
  readonly waitingFor: readonly string[];
  /** Upstreams whose data has not arrived yet. */
  readonly pending: readonly string[];
  /** Listeners and upstreams that stay closed until their secrets have come. */
  readonly warming: readonly string[];
  /** Watches that fail at present. */
  readonly failing: readonly Failing[];
  readonly watches: readonly WatchState[];
  /** The proxy is an ingress gateway; absent: it is not, or not known yet. */
  readonly isGateway?: true;
  /** Absent where an agent or a file is read. */
  readonly servers?: ServersStatus;
  /** The snapshot in use came from the state directory; the agent has not confirmed it. */
  readonly restored: boolean;
  readonly snapshotVersion: number | undefined;
  readonly certificate: CertificateStatus | undefined;
  /** Settings of the proxy's metrics; absent: none. */
  readonly metrics?: MetricsSettings;
}

export interface Failing {
  readonly watch: string;
  readonly code: ErrorCode;
  readonly message: string;
  /** Wall clock. */
  readonly sinceMs: number;
}

export interface CertificateStatus
  extends Pick<CredentialsPart, "uri" | "serial" | "notBeforeMs" | "notAfterMs"> {
  readonly rootCount: number;
}
