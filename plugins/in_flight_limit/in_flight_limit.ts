/**
 * Refuses requests while too many are running, in total or of one caller. Requests are counted for the whole
 * proxy, across its workers.
 *
 * @module
 */

import * as v from "valibot";
import type { Connection, Plugin, PluginDefinition, Refusal, Route } from "../../src/plugin/api.ts";
import { cellsFor, type CountedBy, keyOf, RunningCounts } from "./running_counts.ts";

const Most = v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000_000)));
const Config = v.strictObject({ limit: Most, limitPerSource: Most });
type Config = v.InferOutput<typeof Config>;

/**
 * Shared by all generations of a worker, since exchanges may outlive theirs. The cells stay the same while a
 * worker lives.
 */
const COUNTS = new WeakMap<Int32Array<SharedArrayBuffer>, RunningCounts>();

function runningIn(cells: Int32Array<SharedArrayBuffer>, worker: CountedBy): RunningCounts {
  let running = COUNTS.get(cells);
  if (!running) COUNTS.set(cells, running = new RunningCounts(cells, worker));
  return running;
}

/** A limit; each limit of each listener or route has its own counts. */
interface Limit {
  readonly most: number;
  readonly key: number;
  readonly refuse: () => Refusal;
}
interface SourceLimit extends Limit {
  /** Keys of callers, computed once for each connection. */
  readonly keys: WeakMap<Connection, number>;
}
interface Limits {
  readonly all: Limit | undefined;
  readonly perSource: SourceLimit | undefined;
}

export default {
  name: "in_flight_limit",
  api: 1,
  phase: "guard",
  config: Config,
  routeConfig: Config,
  async create(host, config): Promise<Plugin<Config>> {
    const cells = await host.sharedCells("running", cellsFor(host.worker));
    const running = runningIn(cells, host.worker);
    const refused = host.stats.counter("refused", {
      help: "Requests refused because too many were under way",
      labels: { by: ["all", "source"] },
    });
    const limitOf = (most: number | undefined, by: "all" | "source", at: string) => {
      if (most === undefined) return undefined;
      const whose = by === "source" ? " of one source" : "";
      const refusal = host.refuse("overloaded", `${most} requests${whose} are running already`);
      const labels = { by };
      const refuse = () => {
        refused.add(1, labels);
        return refusal;
      };
      return { most, key: keyOf(`${by}\0${host.listener}\0${at}\0`), refuse };
    };
    const compile = ({ limit, limitPerSource }: Config, at: string): Limits => {
      const perSource = limitOf(limitPerSource, "source", at);
      return {
        all: limitOf(limit, "all", at),
        perSource: perSource && { ...perSource, keys: new WeakMap() },
      };
    };
    const everywhere = compile(config, "");
    const routes = new WeakMap<Config, Limits>();
    const limitsOn = ({ name }: Route, routeConfig: Config): Limits => {
      let limits = routes.get(routeConfig);
      if (!limits) routes.set(routeConfig, limits = compile(routeConfig, `route ${name}`));
      return limits;
    };
    return {
      onRequest({ exchange, route, routeConfig }, next) {
        const limits = route && routeConfig ? limitsOn(route, routeConfig) : everywhere;
        const { all, perSource } = limits;
        if (perSource) {
          const leave = running.enter(keyOn(exchange.connection, perSource), perSource.most);
          if (!leave) return perSource.refuse();
          exchange.onEnd(leave);
        }
        if (all) {
          const leave = running.enter(all.key, all.most);
          if (!leave) return all.refuse();
          exchange.onEnd(leave);
        }
        return next();
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof Config>;

function keyOn(connection: Connection, { key, keys }: SourceLimit): number {
  let own = keys.get(connection);
  if (own === undefined) keys.set(connection, own = keyOf(connection.source?.uri ?? "", key));
  return own;
}
