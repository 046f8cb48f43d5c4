/**
 * A plugin of the executable at work in each worker of one proxy, for tests of what workers share. Each
 * request is answered 200 behind it. No sockets, no threads.
 *
 * @module
 */

import assert from "node:assert/strict";
import { silentLog, Stats } from "../../../src/base/mod.ts";
import type { Answer, Connection, ExchangeSummary, Identity } from "../../../src/plugin/api.ts";
import {
  type AnyPlugin,
  Generation,
  type OpenSharedCells,
  PluginRequest,
  PluginResponse,
  SharedCells,
  SharedState,
  VERIFIED_CLAIMS,
} from "../../../src/plugin/mod.ts";
import { FakeClock } from "../clock/clock.ts";

export interface WorkerRequest {
  readonly path?: string;
  /** A service; `""`: who shows no certificate. */
  readonly source?: string;
  readonly remoteAddress?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The claims of tokens of `okta`. */
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly worker?: number;
}

export interface Answered {
  readonly status: number;
  readonly failure: PluginResponse["failure"];
  /** All about it is over; it is at once where it was refused. */
  end(): void;
}

export class PluginWorkers {
  readonly clock = new FakeClock();
  readonly stats = new Stats();
  readonly #definition: AnyPlugin;
  readonly #routeConfig: unknown;
  readonly #lent = new SharedCells();
  readonly #states: SharedState[];
  #generations: readonly Generation[] = [];

  private constructor(definition: AnyPlugin, workers: number, routeConfig: unknown) {
    this.#definition = definition;
    this.#routeConfig = routeConfig;
    this.#states = Array.from({ length: workers }, (_, worker) => this.#start(worker, workers));
  }

  static async start(definition: AnyPlugin, config: unknown, options: {
    readonly routeConfig?: unknown;
    readonly workers?: number;
  } = {}): Promise<PluginWorkers> {
    const { workers = 1, routeConfig } = options;
    const started = new PluginWorkers(definition, workers, routeConfig);
    await started.load(config);
    return started;
  }

  #start(worker: number, workers: number): SharedState {
    const lendCells: OpenSharedCells = (...asked) => Promise.resolve(this.#lent.lend(...asked));
    return new SharedState({ worker, workers, lendCells });
  }

  /** In all workers; exchanges under way go on. */
  async load(config: unknown, listener = "inbound"): Promise<void> {
    const name = this.#definition.name;
    const before = this.#generations;
    this.#generations = await Promise.all(this.#states.map((shared) =>
      Generation.make({
        listener,
        number: 1,
        carriesBytes: false,
        plugins: [{
          definition: this.#definition,
          config,
          onFailure: "refuse",
          at: "plugins[0]",
        }],
        routes: [{
          route: { name: "a", service: "db", match: null },
          configs: this.#routeConfig === undefined ? {} : { [name]: this.#routeConfig },
          at: "routes[0]",
        }],
        lender: {
          log: silentLog,
          stats: this.stats,
          clock: this.clock,
          random: Math.random,
          shared,
        },
      })
    ));
    for (const generation of before) void generation.close();
  }

  /** Another takes the place of a worker that died. */
  async restart(worker: number, config: unknown): Promise<void> {
    this.#states[worker] = this.#start(worker, this.#states.length);
    await this.load(config);
  }

  /** Fails every wait. */
  ask(asked: WorkerRequest = {}): Answered {
    const { path = "/", source = "web", remoteAddress = "10.0.0.1:4000", worker = 0 } = asked;
    const generation = this.#generations[worker];
    assert.ok(generation);
    const request = new PluginRequest({
      method: "GET",
      scheme: "http",
      authority: "db",
      path,
      upgrade: "",
      length: 0,
      saysLength: false,
      expectsContinue: false,
      version: "HTTP/1.1",
      fields: Object.entries(asked.headers ?? {}).flat(),
    }, null);
    const uri = `spiffe://t/ns/default/dc/dc1/svc/${source}`;
    const connection: Connection = {
      listener: "inbound",
      direction: "inbound",
      remoteAddress,
      ownUri: "",
      source: source === "" ? null : { uri } as Identity,
    };
    const ends: ((summary: ExchangeSummary) => void)[] = [];
    const onEnd = (callback: (summary: ExchangeSummary) => void) => void ends.push(callback);
    const plan = generation.planOf(request);
    const layers = [...generation.guards, ...plan?.layers ?? []];
    const enter = (index: number): Answer => {
      const layer = layers[index];
      if (!layer) return OK;
      const route = index < generation.guards.length ? undefined : plan?.route;
      const verified = asked.claims && new Map([["okta", asked.claims]]);
      const get = (key: unknown) => key === VERIFIED_CLAIMS ? verified : undefined;
      const exchange = { connection, onEnd, get } as never;
      const { routeConfig } = layer;
      const args = { request, exchange, route, routeConfig };
      return layer.plugin.onRequest?.(args, () => enter(index + 1)) as Answer;
    };
    const answer = enter(0);
    assert.ok(answer instanceof PluginResponse);
    const { status, failure } = answer;
    const end = () => ends.splice(0).forEach((callback) => callback(SUMMARY));
    if (failure) end();
    return { status, failure, end };
  }

  /** The counts of its own metrics: name without prefix, labels, count. */
  counted(): readonly (readonly [string, Readonly<Record<string, string>>, number])[] {
    const prefix = `plugin_${this.#definition.name}_`;
    return this.stats.samples()
      .filter(({ name, value }) => name.startsWith(prefix) && value > 0)
      .map(({ name, labels, value }) => [name.slice(prefix.length), labels, value]);
  }
}

const OK = new PluginResponse({ status: 200, length: 0, fields: [] }, null, {
  endpoint: null,
  failure: null,
});
const SUMMARY: ExchangeSummary = {
  status: 200,
  code: "",
  attempts: 1,
  durationMs: 0,
  receivedBytes: 0,
  sentBytes: 0,
  endpoint: null,
};
