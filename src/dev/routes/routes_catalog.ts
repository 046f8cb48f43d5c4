/**
 * `/v1/health` and `/v1/catalog`. Long polls and cached reads of mesh health come from Consul's
 * streaming backend, which never says 403: without permission it answers an empty list.
 *
 * @module
 */

import { matchesBexpr } from "../http/bexpr.ts";
import {
  blockCall,
  type Call,
  json,
  metaHeaders,
  requireDatacenter,
  type Route,
} from "../http/call.ts";
import type { Entry } from "../catalog/catalog.ts";
import type { JsonObject } from "../http/decode.ts";
import { ENTRY_FIELDS, readFilter, ROW_FIELDS } from "../http/filters.ts";
import {
  catalogService,
  meshServiceOf,
  nodeJson,
  type ServiceRecord,
  worst,
} from "../catalog/records.ts";
import { Refusal } from "../http/refusal.ts";
import { mergeIndex, mergeTopics, shownProxy } from "./merged.ts";

export const CATALOG_ROUTES: readonly Route[] = [
  { method: "GET", path: /^\/v1\/health\/connect\/(.*)$/, handle: (call) => health(call, true) },
  { method: "GET", path: /^\/v1\/health\/service\/(.*)$/, handle: (call) => health(call, false) },
  { method: "GET", path: /^\/v1\/catalog\/services$/, handle: services },
  { method: "GET", path: /^\/v1\/catalog\/service\/(.*)$/, handle: (call) => rows(call, false) },
  { method: "GET", path: /^\/v1\/catalog\/connect\/(.*)$/, handle: (call) => rows(call, true) },
  {
    method: "GET",
    path: /^\/v1\/catalog\/datacenters$/,
    handle: (call) => json([call.world.datacenter]),
  },
];

interface Visible {
  readonly entries: readonly Entry[];
  readonly hidden: boolean;
}

async function health(call: Call, mesh: boolean) {
  const [name = ""] = call.params;
  if (name === "") throw new Refusal(400, "Missing service name");
  const filter = readFilter(call.query, ENTRY_FIELDS);
  const streaming = mesh && !call.query.has("merge-central-config") &&
    (call.blocking.index > 0 || call.query.has("cached"));
  if (streaming && !call.tokenKnown) return json([], metaHeaders(call, 1, { streaming }));
  const authorizer = call.authorizer();
  const allowed = authorizer.allows("service", "read", name);
  if (mesh && !streaming && !allowed) throw new Refusal(403, "Permission denied");
  requireDatacenter(call);
  if ((call.query.get("peer") ?? "") !== "") return json([], metaHeaders(call, 1));
  const passing = call.query.has("passing") && call.query.get("passing") !== "false";
  const tags = mesh ? [] : call.query.getAll("tag");
  const { value, index } = await blockCall(call, () => {
    const all = call.state.catalog.entries((record) => serves(record, call, name, mesh));
    const seen = visible(call, all, allowed);
    return {
      index: Math.max(indexOf(call, name, mesh, all), mergeIndex(call, servicesOf(all))),
      topics: [topicOf(call, name, mesh), ...mergeTopics(call, servicesOf(all))],
      value: seen,
    };
  }, streaming);
  const body = value.entries
    .filter((entry) => !passing || worst(entry.checks.map((check) => check.status)) === "passing")
    .filter((entry) => tags.every((tag) => entry.service.tags.includes(tag)))
    .map((entry) => call.state.catalog.entryJson(entry, shownProxy(call, entry.service)))
    .filter((item) => !filter || matchesBexpr(filter, item));
  const filtered = !streaming && authorizer.hasToken && value.hidden;
  const cache: Record<string, string> = call.query.has("cached") && mesh
    ? { Age: "0", "X-Cache": "HIT" }
    : {};
  return json(body, { ...cache, ...metaHeaders(call, index, { streaming, filtered }) });
}

function serves(record: ServiceRecord, call: Call, name: string, mesh: boolean): boolean {
  if (record.node.datacenter !== call.datacenter) return false;
  const of = mesh ? meshServiceOf(record) : record.name;
  return of?.toLowerCase() === name.toLowerCase();
}

