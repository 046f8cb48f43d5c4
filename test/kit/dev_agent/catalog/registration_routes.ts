/** Registrations in the catalog itself, and the services and checks of a node. @module */

import { CatalogNode } from "../../../../src/dev/catalog/catalog.ts";
import { CATALOG, checksTopic, nodeTopic } from "../../../../src/dev/store.ts";
import {
  catalogServiceJson,
  checkJson,
  type NodeFacts,
  nodeJson,
  type ServiceRecord,
} from "../../../../src/dev/catalog/records.ts";
import { serviceFacts } from "../../../../src/dev/catalog/registration.ts";
import { mergeProxy } from "../../../../src/dev/entries/central_config.ts";
import {
  type Api,
  blockingRead,
  type Call,
  has,
  indexHeaders,
  param,
} from "../../../../src/dev/http/api.ts";
import { parseFilter } from "../../../../src/dev/filter.ts";
import {
  isObject,
  type JsonObject,
  objectsAt,
  stableJson,
  textAt,
} from "../../../../src/dev/json.ts";
import { HttpRefusal } from "../../../../src/dev/refusal.ts";
import { mergeTopics } from "../../../../src/dev/routes/agent.ts";
import type { World } from "../../../../src/dev/world.ts";
import type { Authorizer } from "../acl/acl.ts";
import { type AclOf, rightsOf } from "../acl/acl_of.ts";
import { type CatalogRegistration, readCatalogRegistration } from "./catalog_registration.ts";

export function addRegistrationRoutes(
  api: Api,
  { aclOf, onNodeRemoved }: {
    readonly aclOf: AclOf;
    readonly onNodeRemoved: (name: string) => void;
  },
): void {
  api.put("/v1/catalog/register", async (call) => {
    const body = await ownBodyOf(call);
    register(call.env, readCatalogRegistration(body, call.env.datacenter), {
      rights: rightsOf(call, aclOf(call.env)),
    });
    return Response.json(true);
  });
  api.put("/v1/catalog/deregister", async (call) => {
    const removed = deregister(call.env, await ownBodyOf(call), rightsOf(call, aclOf(call.env)));
    if (removed !== undefined) onNodeRemoved(removed);
    return Response.json(true);
  });
  api.get("/v1/catalog/node-services/:name", (call) => nodeServices(call, aclOf));
  api.get("/v1/health/node/:name", (call) => nodeHealth(call, aclOf));
}

function nodeOf({ catalog }: Pick<World, "catalog">, name: string): CatalogNode | undefined {
  return catalog.nodes.get(name.toLowerCase());
}

function register(
  world: World,
  registration: CatalogRegistration,
  { rights }: { readonly rights: Authorizer },
): void {
  const { catalog, store } = world;
  const { node: facts, skipNodeUpdate, service, checks } = registration;
  const known = nodeOf(world, facts.name);
  vet(known, registration, rights);
  const node = known ?? catalog.add(new CatalogNode(store, facts));
  if (known && !skipNodeUpdate) known.update({ ...facts, hasAgent: known.record.hasAgent });
  if (service) node.putService(service);
  for (const check of checks) {
    const of = check.serviceId === "" ? undefined : node.service(check.serviceId);
    const content = { ...check, facts: { ...check.facts, ...of ? serviceFacts(of) : {} } };
    const old = node.check(check.id);
    if (old && stableJson({ ...old, ...content }) === stableJson(old)) continue;
    // Done also where only the output differs, unlike on an agent.
    node.removeCheck(check.id);
    node.putCheck(content);
  }
}

/** Checks the sender's rights, and that every check has a service. */
function vet(
  known: CatalogNode | undefined,
  { node, skipNodeUpdate, service, checks }: CatalogRegistration,
  rights: Authorizer,
): void {
  if (service) {
    rights.require("service", "write", service.name);
    const before = known?.service(service.id);
    if (before) rights.require("service", "write", before.name);
  }
  if (!known || (!skipNodeUpdate && differs(known.record, node))) {
    rights.require("node", "write", node.name);
  }
  for (const { id, serviceId } of checks) {
    if (serviceId === "") {
      rights.require("node", "write", node.name);
      continue;
    }
    const of = serviceId === service?.id ? service : known?.service(serviceId);
    if (!of) throw new HttpRefusal(500, `Unknown service ID '${serviceId}' for check ID '${id}'`);
    rights.require("service", "write", of.name);
  }
}

function differs(known: NodeFacts, node: NodeFacts): boolean {
  const content = ({ id, address, taggedAddresses, meta }: NodeFacts) =>
    stableJson([id, address, taggedAddresses, meta]);
  return content(known) !== content(node);
}

