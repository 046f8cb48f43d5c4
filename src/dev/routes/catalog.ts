/** The instances of services: `/v1/health`, `/v1/catalog` and `/v1/query`. @module */

import { type Entry, entryJson } from "../catalog/catalog.ts";
import { catalogServiceJson, meshServiceOf, nodeJson, worstOf } from "../catalog/records.ts";
import {
  type Api,
  blockingRead,
  type Call,
  has,
  indexHeaders,
  param,
  type Read,
  replyWhenNewer,
} from "../http/api.ts";
import { parseFilter } from "../filter.ts";
import { executeQuery } from "../catalog/prepared_queries.ts";
import { type JsonObject, objectAt, textAt, textsAt } from "../json.ts";
import { mergeProxy } from "../entries/central_config.ts";
import { HttpRefusal } from "../refusal.ts";
import { decodeBody } from "../shapes.ts";
import { CATALOG, serviceTopic } from "../store.ts";

export function addCatalogRoutes(api: Api): void {
  api.get("/v1/health/connect/:name", (call) => health(call, true));
  api.get("/v1/health/service/:name", (call) => health(call, false));
  api.get("/v1/catalog/services", listServices);
  api.get("/v1/catalog/service/:name", (call) => rows(call, false));
  api.get("/v1/catalog/connect/:name", (call) => rows(call, true));
  api.get(
    "/v1/catalog/nodes",
    ({ env: { catalog } }) =>
      Response.json([...catalog.nodes.values()].map(({ record }) => nodeJson(record))),
  );
  api.get("/v1/catalog/datacenters", (call) => Response.json([call.env.datacenter]));
  api.post("/v1/query", async (call) => {
    const body = decodeBody(await call.req.text(), "query");
    return Response.json({ ID: call.env.queries.put(body) });
  });
  api.get("/v1/query/:id", (call) => Response.json([call.env.queries.get(param(call, "id"))]));
  api.delete("/v1/query/:id", (call) => {
    call.env.queries.remove(param(call, "id"));
    return call.body(null);
  });
  api.get("/v1/query/:name/execute", execute);
}

function health(call: Call, mesh: boolean): Promise<Response> {
  const filter = parseFilter(call.req.query("filter") ?? "");
  const onlyPassing = has(call, "passing") && call.req.query("passing") !== "false";
  const tags = mesh ? [] : call.req.queries("tag") ?? [];
  const shown = has(call, "merge-central-config")
    ? (entry: Entry) => withCentralConfig(entryJson(entry), call)
    : entryJson;
  return replyWhenNewer(call, () => instances(call, mesh), (value) =>
    value
      .filter(({ checks }) => !onlyPassing || worstOf(checks) === "passing")
      .filter(({ service }) => {
        const own = textsAt(service.definition, "Tags");
        return tags.every((tag) => own.includes(tag));
      })
      .map(shown)
      .filter(filter));
}

function withCentralConfig(json: JsonObject, { env: { config } }: Call): JsonObject {
  const service = objectAt(json, "Service");
  const proxy = objectAt(service, "Proxy");
  if (textAt(proxy, "DestinationServiceName") === "") return json;
  const Proxy = mergeProxy(proxy, (kind, name) => config.find(kind, name));
  return { ...json, Service: { ...service, Proxy } };
}

/** Instances of a service, with its index while there are some, else that of the whole catalog. */
function instances(call: Call, mesh: boolean): Read<readonly Entry[]> {
  const name = param(call, "name").toLowerCase();
  const { catalog, store } = call.env;
  const topic = serviceTopic(name, mesh);
  const value = catalog.entries((service) =>
    (mesh ? meshServiceOf(service) : service.name)?.toLowerCase() === name
  );
  const own = value.length > 0 ? store.indexOf(topic) : undefined;
  return { value, index: own ?? store.indexOf(CATALOG) ?? 1, topics: [topic] };
}

async function listServices(call: Call): Promise<Response> {
  const { catalog, store } = call.env;
  const filter = parseFilter(call.req.query("filter") ?? "");
  const { value, index } = await blockingRead(call, () => ({
    index: store.indexOf(CATALOG) ?? 1,
    topics: [CATALOG],
    value: catalog.entries(() => true),
  }));
  const tags = new Map<string, Set<string>>();
  for (const entry of value.filter((entry) => filter(rowJson(entry)))) {
    const { name, definition } = entry.service;
    const own = tags.get(name) ?? new Set();
    tags.set(name, new Set([...own, ...textsAt(definition, "Tags")]));
  }
  const body = Object.fromEntries([...tags].map(([name, own]) => [name, [...own]]));
  return Response.json(body, { headers: indexHeaders(index) });
}

function rows(call: Call, mesh: boolean): Promise<Response> {
  const filter = parseFilter(call.req.query("filter") ?? "");
  const read = () => instances(call, mesh);
  return replyWhenNewer(call, read, (value) => value.map(rowJson).filter(filter));
}

/** An instance as a row of the catalog: fields of the node, and those of the service with a prefix. */
function rowJson({ node, service }: Entry): JsonObject {
  const { Meta: nodeMeta = null, ...nodeFields } = nodeJson(node.record);
  const { ID, Service, CreateIndex = 0, ModifyIndex = 0, PeerName: _, ...fields } =
    catalogServiceJson(service);
  return {
    ...nodeFields,
    NodeMeta: nodeMeta,
    ServiceID: ID ?? "",
    ServiceName: Service ?? "",
    ServiceKind: "",
    ...Object.fromEntries(Object.entries(fields).map(([key, value]) => [`Service${key}`, value])),
    CreateIndex,
    ModifyIndex,
  };
}

function execute(call: Call): Response {
  const { queries, catalog, datacenter } = call.env;
  const limit = Number(call.req.query("limit") ?? "0");
  if (!Number.isInteger(limit)) throw new HttpRefusal(400, "Invalid limit");
  const body = executeQuery(queries.get(param(call, "name")), catalog, {
    connect: has(call, "connect") && call.req.query("connect") !== "false",
    limit,
    datacenter,
  });
  return Response.json(body, { headers: indexHeaders(1) });
}
