/** The host of one plugin in one generation: log, metrics, clock, shared state and tasks. @module */

import { hostname } from "node:os";
import {
  Backoff,
  type Clock as ProxyClock,
  compileRegex,
  type Conditions,
  type Log as ProxyLog,
  prepareRegexes,
  type Random,
  type Stats as ProxyStats,
} from "../base/mod.ts";
import { compileFormat, type LogFormat } from "../http/mod.ts";
import type {
  Body,
  BoundedMap,
  Call,
  Clock,
  Condition,
  ExchangeSummary,
  FileOptions,
  Host,
  Log,
  LogLine,
  Refusal,
  RefusedAs,
  Secret,
  SecretFrom,
  Stats,
  WatchedFile,
} from "./api.ts";
import { MADE_FAULTS, MadeBody, PassingBody } from "./body.ts";
import { createBoundedMap } from "./bounded_map.ts";
import { type Callees, PluginCalls } from "./callees.ts";
import { ownStats } from "./own_stats.ts";
import { faultOf } from "./source_positions.ts";
import { type Coding, compressed, decompressed } from "./compressed.ts";
import { fieldsWith } from "./header_list.ts";
import { EndedExchange, headerValueOf } from "./header_value.ts";
import { checkStatus, notSent, PluginResponse } from "./messages.ts";
import type { HookMarks } from "./hook_marks.ts";
import { withoutSecrets } from "./secrets.ts";
import { PluginConditions } from "./plugin_conditions.ts";
import type { SharedState } from "./shared_state.ts";
import { type HostFiles, WatchedFiles } from "./watched_files.ts";

export interface HostDeps {
  readonly log: ProxyLog;
  readonly stats: ProxyStats;
  readonly clock: ProxyClock;
  readonly random: Random;
  readonly shared: SharedState;
  /** Default: a plugin that holds the thread is not noticed. */
  readonly marks?: HookMarks;
  /** Default: they are only logged. */
  readonly conditions?: Conditions;
  /** Default: no service can be called. */
  readonly callees?: Callees;
  /** Default: those of the machine. */
  readonly files?: HostFiles;
  /** Takes a line of the access log, with its line end, and does not block; absent: lines are dropped. */
  readonly takeLine?: (line: string) => void;
}

const LINES_PER_SECOND = 10;
const MAX_TASKS = 16;
const MAX_KEYS = 100;
const TASK_PAUSE = { baseMs: 100, maxMs: 30_000 };
const REFUSALS = {
  denied: "plugin_denied",
  unauthenticated: "unauthenticated",
  rate_limited: "rate_limited",
  overloaded: "limit_reached",
  timed_out: "response_timed_out",
} as const satisfies Record<RefusedAs, string>;

export class PluginHost implements Host {
  readonly log: Log;
  readonly stats: Stats;
  readonly clock: Clock;
  readonly listener: string;
  readonly calls: PluginCalls;
  readonly #files: WatchedFiles;
  readonly #abort = new AbortController();
  readonly #lender: HostDeps;
  readonly #plugin: string;
  readonly #keys = new Set<string>();
  readonly #conditions: PluginConditions;
  #tasks = 0;

  constructor(plugin: string, listener: string, lender: HostDeps) {
    this.#plugin = plugin;
    this.listener = listener;
    this.#lender = lender;
    this.log = boundedLog(lender.log.with({ plugin, listener }), lender.clock);
    this.stats = ownStats(plugin, lender.stats);
    this.clock = ownClock(lender.clock);
    this.calls = new PluginCalls(lender.callees);
    this.#files = new WatchedFiles({ files: lender.files, clock: lender.clock, log: this.log });
    this.#conditions = new PluginConditions({ plugin, listener }, this.log, lender.conditions);
  }

  get #environment() {
    return { hostname: hostname(), now: () => this.#lender.clock.now() };
  }

  get worker(): Host["worker"] {
    return this.#lender.shared.worker;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  random(): number {
    return this.#lender.random();
  }

  async regex(pattern: string): Promise<(text: string) => boolean> {
    await prepareRegexes();
    const compiled = compileRegex(pattern);
    if (compiled.kind === "refused") throw new TypeError(compiled.reason);
    const { regex } = compiled;
    return (text) => regex.test(text);
  }

  reply(status: number, headers: Readonly<Record<string, string>> = {}, body = ""): PluginResponse {
    checkStatus(status);
    const fields = fieldsWith([], { set: headers });
    const made = body === "" ? null : new MadeBody(body);
    const head = { status, fields, length: made?.length ?? 0 };
    return new PluginResponse(head, made, { endpoint: null, failure: null });
  }

  refuse(as: RefusedAs, reason: string): Refusal {
    return notSent(REFUSALS[as], withoutSecrets(reason)) as PluginResponse & Refusal;
  }