/** Removes a service, a check or a whole node; the name of a node that was removed. */
function deregister(world: World, body: JsonObject, rights: Authorizer): string | undefined {
  const name = textAt(body, "Node");
  if (name === "") throw new HttpRefusal(500, "Must provide node");
  const node = nodeOf(world, name);
  const [serviceId, checkId] = [textAt(body, "ServiceID"), textAt(body, "CheckID")];
  const service = node?.service(serviceId);
  const check = node?.check(checkId);
  if (!rights.allows("node", "write", name)) {
    // The right on the node is enough for everything on it, that on a service for the service's own.
    if (serviceId !== "" && !service) {
      throw new HttpRefusal(500, `Unknown service ID '${serviceId}'`);
    }
    if (checkId !== "" && !check) throw new HttpRefusal(500, `Unknown check ID '${checkId}'`);
    const of = service?.name ?? textAt(check?.facts ?? {}, "ServiceName");
    if (of === "") rights.require("node", "write", name);
    else rights.require("service", "write", of);
  }
  if (!node) return undefined;
  if (service) node.removeService(serviceId);
  else if (check) node.removeCheck(checkId);
  else if (serviceId === "" && checkId === "") {
    for (const { id } of node.services()) node.removeService(id);
    world.catalog.nodes.delete(name.toLowerCase());
    world.store.commit([CATALOG, nodeTopic(name), checksTopic(name)]);
    return node.record.name;
  }
  return undefined;
}

async function nodeServices(call: Call, aclOf: AclOf): Promise<Response> {
  const name = param(call, "name");
  const rights = rightsOf(call, aclOf(call.env));
  const filter = parseFilter(call.req.query("filter") ?? "");
  const { store } = call.env;
  const mayRead = rights.allows("node", "read", name);
  const { value, index } = await blockingRead(call, () => {
    const node = nodeOf(call.env, name);
    const services = node?.services() ?? [];
    const topics = [nodeTopic(name), ...services.flatMap((service) => topicsOf(call, service))];
    return {
      index: Math.max(1, ...topics.map((topic) => store.indexOf(topic) ?? 1)),
      topics,
      value: mayRead ? { node, services } : { node: undefined, services: [] },
    };
  });
  const { node, services } = value;
  const seen = services.filter((service) => rights.allows("service", "read", service.name));
  const shown = seen.map((service) => catalogServiceJson(service, shownProxy(call, service)))
    .filter(filter);
  const isFiltered = !mayRead || seen.length < services.length;
  const none = node || has(call, "filter") ? [] : null;
  const body = {
    Node: node ? nodeJson(node.record) : null,
    Services: shown.length > 0 ? shown : none,
  };
  return Response.json(body, { headers: headersOf(index, rights.hasToken && isFiltered) });
}

/**
 * Topics of the entries that are merged into a service's proxy, where the request has
 * `merge-central-config`.
 */
function topicsOf(call: Call, { proxy }: ServiceRecord): readonly string[] {
  return proxy && has(call, "merge-central-config") ? mergeTopics(proxy) : [];
}

/** The proxy block as a server shows it, which also has the extensions of Envoy. */
function shownProxy(call: Call, { proxy }: ServiceRecord): JsonObject | undefined {
  if (!proxy || !has(call, "merge-central-config")) return proxy;
  const { config } = call.env;
  const entries = [
    config.find("proxy-defaults", "global"),
    config.find("service-defaults", textAt(proxy, "DestinationServiceName")),
  ];
  return {
    ...mergeProxy(proxy, (kind, name) => config.find(kind, name)),
    EnvoyExtensions: entries.flatMap((entry) => objectsAt(entry ?? {}, "EnvoyExtensions")),
  };
}

async function nodeHealth(call: Call, aclOf: AclOf): Promise<Response> {
  const name = param(call, "name");
  const rights = rightsOf(call, aclOf(call.env));
  const { store } = call.env;
  const { value, index } = await blockingRead(call, () => ({
    index: store.indexOf(checksTopic(name)) ?? store.indexOf(CATALOG) ?? 1,
    topics: [checksTopic(name)],
    value: nodeOf(call.env, name),
  }));
  const checks = value?.checks() ?? [];
  const seen = checks.filter(({ facts }) => {
    const service = textAt(facts, "ServiceName");
    return rights.allows("node", "read", name) &&
      (service === "" || rights.allows("service", "read", service));
  });
  const body = value ? seen.map((check) => checkJson(value.record, check)) : [];
  const isFiltered = seen.length < checks.length;
  return Response.json(body, { headers: headersOf(index, rights.hasToken && isFiltered) });
}

function headersOf(index: number, isFiltered: boolean): Record<string, string> {
  const headers = indexHeaders(index);
  return isFiltered ? { ...headers, "X-Consul-Results-Filtered-By-Acls": "true" } : headers;
}

/** The body, which may name the datacenter, too. */
async function ownBodyOf(call: Call): Promise<JsonObject> {
  const body: unknown = await call.req.json();
  if (!isObject(body)) throw new HttpRefusal(400, "Request decode failed");
  const datacenter = textAt(body, "Datacenter");
  if (datacenter !== "" && datacenter !== call.env.datacenter) {
    throw new HttpRefusal(500, "No path to datacenter");
  }
  return body;
}
