/**
 * Finds the endpoint of a request, and turns what an endpoint throws into a reply.
 *
 * @module
 */

import { type Handler, openCall, refused, type Route, type World } from "./call.ts";
import type { DevReply, DevRequest } from "./dev_exchange.ts";
import { Refusal } from "./refusal.ts";
import { ACL_ROUTES } from "../routes/routes_acl.ts";
import { AGENT_ROUTES } from "../routes/routes_agent.ts";
import { CATALOG_ROUTES } from "../routes/routes_catalog.ts";
import { CONFIG_ROUTES } from "../routes/routes_config.ts";
import { CONNECT_ROUTES } from "../routes/routes_connect.ts";
import { INTENTION_ROUTES } from "../routes/routes_intentions.ts";
import { LOGIN_ROUTES } from "../routes/routes_login.ts";
import { QUERY_ROUTES } from "../routes/routes_query.ts";
import { REGISTRATION_ROUTES } from "../routes/routes_registration.ts";
import { SESSION_ROUTES } from "../routes/routes_session.ts";

const ROUTES: readonly Route[] = [
  ...AGENT_ROUTES,
  ...CONNECT_ROUTES,
  ...INTENTION_ROUTES,
  ...CATALOG_ROUTES,
  ...REGISTRATION_ROUTES,
  ...SESSION_ROUTES,
  ...CONFIG_ROUTES,
  ...QUERY_ROUTES,
  ...ACL_ROUTES,
  ...LOGIN_ROUTES,
];

/** Answers one request. Throws only what no request should cause. */
export async function route(world: World, request: DevRequest): Promise<DevReply> {
  const shared = {
    "X-Consul-Default-Acl-Policy": world.state.acl.defaultPolicy,
    "Vary": "Accept-Encoding",
    "Date": new Date(world.clock.now()).toUTCString(),
  };
  const found = find(request);
  if (found.kind === "none") {
    const text = request.path.startsWith("/v1/")
      ? "Invalid URL path: not a recognized HTTP API endpoint\n"
      : "Invalid URL path: if attempting to use the HTTP API, ensure the path starts with '/v1/'\n";
    return refused(new Refusal(404, text));
  }
  try {
    if (found.kind === "methods") {
      const text = `method ${request.method} not allowed`;
      throw new Refusal(405, text, { Allow: `OPTIONS,${found.methods.join(",")}` });
    }
    const reply = await found.handle(openCall(world, request, found.params));
    return { ...reply, headers: { ...reply.headers, ...shared } };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const reply = refused(error);
    const prefix = world.asClientAgent && isForwarded(request.path, error) ? FORWARDED : "";
    return { ...reply, body: prefix + error.message, headers: { ...reply.headers, ...shared } };
  }
}

const FORWARDED = "rpc error making call: ";

/** Whether a client agent would have heard this from a server. */
function isForwarded(path: string, error: Refusal): boolean {
  const local = path.startsWith("/v1/agent/") && !path.startsWith("/v1/agent/connect/ca/leaf/");
  if (local || error.status === 400 || error.status === 405) return false;
  return !/^(required query parameter|'by' parameter|Config entry not found|Intention not found|URI must be)/
    .test(error.message);
}

type Found =
  | { readonly kind: "none" }
  | { readonly kind: "methods"; readonly methods: readonly string[] }
  | { readonly kind: "route"; readonly handle: Handler; readonly params: readonly string[] };

function find(request: DevRequest): Found {
  const methods: string[] = [];
  for (const { method, path, handle } of ROUTES) {
    const match = path.exec(request.path);
    if (!match) continue;
    if (method === request.method) {
      return { kind: "route", handle, params: match.slice(1).map((part) => decoded(part ?? "")) };
    }
    methods.push(method);
  }
  return methods.length > 0 ? { kind: "methods", methods } : { kind: "none" };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Left as it is: no name has a broken escape, so it will not be found.
    return part;
  }
}
