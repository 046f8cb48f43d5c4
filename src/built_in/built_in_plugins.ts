/** The plugins inside the executable. Each is loaded when the first listener uses it. @module */

import { ProxyError } from "../base/mod.ts";
import { type AnyPlugin, type Phase, PHASES, whyNoPlugin } from "../plugin/mod.ts";

interface BuiltInPlugin {
  /** Description of the plugin, in one line. */
  readonly about: string;
  readonly load: () => Promise<{ readonly default: unknown }>;
}

const BUILT_IN: Readonly<Record<string, BuiltInPlugin>> = {
  access_log: {
    about: "writes a line for each request, in a format of its own",
    load: () => import("../../plugins/access_log/access_log.ts"),
  },
  compression: {
    about: "compresses the bodies of responses",
    load: () => import("../../plugins/compression/compression.ts"),
  },
  cors: {
    about: "lets pages of other origins send requests",
    load: () => import("../../plugins/cors/cors.ts"),
  },
  ext_authz: {
    about: "calls a service that allows or denies each request",
    load: () => import("../../plugins/ext_authz/ext_authz.ts"),
  },
  fault: {
    about: "delays and aborts requests, to test how callers cope",
    load: () => import("../../plugins/fault/fault.ts"),
  },
  header_rules: {
    about: "removes, sets and adds headers of requests and responses",
    load: () => import("../../plugins/header_rules/header_rules.ts"),
  },
  in_flight_limit: {
    about: "refuses requests while too many are under way",
    load: () => import("../../plugins/in_flight_limit/in_flight_limit.ts"),
  },
  jwt_auth: {
    about: "requires a token, and verifies it",
    load: () => import("../../plugins/jwt_auth/jwt_auth.ts"),
  },
  mirror: {
    about: "sends copies of requests to another service",
    load: () => import("../../plugins/mirror/mirror.ts"),
  },
  path_rewrite: {
    about: "changes the path of requests",
    load: () => import("../../plugins/path_rewrite/path_rewrite.ts"),
  },
  rate_limit: {
    about: "refuses requests that come too fast",
    load: () => import("../../plugins/rate_limit/rate_limit.ts"),
  },
  redirect: {
    about: "redirects callers by rules",
    load: () => import("../../plugins/redirect/redirect.ts"),
  },
  retry: {
    about: "retries failed requests",
    load: () => import("../../plugins/retry/retry.ts"),
  },
  route_match: {
    about: "picks the route of a request",
    load: () => import("../../plugins/route_match/route_match.ts"),
  },
  timeout: {
    about: "ends requests that take too long",
    load: () => import("../../plugins/timeout/timeout.ts"),
  },
};

/** Names that a configuration may use without a file. */
export const BUILT_IN_NAMES: readonly string[] = Object.keys(BUILT_IN);

/** `undefined`: there is no built-in plugin of that name. */
export async function loadBuiltIn(name: string): Promise<AnyPlugin | undefined> {
  const known = Object.hasOwn(BUILT_IN, name) ? BUILT_IN[name] : undefined;
  if (!known) return undefined;
  const { default: exported } = await known.load();
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
    Object.entries(BUILT_IN).map(async ([name, { about }]): Promise<BuiltInSummary> => {
      const phase = (await loadBuiltIn(name))?.phase ?? "filter";
      return { name, phase, about };
    }),
  );
  const rank = ({ phase }: BuiltInSummary) => PHASES.indexOf(phase);
  return all.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}
