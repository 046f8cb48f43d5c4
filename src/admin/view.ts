/** The process as the admin server reads it. The admin server holds no state of its own. @module */

import type { Clock, LogLevel, ProxyEvent, Sample } from "../base/mod.ts";
import type { Consul } from "../consul/mod.ts";
import type { DaySumsShown } from "../events/mod.ts";
import type { DataView, ExplainQuery, ExplainResult, TapFilter } from "../proxy/mod.ts";
import type { SecretsReport, SourceStatus } from "../source/mod.ts";
import type { Refusal, Snapshot } from "../snapshot/mod.ts";

/** Never changes while the process runs. */
export interface ServerInfo {
  readonly version: string;
  /** Abbreviated; `source` when running from source. */
  readonly commit: string;
  /** `bun 1.4.5`. */
  readonly engine: string;
  /** `linux x64`. */
  readonly platform: string;
  readonly pid: number;
  readonly workers: number;
  /** Monotonic time of the start. */
  readonly startedMs: number;
  /** Attempts to have another process take over that failed, and the reason of the last one. */
  readonly upgrade?: { readonly failures: number; readonly reason: string };
  /** In force now; `openFiles` is undefined where the system knows none. */
  readonly limits: { readonly openFiles: number | undefined; readonly maxConnections: number };
  /** Values of the flags, without secrets. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** The state of the proxy, in sentences for operators. */
export interface Health {
  /** Why traffic cannot be carried; empty: ready. */
  readonly notReady: readonly string[];
  /** Faults that do not make it unready. */
  readonly warnings: readonly string[];
  /** Those of {@link warnings} for which some traffic fails. */
  readonly failing: readonly string[];
  /** All declared listeners, and the number of those that carry no traffic. */
  readonly listeners: { readonly total: number; readonly unusable: number };
}

/** Whether callers would choose this proxy, according to the catalog. */
export type CatalogState =
  | {
    readonly kind: "known";
    /** Reasons against it; empty: all its checks pass. */
    readonly failing: readonly string[];
  }
  /** The catalog has no entry for such a proxy. */
  | { readonly kind: "unsupported"; readonly reason: string };

/** Facts that only Consul has. */
export type MeshQuestions = Pick<Consul, "askInCatalog" | "askIntentions">;

export type Reloaded =
  | { readonly kind: "reloaded"; readonly snapshotVersion: number }
  | { readonly kind: "refused"; readonly reason: string };

/** Another proxy of this machine, as its own admin server describes it: claims, not facts. */
export interface PeerProxy {
  /** Its admin server: `127.0.0.1:19001`. */
  readonly address: string;
  readonly service: string;
  /** The configuration file of a proxy without an id. */
  readonly proxyId: string;
  /** SPIFFE URI; `""`: none, or not told. */
  readonly identity: string;
  readonly version: string;
  readonly state: "ready" | "starting" | "draining" | "not ready" | "no answer";
  /** Why it is not ready, and what else is wrong. */
  readonly troubles: readonly string[];
  /** Requests of both directions of late, and their errors as a share. */
  readonly perSecond: number;
  readonly errorShare: number;
}

/** Satisfied by the journal of events. */
export interface EventsView {
  /** The last ones, oldest first. */
  readonly events: readonly ProxyEvent[];
  /** Number of the last event of an earlier process; 0: there is none. */
  readonly earlierSeq: number;
  /** The effect of this event is still measured, and known within a minute. */
  readonly isPending: (seq: number) => boolean;
  /** Numbers of the last day. */
  readonly day: { shown(nowMs: number): DaySumsShown };
  /** Calls back after each event, and with an amended one, until the returned function is called. */
  follow(onEvent: (changed?: ProxyEvent) => void): () => void;
}

export interface AdminView {
  readonly clock: Clock;
  readonly info: ServerInfo;
  /** One per data path that answered in time; must settle within a second or two. */
  data(): Promise<readonly DataView[]>;
  /** Endpoints and refusing upstreams as seen by each data path that answered in time; cheap enough for probes. */
  endpoints(): Promise<readonly Pick<DataView, "endpoints" | "refusing">[]>;
  /** The explanation of a request by each data path that answered in time. */
  explain(question: ExplainQuery): Promise<readonly ExplainResult[]>;
  /**
   * Lines of what ends from now on go to `take`, until the returned function is called; `dropped`: the number
   * of those that are missing since the last call. Throws where there are too many taps, or no data path yet.
   */
  tap(filter: TapFilter, take: (lines: string, dropped: number) => void): () => void;
  /** `undefined`: there is no Consul to ask. */
  mesh(): MeshQuestions | undefined;
  /** The main thread's own samples; the workers' come with {@link data}. */
  samples(): readonly Sample[];
  snapshot(): Snapshot | undefined;
  /** `undefined`: there is no source yet. */
  source(): SourceStatus | undefined;
  /** What happened so far. */
  events(): EventsView;
  /** Secrets that do not come from the agent. */
  secretsReport(): SecretsReport;
  /** Refused configuration, also before the first snapshot. */
  refused(): readonly Refusal[];
  /** Configuration of the upstream with this id, or of the service, that is not followed, in sentences. */
  unfollowed(upstream: string | undefined): readonly string[];
  health(): Promise<Health>;
  /** Other proxies of this machine; asks them. Never rejects. */
  peers(): Promise<readonly PeerProxy[]>;
  /** Asks Consul; concurrent calls share one question. Never rejects. */
  catalog(): Promise<CatalogState>;
  /** Reasons to restart this process; empty: it lives. Waits for the answer of each worker. */
  stuck(): Promise<readonly string[]>;
  draining(): boolean;
  /** Texts that must never be shown, such as the token in use. */
  secrets(): readonly string[];
  logLevel(): LogLevel;
  setLogLevel(level: LogLevel): void;
  /** Reads files again, as SIGHUP does; resolves when their contents are in force or refused. */
  reload(): Promise<Reloaded>;
  /** Stops accepting, or only asks callers from the mesh to leave; the process stays. */
  drainListeners(which: "all" | "inbound"): void;
  /** Ends the process as SIGTERM does. */
  quit(): void;
}
