/**
 * Turns requests away that come faster than they may: token buckets for everybody together, and for each
 * caller, address or value of a header. Limits hold for the whole proxy, whatever the number of its workers.
 *
 * @module
 */

import * as v from "valibot";
import type { Plugin, PluginDefinition, Route } from "../../src/plugin/api.ts";
import { compiled, type Limit, Limits, tablesOf } from "./limit.ts";

const Path = v.pipe(v.string(), v.startsWith("/"));
const Config = v.strictObject({
  limits: v.optional(Limits, []),
  paths: v.optional(
    v.pipe(
      v.array(v.union([
        v.strictObject({ exact: Path, limits: Limits }),
        v.strictObject({ prefix: Path, limits: Limits }),
      ])),
      v.maxLength(100),
    ),
    [],
  ),
});
const RouteConfig = v.strictObject({ limits: Limits });

type RouteConfig = v.InferOutput<typeof RouteConfig>;
export default {
  name: "rate_limit",
  api: 1,
  phase: "guard",
  config: Config,
  routeConfig: RouteConfig,
  async create(host, config): Promise<Plugin<RouteConfig>> {
    const tables = await tablesOf(host);
    const compile = (limits: Limits, at: string) => compiled(limits, { host, tables, at });
    const { clock } = host;
    const everywhere = compile(config.limits, "");
    const paths = config.paths.map((path) => ({
      exact: "exact" in path ? path.exact : undefined,
      prefix: "prefix" in path ? path.prefix : "",
      limits: compile(path.limits, "exact" in path ? `= ${path.exact}` : `^ ${path.prefix}`),
    }));
    const limitsFor = (path: string): readonly Limit[] => {
      for (const { exact, prefix, limits } of paths) {
        if (exact === undefined ? path.startsWith(prefix) : isPath(path, exact)) return limits;
      }
      return everywhere;
    };
    const routes = new WeakMap<RouteConfig, readonly Limit[]>();
    const limitsOn = ({ name }: Route, routeConfig: RouteConfig): readonly Limit[] => {
      let limits = routes.get(routeConfig);
      if (!limits) {
        limits = compile(routeConfig.limits, `route ${name}`);
        routes.set(routeConfig, limits);
      }
      return limits;
    };
    return {
      onRequest({ request, exchange: { connection }, route, routeConfig }, next) {
        const limits = route && routeConfig
          ? limitsOn(route, routeConfig)
          : limitsFor(request.path);
        if (limits.length === 0) return next();
        const now = clock.now();
        for (const limit of limits) {
          if (!limit.take(request, connection, now)) return limit.refusal;
        }
        return next();
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof RouteConfig>;

/** But for the query. */
function isPath(path: string, exact: string): boolean {
  return path.startsWith(exact) && (path.length === exact.length || path[exact.length] === "?");
}
