/**
 * Refuses requests above a rate: token buckets for all requests, and for each caller, address, header value
 * or claim. Limits apply to the whole proxy, across its workers.
 *
 * @module
 */

import * as v from "valibot";
import type { Host, Plugin, PluginDefinition, Route } from "../../src/plugin/api.ts";
import { compiled, type Limit, Limits, tablesOf } from "./limit.ts";

const REGEX_LIMIT_CHARS = 8_192;
const Path = v.pipe(v.string(), v.startsWith("/"));
const Config = v.strictObject({
  limits: v.optional(Limits, []),
  paths: v.optional(
    v.pipe(
      v.array(v.union([
        v.strictObject({ exact: Path, limits: Limits }),
        v.strictObject({ prefix: Path, limits: Limits }),
        v.strictObject({ regex: v.pipe(v.string(), v.nonEmpty()), limits: Limits }),
      ])),
      v.maxLength(100),
    ),
    [],
  ),
});
const RouteConfig = v.strictObject({ limits: Limits });

type PathConfig = v.InferOutput<typeof Config>["paths"][number];
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
    const paths = await Promise.all(config.paths.map(async (path) => {
      const { matches, at } = await matchOf(path, host);
      return { matches, limits: compile(path.limits, at) };
    }));
    const limitsFor = (path: string): readonly Limit[] => {
      for (const { matches, limits } of paths) if (matches(path)) return limits;
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
      onRequest({ request, exchange, route, routeConfig }, next) {
        const limits = route && routeConfig
          ? limitsOn(route, routeConfig)
          : limitsFor(request.path);
        if (limits.length === 0) return next();
        const now = clock.now();
        for (const limit of limits) {
          if (!limit.take(request, exchange, now)) return limit.refusal;
        }
        return next();
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof RouteConfig>;

async function matchOf(path: PathConfig, host: Host): Promise<{
  readonly matches: (path: string) => boolean;
  readonly at: string;
}> {
  if ("exact" in path) {
    return { matches: (target) => isPath(target, path.exact), at: `= ${path.exact}` };
  }
  if ("prefix" in path) {
    return { matches: (target) => target.startsWith(path.prefix), at: `^ ${path.prefix}` };
  }
  const test = await host.regex(path.regex);
  const matches = (target: string) => {
    const [base = ""] = target.split("?", 1);
    // A path that is too long for the expression counts as matched, so it does not bypass the limit.
    return base.length > REGEX_LIMIT_CHARS || test(base);
  };
  return { matches, at: `~ ${path.regex}` };
}

/** Ignores the query. */
function isPath(path: string, exact: string): boolean {
  return path.startsWith(exact) && (path.length === exact.length || path[exact.length] === "?");
}
