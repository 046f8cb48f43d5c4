/** The plugins inside the executable. Each is loaded when the first listener uses it. @module */

import { ProxyError } from "../base/mod.ts";
import { type AnyPlugin, type Phase, PHASES, whyNoPlugin } from "../plugin/mod.ts";

const LOAD = {
  access_log: () => import("../../plugins/access_log/access_log.ts"),
  api_key: () => import("../../plugins/api_key/api_key.ts"),
  basic_auth: () => import("../../plugins/basic_auth/basic_auth.ts"),
  cache: () => import("../../plugins/cache/cache.ts"),
  circuit_breaker: () => import("../../plugins/circuit_breaker/circuit_breaker.ts"),
  compression: () => import("../../plugins/compression/compression.ts"),
  cors: () => import("../../plugins/cors/cors.ts"),
  ext_authz: () => import("../../plugins/ext_authz/ext_authz.ts"),
  fault: () => import("../../plugins/fault/fault.ts"),
  header_rules: () => import("../../plugins/header_rules/header_rules.ts"),
  in_flight_limit: () => import("../../plugins/in_flight_limit/in_flight_limit.ts"),
  jwt_auth: () => import("../../plugins/jwt_auth/jwt_auth.ts"),
  mirror: () => import("../../plugins/mirror/mirror.ts"),
  path_rewrite: () => import("../../plugins/path_rewrite/path_rewrite.ts"),
  rate_limit: () => import("../../plugins/rate_limit/rate_limit.ts"),
  redirect: () => import("../../plugins/redirect/redirect.ts"),
  retry: () => import("../../plugins/retry/retry.ts"),
  route_match: () => import("../../plugins/route_match/route_match.ts"),
  timeout: () => import("../../plugins/timeout/timeout.ts"),
} as const satisfies Record<string, () => Promise<{ readonly default: unknown }>>;

const ABOUT: Readonly<Record<keyof typeof LOAD, string>> = {
  access_log: "writes a line for each request, in a format of its own",
  api_key: "requires the key of a known client",
  basic_auth: "requires the password of a known user",
  cache: "answers with stored responses while they are fresh",
  circuit_breaker: "refuses requests to a service while it fails",
  compression: "compresses the bodies of responses",
  cors: "lets pages of other origins send requests",
  ext_authz: "calls a service that allows or denies each request",
  fault: "delays and aborts requests, to test how callers cope",
  header_rules: "removes, sets and adds headers of requests and responses",
  in_flight_limit: "refuses requests while too many are under way",
  jwt_auth: "requires a token, and verifies it",
  mirror: "sends copies of requests to another service",
  path_rewrite: "changes the path of requests",
  rate_limit: "refuses requests that come too fast",
  redirect: "redirects callers by rules",
  retry: "retries failed requests",
  route_match: "picks the route of a request",
  timeout: "ends requests that take too long",
};

/** Names that a configuration may use without a file. */
export const BUILT_IN_NAMES: readonly string[] = Object.keys(LOAD);

/** `undefined`: there is no built-in plugin of that name. */
export async function loadBuiltIn(name: string): Promise<AnyPlugin | undefined> {
  if (!Object.hasOwn(LOAD, name)) return undefined;
  const { default: exported } = await LOAD[name as keyof typeof LOAD]();
  const fault = whyNoPlugin(exported);
  if (fault) {
    throw new ProxyError("internal", `Cannot load the plugin ${name}: its default export ${fault}`);
  }
  return exported as AnyPlugin;
}

export interface BuiltInSummary {
  readonly name: string;
  readonly phase: Phase;
  readonly about: string;
}

/** Outermost phase first, then by name. */
export async function builtInSummaries(): Promise<readonly BuiltInSummary[]> {
  const all = await Promise.all(
    Object.entries(ABOUT).map(async ([name, about]): Promise<BuiltInSummary> => {
      const phase = (await loadBuiltIn(name))?.phase ?? "filter";
      return { name, phase, about };
    }),
  );
  const rank = ({ phase }: BuiltInSummary) => PHASES.indexOf(phase);
  return all.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}
