/**
 * A process that keeps itself registered in a catalog in memory, and the application that it registers.
 *
 * @module
 */

import {
  formatAddress,
  ProxyError,
  seededRandom,
  silentLog,
  Stats,
} from "../../../src/base/mod.ts";
import type { DialHandler, DialOptions } from "../../../src/net/mod.ts";
import { memoryPair } from "../engine/memory_pair.ts";
import type { RegisterRequest } from "../../../src/consul/model/consul.ts";
import type { ConsulCall } from "../../../src/consul/http/carrier.ts";
import { ConsulReach } from "../../../src/consul/watch/consul_reach.ts";
import { startWatch } from "../../../src/consul/watch/blocking_query.ts";
import { ConnectionBudget } from "../../../src/consul/watch/budget.ts";
import { serversWatchTerms } from "../../../src/consul/watch/watch_terms.ts";
import { keepRegistered } from "../../../src/consul/servers/catalog/keep/keep_registered.ts";
import { FakeClock, settle } from "../clock/clock.ts";
import { MemoryCatalog } from "./memory_catalog.ts";
import { registration } from "./snapshot_facts.ts";

export const REQUEST: RegisterRequest = {
  registration: {
    ...registration(),
    id: "web-proxy",
    service: "web",
    bind: { kind: "tcp", host: "0.0.0.0", port: 20000 },
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    upstreams: [],
  },
  applicationId: "web",
  nodeAddress: "10.0.0.1",
  httpCheckPath: "",
};

/** The checks in the catalog while all is well. */
export const WHOLE: readonly string[] = [
  "alive:passing/web",
  "alive:passing/web-proxy",
  "application:passing/web",
  "application:passing/web-proxy",
];
export const named = (health: string, of = WHOLE): readonly string[] =>
  of.map((line) => line.replace("passing", health));

/** A process that keeps itself registered. */
export class Keeping {
  readonly clock: FakeClock;
  readonly catalog: MemoryCatalog;
  readonly said: string[] = [];
  readonly dialled = new Set<string>();
  readonly stop = new AbortController();
  readonly draining = new AbortController();
  /** The application takes connections. */
  isUp = true;
  /** The proxy does. */
  listens = true;
  isCutOff = false;
  failure: unknown;
  readonly over: Promise<void>;

  constructor(
    options: {
      readonly catalog?: MemoryCatalog;
      readonly clock?: FakeClock;
      readonly request?: Partial<RegisterRequest>;
      readonly isUp?: boolean;
    } = {},
  ) {
    const { catalog = new MemoryCatalog(), clock = new FakeClock() } = options;
    this.clock = clock;
    this.catalog = catalog;
    this.isUp = options.isUp ?? true;
    const say = (message: string) => void this.said.push(message);
    const log = { ...silentLog, info: say, warn: say, error: say };
    const stats = new Stats();
    const random = seededRandom(7);
    const budget = new ConnectionBudget({ connections: 12, clock, log, stats });
    const reach = new ConsulReach();
    const loop = { clock, random, log, stats, budget, reach, terms: serversWatchTerms(reach) };
    const engine = {
      dial: ({ address }: DialOptions, handler: DialHandler) => {
        this.dialled.add(formatAddress(address));
        queueMicrotask(() => {
          const isOwn = address.kind === "tcp" && address.port === 20000;
          if (isOwn ? !this.listens : !this.isUp) return handler.onFailed("connect", "refused");
          handler.onConnected(memoryPair()[0], undefined);
        });
        return { cancel() {} };
      },
    };
    const client = Object.assign(Object.create(catalog.client), {
      call: (call: ConsulCall) =>
        this.isCutOff
          ? Promise.reject(new ProxyError("agent_unreachable", "cut off"))
          : catalog.client.call(call),
    });
    const servers = { call: () => Promise.reject(new Error("no call is expected")) };
    this.over = keepRegistered(
      { client, servers, node: "virt-1" },
      { ...REQUEST, ...options.request },
      {
        signal: this.stop.signal,
        draining: this.draining.signal,
        deps: {
          clock,
          random,
          log,
          engine,
          watch: (question, sink) => startWatch(question, { sink, deps: loop }),
        },
      },
    ).catch((error) => void (this.failure = error)).finally(() => budget.close());
  }

  /** In steps, so that work begun by a timer can go on before the next. */
  async pass(ms: number): Promise<void> {
    await settle();
    for (let passed = 0; passed < ms; passed += 250) {
      await this.clock.advance(250);
      await settle();
    }
  }

  async end(): Promise<void> {
    this.stop.abort();
    await this.pass(11_000);
    await this.over;
  }

  get session(): string {
    return [...this.catalog.sessions.values()].at(-1) ?? "";
  }
}