function visible(call: Call, all: readonly Entry[], allowed: boolean): Visible {
  const authorizer = call.authorizer();
  const entries = allowed
    ? all.filter(({ service }) =>
      authorizer.allows("node", "read", service.node.name) &&
      authorizer.allows("service", "read", service.name)
    )
    : [];
  return { entries, hidden: entries.length < all.length };
}

function servicesOf(entries: readonly Entry[]): readonly ServiceRecord[] {
  return entries.map((entry) => entry.service);
}

function topicOf(call: Call, name: string, mesh: boolean): string {
  return `${mesh ? "mesh" : "service"}:${call.datacenter}:${name.toLowerCase()}`;
}

/** That of the service while it has instances, else that of the whole catalog. */
function indexOf(call: Call, name: string, mesh: boolean, all: readonly Entry[]): number {
  const { store } = call.state;
  const own = store.topicIndex(topicOf(call, name, mesh));
  return all.length > 0 && own !== undefined ? own : store.tableIndex("catalog");
}

async function services(call: Call) {
  requireDatacenter(call);
  const authorizer = call.authorizer();
  const filter = readFilter(call.query, ROW_FIELDS);
  const { value, index } = await blockCall(call, () => ({
    index: call.state.store.tableIndex("catalog"),
    topics: [`catalog:${call.datacenter}`],
    value: call.state.catalog.services((record) => record.node.datacenter === call.datacenter),
  }));
  const seen = value.filter((record) => authorizer.allows("service", "read", record.name));
  const body = new Map<string, Set<string>>();
  for (const record of seen) {
    if (filter && !matchesBexpr(filter, row(call, record))) continue;
    const tags = body.get(record.name) ?? new Set<string>();
    for (const tag of record.tags) tags.add(tag);
    body.set(record.name, tags);
  }
  const filtered = authorizer.hasToken && seen.length < value.length;
  const named = Object.fromEntries(
    [...body].sort(([a], [b]) => a < b ? -1 : 1).map(([name, tags]) => [name, [...tags]]),
  );
  return json(named, metaHeaders(call, index, { filtered }));
}

async function rows(call: Call, mesh: boolean) {
  const [name = ""] = call.params;
  if (name === "") throw new Refusal(400, "Missing service name");
  requireDatacenter(call);
  const authorizer = call.authorizer();
  const filter = readFilter(call.query, ROW_FIELDS);
  const allowed = authorizer.allows("service", "read", name);
  const { value, index } = await blockCall(call, () => {
    const all = call.state.catalog.entries((record) => serves(record, call, name, mesh));
    return {
      index: Math.max(indexOf(call, name, mesh, all), mergeIndex(call, servicesOf(all))),
      topics: [topicOf(call, name, mesh), ...mergeTopics(call, servicesOf(all))],
      value: visible(call, all, allowed),
    };
  });
  const body = value.entries.map((entry) => row(call, entry.service))
    .filter((item) => !filter || matchesBexpr(filter, item));
  return json(body, metaHeaders(call, index, { filtered: authorizer.hasToken && value.hidden }));
}

function row(call: Call, record: ServiceRecord): JsonObject {
  const { Meta: nodeMeta, CreateIndex: _c, ModifyIndex: _m, ...node } = nodeJson(record.node);
  const tagged = call.state.catalog.taggedAddresses(record);
  const service = catalogService(record, tagged, shownProxy(call, record));
  return {
    ...node,
    NodeMeta: nodeMeta ?? null,
    ServiceKind: record.kind,
    ServiceID: record.id,
    ServiceName: record.name,
    ServiceTags: record.tags,
    ServiceAddress: record.address,
    ...Object.keys(tagged).length > 0 ? { ServiceTaggedAddresses: tagged } : {},
    ServiceWeights: record.weights,
    ServiceMeta: record.meta,
    ServicePort: record.port,
    ServicePorts: null,
    ServiceSocketPath: record.socketPath,
    ServiceEnableTagOverride: record.enableTagOverride,
    ServiceProxy: service["Proxy"] ?? {},
    ServiceConnect: service["Connect"] ?? {},
    ServiceLocality: record.locality ?? null,
    CreateIndex: record.createIndex,
    ModifyIndex: record.modifyIndex,
  };
}
