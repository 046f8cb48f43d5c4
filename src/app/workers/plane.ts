/** The data plane as the main thread uses it: one data path there, or several in workers. @module */

import {
  type Clock,
  type Log,
  type LogLevel,
  ProxyError,
  type ReportEvent,
  type Stats,
} from "../../base/mod.ts";
import type { ListeningSocket } from "../../net/mod.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import type { SendTelemetry } from "../telemetry/outbox.ts";
import type {
  DataView,
  Ejection,
  ExplainQuery,
  ExplainResult,
  FetchCertificate,
  ListenerView,
  OpenTap,
  RemoteAuthorize,
  TapFilter,
  ViewOptions,
} from "../../proxy/mod.ts";
import type { CellContents } from "../../plugin/mod.ts";
import type { ProgramStart } from "./spawn_process.ts";
import type { Rollout } from "./rollout.ts";

export interface DataPlane {
  /** Takes snapshots, and has the one in force. */
  readonly rollout: Pick<
    Rollout,
    | "apply"
    | "setDue"
    | "retryDue"
    | "onRetried"
    | "takeEffects"
    | "published"
    | "taken"
    | "refused"
  >;
  /** Tries listeners again that could not be bound. True: all are. */
  retryFailed(): Promise<boolean>;
  /** Listeners of every data path that answers in time; empty for a path that is gone. */
  listeners(): Promise<readonly (readonly ListenerView[])[]>;
  views(options: ViewOptions): Promise<readonly DataView[]>;
  /** Upstreams in use since the last call, for every data path that answers in time. */
  used(): Promise<readonly (readonly string[])[]>;
  /** Explanations by every data path that answers in time and has a snapshot. */
  explain(question: ExplainQuery): Promise<readonly ExplainResult[]>;
  /** Lines of a new tap go to `take`, until the returned function is called. Throws beyond {@link TAP_LIMIT}. */
  tap(filter: TapFilter, take: TakeTapLines): () => void;
  /** Descriptions of the data paths that do not answer within two seconds. */
  stuck(): Promise<readonly string[]>;
  setLogLevel(level: LogLevel): void;
  /** Asks callers of the inbound listeners to leave, new ones as well; other connections are not affected. */
  drainInbound(): void;
  /** Starts a program with the priority of traffic; returns its process id. */
  spawn(start: ProgramStart): Promise<number>;
  /** Accepts connections, where the start with inherited sockets has held them. */
  accept(): Promise<void>;
  /** Shared state of plugins, for the next process. */
  cells(): readonly CellContents[];
  /** Goes on with the state of the process before, just before {@link accept}. */
  resume(state: ResumedState): Promise<void>;
  /** Copies of all listening sockets, for another process; the caller closes them. */
  sockets(): Promise<readonly ListeningSocket[]>;
  /**
   * Stops accepting; resolves when all connections have ended, at the latest after `timeoutMs`.
   * `handedOver`: another process goes on accepting.
   */
  drain(timeoutMs: number, options?: { readonly handedOver: boolean }): Promise<void>;
  close(): void;
}

/** State of the process before, at its end. */
export interface ResumedState {
  readonly ejections: readonly Ejection[];
  readonly cells: readonly CellContents[];
}

/** As {@link TakeTapped}, of one tap. */
export type TakeTapLines = (lines: string, dropped: number) => void;

/** Taps at once: each costs every request a little. */
const TAP_LIMIT = 4;

/** The open taps, and who takes their lines. */
export class OpenTaps {
  readonly #change: (open: readonly OpenTap[]) => void;
  readonly #taps = new Map<number, { readonly open: OpenTap; readonly take: TakeTapLines }>();
  #lastId = 0;

  constructor(change: (open: readonly OpenTap[]) => void) {
    this.#change = change;
  }

  get open(): readonly OpenTap[] {
    return [...this.#taps.values()].map(({ open }) => open);
  }

  add(filter: TapFilter, take: TakeTapLines): () => void {
    if (this.#taps.size >= TAP_LIMIT) {
      throw new ProxyError(
        "overloaded",
        `Cannot open another tap: ${TAP_LIMIT} are open; close one of them`,
      );
    }
    const id = ++this.#lastId;
    this.#taps.set(id, { open: { id, filter }, take });
    this.#change(this.open);
    return () => {
      if (this.#taps.delete(id)) this.#change(this.open);
    };
  }

  take(id: number, lines: string, dropped: number): void {
    this.#taps.get(id)?.take(lines, dropped);
  }
}

type Settings = "maxConnections" | "idleTimeoutMs" | "lifetimeMs";

export interface PlaneOptions extends Pick<ProxyOptions, Settings> {
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly report?: ReportEvent;
  readonly remoteAuthorize: RemoteAuthorize;
  /** Resolves when a snapshot with the certificate has been handed to {@link Rollout.apply}. */
  readonly fetchCertificate: FetchCertificate;
  /** Takes the finished spans and access records of data paths. */
  readonly sendTelemetry: SendTelemetry;
  /** Called at once when an idle upstream is used. */
  readonly onFirstUse?: (upstreamId: string) => void;
  /** From the process before, which accepts until {@link DataPlane.accept}. The plane takes them. */
  readonly inherited?: readonly ListeningSocket[] | undefined;
  /** Sockets that systemd keeps open: each listener with such an address takes a copy. */
  readonly kept?: readonly ListeningSocket[];
  /** Shared state of plugins of the process before. */
  readonly cells?: readonly CellContents[] | undefined;
}
