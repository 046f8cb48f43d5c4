/** `/v1/query`: prepared queries. @module */

import { executeQuery } from "../entries/prepared_queries.ts";
import { type Api, has, indexHeaders, param } from "../http/api.ts";
import { Refusal } from "../refusal.ts";
import { decodeBody } from "../shapes.ts";

export function addQueryRoutes(api: Api): void {
  api.post("/v1/query", async (call) => {
    const body = decodeBody(await call.req.text(), "query");
    return Response.json({ ID: call.env.queries.put(body) });
  });
  api.get("/v1/query/:id", (call) => Response.json([call.env.queries.get(param(call, "id"))]));
  api.delete("/v1/query/:id", (call) => {
    call.env.queries.remove(param(call, "id"));
    return call.body(null);
  });
  api.get("/v1/query/:name/execute", (call) => {
    const { queries, catalog, datacenter } = call.env;
    const limit = Number(call.req.query("limit") ?? "0");
    if (!Number.isInteger(limit)) throw new Refusal(400, "Invalid limit");
    const body = executeQuery(queries.get(param(call, "name")), catalog, {
      connect: has(call, "connect") && call.req.query("connect") !== "false",
      limit,
      datacenter,
    });
    return Response.json(body, { headers: indexHeaders(call, 1) });
  });
}
