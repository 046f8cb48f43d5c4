/**
 * What the admin server needs from the process it shows. It asks; it holds no state of its own.
 *
 * @module
 */

import type { Clock, LogLevel, Sample } from "../base/mod.ts";
import type { DataView, ExplainQuery, ExplainResult } from "../proxy/mod.ts";
import type { SecretsReport, SourceStatus } from "../source/mod.ts";
import type { MeshQuestions } from "./explain/mesh_questions.ts";
import type { Refusal, Snapshot } from "../snapshot/mod.ts";

/** Never changes while the process runs. */
export interface ServerInfo {
  readonly version: string;
  readonly commit: string;
  /** `bun 1.4.5`. */
  readonly engine: string;
  readonly platform: string;
  readonly pid: number;
  readonly workers: number;
  /** Monotonic time of the start. */
  readonly startedMs: number;
  /** In force now; `openFiles` is undefined where the system knows none. */
  readonly limits: { readonly openFiles: number | undefined; readonly maxConnections: number };
  /** What the flags say, without anything secret. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** How it is now, in whole sentences for people. */
export interface Health {
  /** Why traffic cannot be carried; empty: ready. */
  readonly notReady: readonly string[];
  /** What is wrong and does not make it unready. */
  readonly warnings: readonly string[];
  /** Listeners that there are or should be, and how many of them carry no traffic. */
  readonly listeners: { readonly total: number; readonly unusable: number };
}

/** Whether callers would choose this proxy, by what the catalog says now. */
export type CatalogState =
  | {
    readonly kind: "known";
    /** Why they would not; empty: all its checks pass. */
    readonly failing: readonly string[];
  }
  /** The catalog has nothing to say of such a proxy. */
  | { readonly kind: "unsupported"; readonly reason: string };

/** What became of reading files again. */
export type Reloaded =
  | { readonly kind: "reloaded"; readonly snapshotVersion: number }
  | { readonly kind: "refused"; readonly reason: string };

export interface AdminView {
  readonly clock: Clock;
  readonly info: ServerInfo;
  /** One per data path that answered in time; must settle within a second or two. */
  data(): Promise<readonly DataView[]>;
  /** Endpoints as each data path sees them that answered in time; cheap enough for probes. */
  endpoints(): Promise<readonly Pick<DataView, "endpoints">[]>;
  /** The same of what would become of a request. */
  explain(question: ExplainQuery): Promise<readonly ExplainResult[]>;
  /** `undefined`: there is no Consul to ask. */
  mesh(): MeshQuestions | undefined;
  /** The main thread's own samples; the workers' come with {@link data}. */
  samples(): readonly Sample[];
  snapshot(): Snapshot | undefined;
  /** `undefined`: there is no source yet. */
  source(): SourceStatus | undefined;
  /** Secrets that did not come with the agent's answers, and what happened to them. */
  secretsReport(): SecretsReport;
  /** Configuration that was not taken, also before the first snapshot. */
  refused(): readonly Refusal[];
  /** What of the upstream of that id, or of the service, is not followed, in sentences. */
  unfollowed(upstream: string | undefined): readonly string[];
  health(): Promise<Health>;
  /** Asks Consul, once for all who ask meanwhile. Never rejects. */
  catalog(): Promise<CatalogState>;
  /** Why this process should be started again; empty: it lives. Waits for an answer. */
  stuck(): Promise<readonly string[]>;
  draining(): boolean;
  /** Texts that must never be shown, such as the token in use. */
  secrets(): readonly string[];
  logLevel(): LogLevel;
  setLogLevel(level: LogLevel): void;
  /** Reads files again, as SIGHUP does; resolves when what they say is in force or refused. */
  reload(): Promise<Reloaded>;
  /** Stops accepting, or only asks callers from the mesh to leave; the process stays. */
  drainListeners(which: "all" | "inbound"): void;
  /** Ends the process as SIGTERM does. */
  quit(): void;
}
