/**
 * `/v1/health` and `/v1/catalog`. Consul answers long polls and cached reads of mesh health from its
 * streaming backend.
 *
 * @module
 */

import { CATALOG, type Entry, entryJson, serviceTopic } from "../catalog/catalog.ts";
import { catalogServiceJson, meshServiceOf, nodeJson, worstOf } from "../catalog/records.ts";
import {
  type Api,
  blockingRead,
  cacheHeaders,
  type Call,
  has,
  indexHeaders,
  indexOf,
  param,
  type Read,
} from "../http/api.ts";
import { parseFilter } from "../http/filter.ts";
import { type JsonObject, textsAt } from "../json.ts";

export function addCatalogRoutes(api: Api): void {
  api.get("/v1/health/connect/:name", (call) => health(call, true));
  api.get("/v1/health/service/:name", (call) => health(call, false));
  api.get("/v1/catalog/services", listServices);
  api.get("/v1/catalog/service/:name", (call) => rows(call, false));
  api.get("/v1/catalog/connect/:name", (call) => rows(call, true));
  api.get("/v1/catalog/datacenters", (call) => Response.json([call.env.datacenter]));
}

async function health(call: Call, mesh: boolean): Promise<Response> {
  const filter = parseFilter(call.req.query("filter") ?? "");
  const isCached = mesh && has(call, "cached");
  const streaming = isCached || mesh && indexOf(call) > 0;
  const { value, index } = await blockingRead(call, () => instances(call, mesh), {
    isExact: streaming,
  });
  const onlyPassing = has(call, "passing") && call.req.query("passing") !== "false";
  const tags = mesh ? [] : call.req.queries("tag") ?? [];
  const body = value
    .filter(({ checks }) => !onlyPassing || worstOf(checks) === "passing")
    .filter(({ service }) => {
      const own = textsAt(service.definition, "Tags");
      return tags.every((tag) => own.includes(tag));
    })
    .map((entry) => entryJson(entry))
    .filter(filter);
  const headers = {
    ...isCached ? cacheHeaders(true) : {},
    ...indexHeaders(call, index, { streaming }),
  };
  return Response.json(body, { headers });
}

/** Instances of a service, with its index while there are some, else that of the whole catalog. */
export function instances(call: Call, mesh: boolean): Read<readonly Entry[]> {
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
  return Response.json(body, { headers: indexHeaders(call, index) });
}

async function rows(call: Call, mesh: boolean): Promise<Response> {
  const filter = parseFilter(call.req.query("filter") ?? "");
  const { value, index } = await blockingRead(call, () => instances(call, mesh));
  return Response.json(value.map(rowJson).filter(filter), { headers: indexHeaders(call, index) });
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
