/** Calls between main thread and data worker: `ask` has a result, `tell` has none. @module */

import {
  type ErrorCode,
  type LogLevel,
  messageOf,
  ProxyError,
  type TakeConditions,
} from "../../base/mod.ts";
import type { ListeningSocket } from "../../net/mod.ts";
import {
  type HeldPlugin,
  type ListenerRefusal,
  type OpenSharedCells,
  PluginsRefused,
  type TellMarked,
} from "../../plugin/mod.ts";
import type {
  Columns,
  DataView,
  Ejection,
  ExplainQuery,
  ExplainResult,
  FetchCertificate,
  ListenerView,
  OpenTap,
  PublishEffect,
  RemoteAuthorize,
  TakeTapped,
  ViewOptions,
} from "../../proxy/mod.ts";
import type { SendTelemetry } from "../telemetry/outbox.ts";
import type { ProgramStart } from "./spawn_process.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import type { SnapshotUpdate } from "../../snapshot/mod.ts";

/** Functions that one side offers. `ask` gives their value, `tell` drops it. */
type Calls<Side> = { readonly [Name in keyof Side]: (...given: never) => unknown };

type Given<Side extends Calls<Side>, Name extends keyof Side> = Parameters<Side[Name]>;
type Answer<Side extends Calls<Side>, Name extends keyof Side> = Awaited<ReturnType<Side[Name]>>;

/** The common part of `Worker` and of its global scope. */
export interface Port {
  postMessage(message: unknown): void;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
}

type Message =
  | { readonly kind: "notification"; readonly name: string; readonly given: readonly unknown[] }
  | {
    readonly kind: "call";
    readonly id: number;
    readonly name: string;
    readonly given: readonly unknown[];
  }
  | { readonly kind: "result"; readonly id: number; readonly value: unknown }
  | {
    readonly kind: "failed";
    readonly id: number;
    readonly code: ErrorCode;
    readonly message: string;
    /** Present: the error is a {@link PluginsRefused}. */
    readonly refusals?: readonly ListenerRefusal[];
  };

interface Pending {
  resolve(value: unknown): void;
  reject(error: ProxyError): void;
}

export class Channel<Theirs extends Calls<Theirs>, Ours extends Calls<Ours>> {
  readonly #port: Port;
  readonly #ours: Ours;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #open = true;

  constructor(port: Port, ours: Ours) {
    this.#port = port;
    this.#ours = ours;
    port.onmessage = ({ data }) => this.#take(data as Message);
  }

  tell<Name extends keyof Theirs & string>(name: Name, ...given: Given<Theirs, Name>): void {
    this.#send({ kind: "notification", name, given });
  }

  /** Rejects with the error of the other side, or with `closed` once it is gone. */
  ask<Name extends keyof Theirs & string>(
    name: Name,
    ...given: Given<Theirs, Name>
  ): Promise<Answer<Theirs, Name>> {
    return new Promise((resolve, reject) => {
      if (!this.#open) return reject(gone());
      const id = ++this.#lastId;
      this.#pending.set(id, { resolve: resolve as Pending["resolve"], reject });
      this.#send({ kind: "call", id, name, given });
    });
  }

  /** The other side is gone: pending calls reject, and its late messages are ignored. */
  close(): void {
    this.#open = false;
    for (const { reject } of this.#pending.values()) reject(gone());
    this.#pending.clear();
  }

  #send(message: Message): void {
    if (this.#open) this.#port.postMessage(message);
  }

  #take(message: Message): void {
    if (!this.#open) return;
    switch (message.kind) {
      case "notification":
        return void this.#call(message.name, message.given);
      case "call":
        return void this.#answer(message.id, message.name, message.given);
      case "result":
        return this.#settled(message.id)?.resolve(message.value);
      case "failed":
        return this.#settled(message.id)?.reject(errorOf(message));
    }
  }

  async #answer(id: number, name: string, given: readonly unknown[]): Promise<void> {
    try {
      this.#send({ kind: "result", id, value: await this.#call(name, given) });
    } catch (error) {
      const code = error instanceof ProxyError ? error.code : "internal";
      const refusals = error instanceof PluginsRefused ? error.refusals : undefined;
      const message = messageOf(error);
      this.#send({ kind: "failed", id, code, message, ...refusals && { refusals } });
    }
  }

  #call(name: string, given: readonly unknown[]): unknown {
    return this.#ours[name as keyof Ours](...given as never);
  }

  #settled(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    return pending;
  }
}

function errorOf({ code, message, refusals }: Extract<Message, { kind: "failed" }>): ProxyError {
  return refusals ? new PluginsRefused(refusals) : new ProxyError(code, message);
}

function gone(): ProxyError {
  return new ProxyError("closed", "Cannot ask: the other thread is gone");
}

type Settings = Pick<
  ProxyOptions,
  "workers" | "maxConnections" | "idleTimeoutMs" | "lifetimeMs" | "logJson" | "logLevel"
>;

export interface WorkerStart {
  /** Never change while a worker lives. */
  readonly settings: Settings & { readonly worker: number };
  /** The main thread's monotonic time, which becomes the worker's. */
  readonly nowMs: number;
  readonly counts: SharedArrayBuffer;
  readonly logMemory: SharedArrayBuffer;
  readonly accessMemory: SharedArrayBuffer;
  /** Memory of the marks of plugins, and the plugins that have held a worker. */
  readonly marks: SharedArrayBuffer;
  readonly held: readonly HeldPlugin[];
  /** Sockets of the process before; present: the worker accepts nothing before `accept`. */
  readonly inherited?: readonly ListeningSocket[] | undefined;
  /** As in `PlaneOptions`. */
  readonly kept: readonly ListeningSocket[];
}

/** Calls of a worker. `start` comes first; `start`, `abandon`, `setHeld` and `logLevel` have no result. */
export interface WorkerCalls {
  start(given: WorkerStart): void;
  /** As in `DataPath`; an error is the refusal. */
  prepare(update: SnapshotUpdate): Promise<void>;
  publish(columns: Columns): Promise<readonly PublishEffect[]>;
  abandon(): void;
  retryFailed(): Promise<boolean>;
  listeners(): readonly ListenerView[];
  view(options: ViewOptions): DataView;
  used(): readonly string[];
  explain(question: ExplainQuery): Promise<ExplainResult | undefined>;
  setTaps(taps: readonly OpenTap[]): void;
  /** Returns the bytes of the worker's heap. */
  beat(): number;
  setHeld(held: readonly HeldPlugin[]): void;
  drainInbound(): void;
  spawn(start: ProgramStart): Promise<number>;
  accept(): void;
  resume(ejections: readonly Ejection[]): void;
  sockets(): readonly ListeningSocket[];
  drain(timeoutMs: number, options?: { readonly handedOver: boolean }): Promise<void>;
  logLevel(level: LogLevel): void;
}

/** Calls of the main thread. `ready` comes first; `ready`, `lines`, `marked` and `firstUse` have no result. */
export interface MainCalls {
  ready(): void;
  /** Lines of a log wait in the worker's ring. */
  lines(): void;
  /** An idle upstream is used. */
  firstUse(upstreamId: string): void;
  telemetry: SendTelemetry;
  /** A plugin from a file is loaded, or closed. */
  marked: TellMarked;
  conditions: TakeConditions;
  tapped: TakeTapped;
  authorize: RemoteAuthorize;
  fetchCertificate: FetchCertificate;
  lendCells: OpenSharedCells;
}