  accessLog(format: string | object): (ended: ExchangeSummary) => void {
    const { takeLine } = this.#lender;
    const compiled = compileFormat(formatOf(format), this.#environment);
    if (compiled.kind === "refused") throw new TypeError(`the format ${compiled.reason}`);
    return (ended) => takeLine?.(compiled.line(EndedExchange.recordOf(ended)));
  }

  compress(body: Body, coding: Coding): ReadableStream<Uint8Array> {
    return compressed(body.stream(), coding);
  }

  decompress(
    body: Body,
    coding: Coding | "deflate",
    limitBytes: number,
  ): ReadableStream<Uint8Array> {
    const { tooLong, broken } = body instanceof PassingBody ? body.faults : MADE_FAULTS;
    return decompressed(body.stream(), coding, { limitBytes, tooLong, broken });
  }

  headerValue(text: string): ReturnType<Host["headerValue"]> {
    return headerValueOf(text, this.#lender.clock, this.#environment);
  }

  map<V>(options: { readonly limit: number; readonly ttlMs: number }): BoundedMap<V> {
    return createBoundedMap(this.#lender.clock, options);
  }

  shared<T extends object>(key: string, make: () => T): T {
    const whole = `${this.#plugin}/${key}`;
    const isNew = !this.#keys.has(whole);
    if (isNew && this.#keys.size >= MAX_KEYS) {
      throw new RangeError(`shared: more than ${MAX_KEYS} keys`);
    }
    this.#keys.add(whole);
    return this.#lender.shared.use(whole, make, isNew);
  }

  sharedCells(
    key: string,
    length: number,
    options?: { readonly survivesUpgrade?: boolean },
  ): Promise<Int32Array<SharedArrayBuffer>> {
    return this.#lender.shared.cells(`${this.#plugin}/${key}`, length, options);
  }

  file<T = string>(path: string, options?: FileOptions<T>): Promise<WatchedFile<T>> {
    return this.#files.file(path, options);
  }

  secret(from: SecretFrom): Promise<Secret> {
    return this.#files.secret(from);
  }

  callee(target: string, { http2 = false }: { readonly http2?: boolean } = {}): Call {
    return this.calls.to({ target, http2 });
  }

  condition(about: Condition): (ended: string, refused?: number) => void {
    return this.#conditions.begin(about);
  }

  spawn(name: string, task: (signal: AbortSignal) => Promise<void>): void {
    if (this.#tasks >= MAX_TASKS) throw new RangeError(`spawn: more than ${MAX_TASKS} tasks`);
    this.#tasks++;
    const { signal } = this;
    const pause = new Backoff({ ...TASK_PAUSE, random: this.#lender.random });
    const run = async () => {
      while (!signal.aborted) {
        try {
          await task(signal);
          break;
        } catch (error) {
          if (signal.aborted) break;
          this.log.warn("task failed", { task: name, reason: faultOf(error) });
          await this.clock.sleep(pause.next(), signal);
        }
      }
      this.#tasks--;
    };
    void run();
  }

  close(): void {
    this.#abort.abort();
    this.calls.close();
    this.#files.close();
    this.#conditions.close();
    for (const key of this.#keys) this.#lender.shared.leave(key);
    this.#keys.clear();
  }
}

function formatOf(format: string | object): LogFormat {
  if (typeof format === "object") return { kind: "json", json: JSON.stringify(format) };
  return format === "" ? { kind: "default" } : { kind: "text", text: format };
}

function ownClock(clock: ProxyClock): Clock {
  return {
    now: () => clock.monotonic(),
    wall: () => clock.now(),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const over = () => {
          timer.cancel();
          signal?.removeEventListener("abort", over);
          resolve();
        };
        const timer = clock.after(ms, over);
        signal?.addEventListener("abort", over);
      }),
  };
}

/** Lines above the limit are counted; a later second logs their number first. */
function boundedLog(log: ProxyLog, clock: ProxyClock): Log {
  let second = -1;
  let lines = 0;
  let dropped = 0;
  const line = (level: "debug" | "info" | "warn" | "error"): LogLine => (message, facts) => {
    const now = Math.floor(clock.monotonic() / 1_000);
    if (now !== second) {
      if (dropped > 0) log.warn("a plugin's lines were left out", { lines: dropped });
      second = now;
      lines = dropped = 0;
    }
    if (++lines > LINES_PER_SECOND) dropped++;
    else log[level](withoutSecrets(String(message)), facts && shownFacts(facts));
  };
  return { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
}

function shownFacts(facts: NonNullable<Parameters<LogLine>[1]>): typeof facts {
  const shown = Object.entries(facts).map(([name, value]) =>
    [name, typeof value === "string" ? withoutSecrets(value) : value] as const
  );
  return Object.fromEntries(shown);
}
