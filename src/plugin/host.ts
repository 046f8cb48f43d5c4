/** The host of one plugin in one generation: log, metrics, clock, shared state and tasks. @module */

import { hostname } from "node:os";
import {
  Backoff,
  type Clock as ProxyClock,
  compileRegex,
  type Conditions,
  type Counter,
  type Gauge,
  type Histogram,
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
  ExchangeSummary,
  Host,
  Log,
  LogLine,
  Refusal,
  RefusedAs,
  Stats,
} from "./api.ts";
import { MadeBody } from "./body.ts";
import { createBoundedMap } from "./bounded_map.ts";
import { type Callees, PluginCalls } from "./callees.ts";
import { faultOf } from "./source_positions.ts";
import { type Coding, compressed } from "./compressed.ts";
import { fieldsWith } from "./header_list.ts";
import { EndedExchange, headerValueOf } from "./header_value.ts";
import { checkStatus, notSent, PluginResponse } from "./messages.ts";
import type { HookMarks } from "./hook_marks.ts";
import type { SharedState } from "./shared_state.ts";

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
  readonly #abort = new AbortController();
  readonly #lender: HostDeps;
  readonly #plugin: string;
  readonly #keys = new Set<string>();
  #tasks = 0;

  constructor(plugin: string, listener: string, lender: HostDeps) {
    this.#plugin = plugin;
    this.listener = listener;
    this.#lender = lender;
    this.log = boundedLog(lender.log.with({ plugin, listener }), lender.clock);
    this.stats = ownStats(plugin, lender.stats);
    this.clock = ownClock(lender.clock);
    this.calls = new PluginCalls(lender.callees);
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
    return notSent(REFUSALS[as], reason) as PluginResponse & Refusal;
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

  callee(target: string, { http2 = false }: { readonly http2?: boolean } = {}): Call {
    return this.calls.to({ target, http2 });
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
    else log[level](String(message), facts);
  };
  return { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
}

const METRIC = /^[a-z][a-z0-9_]{0,63}$/;
const MAX_METRICS = 100;
const SUFFIXES = { counter: "_total", gauge: "", histogram: "_ms" } as const;

interface Cells {
  readonly counter: Counter;
  readonly gauge: Gauge;
  readonly histogram: Histogram;
}

interface About {
  readonly help: string;
  readonly labels?: Spec;
}
const MAX_CELLS = 1_000;

function ownStats(plugin: string, stats: ProxyStats): Stats {
  const names = new Set<string>();
  const make = <Kind extends keyof Cells>(
    kind: Kind,
    name: string,
    { help, labels = {} }: About,
  ) => {
    if (!METRIC.test(name)) throw new TypeError(`metric ${JSON.stringify(name)}: not snake_case`);
    if (names.add(name).size > MAX_METRICS) {
      throw new RangeError(`more than ${MAX_METRICS} metrics`);
    }
    const all = combinations(labels);
    const whole = `plugin_${plugin}_${name}${SUFFIXES[kind]}`;
    const cells = new Map<string, unknown>(
      all.map((chosen) => [keyOf(labels, chosen), stats[kind](whole, help, chosen)]),
    );
    return (chosen: Readonly<Record<string, string>> = {}) => {
      const cell = cells.get(keyOf(labels, chosen));
      if (cell) return cell as Cells[Kind];
      throw new TypeError(`metric ${name}: no such label ${JSON.stringify(chosen)}`);
    };
  };
  return {
    counter(name, about) {
      const cellOf = make("counter", name, about);
      return { add: (count, ...[labels]) => cellOf(labels).add(count) };
    },
    gauge(name, about) {
      const cellOf = make("gauge", name, about);
      return {
        add: (count, ...[labels]) => cellOf(labels).add(count),
        set: (value, ...[labels]) => cellOf(labels).set(value),
      };
    },
    histogram(name, about) {
      const cellOf = make("histogram", name, about);
      return { observe: (ms, ...[labels]) => cellOf(labels).observe(ms) };
    },
  };
}

type Spec = Readonly<Record<string, readonly string[]>>;

function combinations(labels: Spec): Readonly<Record<string, string>>[] {
  let all: Record<string, string>[] = [{}];
  for (const [name, values] of Object.entries(labels)) {
    all = all.flatMap((chosen) => values.map((value) => ({ ...chosen, [name]: value })));
    if (all.length > MAX_CELLS) throw new RangeError(`labels: more than ${MAX_CELLS} combinations`);
  }
  return all;
}

function keyOf(labels: Spec, chosen: Readonly<Record<string, string>>): string {
  let key = "";
  for (const name in labels) key += `${chosen[name]}\0`;
  return key;
}
