/**
 * How a client agent differs from a server: errors that a server gave have a prefix, and limits that are
 * not set are written as null.
 *
 * @module
 */

import type { Api } from "../../../src/dev/http/api.ts";
import { isObject, type JsonObject, objectAt, objectsAt } from "../../../src/dev/json.ts";

const FORWARDED = "rpc error making call: ";
/** Errors that the agent itself finds. */
const OWN_ERRORS =
  /^(required query parameter|'by' parameter|Config entry not found|Intention not found|Cannot read)/;

export function answerAsClientAgent(api: Api): void {
  api.use(async (call, next) => {
    await next();
    const { status } = call.res;
    const { path } = call.req;
    const isLocal = path.startsWith("/v1/agent/") && !path.startsWith("/v1/agent/connect/ca/leaf/");
    if (isLocal || status === 200 || status === 400 || status === 405) return;
    const text = await call.res.text();
    call.res = new Response(OWN_ERRORS.test(text) ? text : FORWARDED + text, call.res);
  });
  api.get("/v1/agent/service/:id", async (call, next) => {
    await next();
    if (call.res.status !== 200) return;
    const service: JsonObject = await call.res.json();
    const proxy = objectAt(service, "Proxy");
    const upstreams = objectsAt(proxy, "Upstreams").map(withNulls);
    const filled = { ...service, Proxy: { ...proxy, Upstreams: upstreams } };
    call.res = Response.json(upstreams.length > 0 ? filled : service, call.res);
  });
}

const NULLS = {
  limits: { MaxConcurrentRequests: null, MaxConnections: null, MaxPendingRequests: null },
  passive_health_check: {
    BaseEjectionTime: null,
    EnforcingConsecutive5xx: null,
    MaxEjectionPercent: null,
  },
};

function withNulls(upstream: JsonObject): JsonObject {
  const { Config: config } = upstream;
  if (!isObject(config)) return upstream;
  const filled = Object.entries(NULLS)
    .filter(([key]) => isObject(config[key]))
    .map(([key, nulls]) => [key, { ...nulls, ...objectAt(config, key) }] as const);
  return { ...upstream, Config: { ...config, ...Object.fromEntries(filled) } };
}
