/** One handler for all endpoints, and Consul's answers to requests for none. @module */

import { Hono } from "hono";
import { addAgentRoutes } from "./agent.ts";
import { addCatalogRoutes } from "./catalog.ts";
import { addConfigRoutes } from "./config.ts";
import { addConnectRoutes } from "./connect.ts";
import { addIntentionRoutes } from "./intentions.ts";
import { addKeyRoutes } from "./kv.ts";
import { HttpRefusal } from "../refusal.ts";
import type { Api, Call } from "../http/api.ts";

/** `extend` adds middleware and endpoints, which come before those of the agent. */
export function createApi(extend: (api: Api) => void = () => {}): Api {
  const api: Api = new Hono();
  api.use(async (call, next) => {
    await next();
    const { acl, clock } = call.env;
    call.header("X-Consul-Default-Acl-Policy", acl.defaultPolicy);
    call.header("Date", new Date(clock.now()).toUTCString());
  });
  extend(api);
  api.use(async (call, next) => {
    checkToken(call);
    checkScope(call);
    await next();
  });
  addAgentRoutes(api);
  addConnectRoutes(api);
  addIntentionRoutes(api);
  addCatalogRoutes(api);
  addConfigRoutes(api);
  addKeyRoutes(api);
  api.notFound((call) => textReply(noEndpoint(api, call)));
  api.onError((error) => {
    if (error instanceof HttpRefusal) return textReply(error);
    throw error;
  });
  return api;
}

function textReply({ message, status, headers }: HttpRefusal): Response {
  const text = { "Content-Type": "text/plain; charset=utf-8" };
  return new Response(message, { status, headers: { ...text, ...headers } });
}

function noEndpoint(api: Api, { req: { method, path } }: Call): HttpRefusal {
  // Middleware takes every path; only an endpoint has a method of its own.
  const allowed = ["GET", "PUT", "POST", "DELETE"].filter((other) =>
    api.router.match(other, path)[0].some(([[, route]]) => route.method === other)
  );
  if (allowed.length > 0) {
    return new HttpRefusal(405, `method ${method} not allowed`, { Allow: `OPTIONS,${allowed}` });
  }
  return new HttpRefusal(
    404,
    path.startsWith("/v1/")
      ? "Invalid URL path: not a recognized HTTP API endpoint\n"
      : "Invalid URL path: if attempting to use the HTTP API, ensure the path starts with '/v1/'\n",
  );
}

/** Refuses a request without the token, if there is one. */
function checkToken({ env: { acl }, req }: Call): void {
  if (acl.token === undefined) return;
  const [, bearer] = /^Bearer\s+(\S+)$/i.exec(req.header("authorization") ?? "") ?? [];
  const token = req.query("token") || req.header("x-consul-token") || bearer;
  if (token === acl.token) return;
  throw new HttpRefusal(403, token ? "ACL not found" : "Permission denied: a token is wanted");
}

/** Refuses other datacenters, and namespaces and partitions, which only Consul Enterprise has. */
function checkScope({ env: { datacenter }, req }: Call): void {
  for (const name of ["ns", "partition"]) {
    if ((req.query(name) ?? "") === "") continue;
    throw new HttpRefusal(400, `Invalid query parameter: "${name}" is a Consul Enterprise feature`);
  }
  const dc = req.query("dc") || datacenter;
  if (dc !== datacenter) throw new HttpRefusal(500, "No path to datacenter");
}
