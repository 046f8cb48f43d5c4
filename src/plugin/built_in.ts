/**
 * The plugins inside the executable, each loaded when the first listener uses it.
 *
 * @module
 */

import { type AnyPlugin, whyNoPlugin } from "./registry.ts";
import { ProxyError } from "../base/mod.ts";

const BUILT_IN: Readonly<Record<string, () => Promise<{ readonly default: unknown }>>> = {
  access_log: () => import("../../plugins/access_log/access_log.ts"),
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
};

/** Names that a configuration may use without a file. */
export const BUILT_IN_NAMES: readonly string[] = Object.keys(BUILT_IN);

const LOADED = new WeakSet<AnyPlugin>();

/** Whether it is one of them, and not one of another name's or from a file. */
export function isBuiltIn(definition: AnyPlugin): boolean {
  return LOADED.has(definition);
}

/** `undefined`: there is none of that name. */
export async function loadBuiltIn(name: string): Promise<AnyPlugin | undefined> {
  const load = Object.hasOwn(BUILT_IN, name) ? BUILT_IN[name] : undefined;
  if (!load) return undefined;
  const { default: exported } = await load();
  const fault = whyNoPlugin(exported);
  if (fault) {
    throw new ProxyError("internal", `Cannot load the plugin ${name}: its default export ${fault}`);
  }
  LOADED.add(exported as AnyPlugin);
  return exported as AnyPlugin;
}
