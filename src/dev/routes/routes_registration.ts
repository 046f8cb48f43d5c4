/**
 * Registrations in the catalog itself, and what a node has: how those live who have no agent.
 *
 * @module
 */

import { stable } from "../catalog/catalog.ts";
import {
  CATALOG_REGISTRATION,
  type CatalogRegistration,
  readCatalogRegistration,
} from "../catalog/catalog_registration.ts";
import { catalogService, checkJson, nodeJson, type ServiceRecord } from "../catalog/records.ts";
import { nodeChecksTopic, nodeTopic } from "../catalog/topics.ts";
import { matchesBexpr } from "../http/bexpr.ts";
import {
  blockCall,
  type Call,
  json,
  metaHeaders,
  readBody,
  requireDatacenter,
  type Route,
} from "../http/call.ts";
import { object } from "../http/decode.ts";
import { textAt } from "../http/fields.ts";
import { readFilter, SERVICE_FIELDS } from "../http/filters.ts";
import { Refusal } from "../http/refusal.ts";
import { mergeIndex, mergeTopics, shownProxy } from "./merged.ts";

export const REGISTRATION_ROUTES: readonly Route[] = [
  { method: "PUT", path: /^\/v1\/catalog\/register$/, handle: register },
  { method: "PUT", path: /^\/v1\/catalog\/deregister$/, handle: deregister },
  { method: "GET", path: /^\/v1\/catalog\/node-services\/(.*)$/, handle: nodeServices },
  { method: "GET", path: /^\/v1\/health\/node\/(.*)$/, handle: nodeHealth },
];

function register(call: Call) {
  const body = readBody(call, CATALOG_REGISTRATION);
  requireOwnDatacenter(call, textAt(body, "Datacenter"));
  const registration = readCatalogRegistration(body, call.datacenter);
  const { catalog } = call.state;
  const known = catalog.node(call.datacenter, registration.node.name);
  vet(call, registration);
  const node = known && registration.skipNodeUpdate
    ? known
    : catalog.putNode({ ...registration.node, hasAgent: known?.hasAgent ?? false });
  if (registration.service) catalog.put(node, registration.service);
  for (const check of registration.checks) {
    const service = check.serviceId === "" ? undefined : catalog.get(node, check.serviceId);
    catalog.registerCheck(node, {
      ...check,
      serviceName: service?.name ?? "",
      serviceTags: service?.tags ?? [],
    });
  }
  return json(true);
}

/** Whether the sender may; and whether every check has the service that it is about. */
function vet(call: Call, { node, skipNodeUpdate, service, checks }: CatalogRegistration): void {
  const { catalog } = call.state;
  const authorizer = call.authorizer();
  const known = catalog.node(call.datacenter, node.name);
  if (service) {
    authorizer.require("service", "write", service.name);
    const before = known && catalog.get(known, service.id);
    if (before) authorizer.require("service", "write", before.name);
  }
  if (!known || (!skipNodeUpdate && changes(known, node))) {
    authorizer.require("node", "write", node.name);
  }
  for (const check of checks) {
    if (check.serviceId === "") {
      authorizer.require("node", "write", node.name);
      continue;
    }
    const of = check.serviceId === service?.id ? service : known && catalog.get(
      known,
      check.serviceId,
    );
    if (!of) {
      const text = `Unknown service ID '${check.serviceId}' for check ID '${check.id}'`;
      throw new Refusal(500, text);
    }
    authorizer.require("service", "write", of.name);
  }
}

function changes(known: CatalogRegistration["node"], node: CatalogRegistration["node"]): boolean {
  const told = ({ id, address, taggedAddresses, meta }: CatalogRegistration["node"]) =>
    stable([id, address, taggedAddresses, meta]);
  return told(known) !== told(node);
}

const DEREGISTRATION = object({
  Node: "string",
  ServiceID: "string",
  CheckID: "string",
  Datacenter: "string",
  Address: "string",
  Namespace: "string",
  Partition: "string",
  PeerName: "string",
});

function deregister(call: Call) {
  const body = readBody(call, DEREGISTRATION);
  const name = textAt(body, "Node");
  if (name === "") throw new Refusal(500, "Must provide node");
  requireOwnDatacenter(call, textAt(body, "Datacenter"));
  const authorizer = call.authorizer();
  const { catalog } = call.state;
  const node = catalog.node(call.datacenter, name);
  const serviceId = textAt(body, "ServiceID");
  const checkId = textAt(body, "CheckID");
  const service = node && serviceId !== "" ? catalog.get(node, serviceId) : undefined;
  const check = node && checkId !== "" ? catalog.check(node, checkId) : undefined;
  if (!authorizer.allows("node", "write", name)) {
    // The node's right is enough for everything on it; that of a service for what is the service's.
    if (serviceId !== "" && !service) throw new Refusal(500, `Unknown service ID '${serviceId}'`);
    if (checkId !== "" && !check) throw new Refusal(500, `Unknown check ID '${checkId}'`);
    const of = service?.name ?? check?.serviceName ?? "";
    if (of === "") authorizer.require("node", "write", name);
    else authorizer.require("service", "write", of);
  }
  if (!node) return json(true);
  if (service) catalog.remove(node, service.id);
  else if (check) catalog.removeCheck(node, check.id);
  else if (serviceId === "" && checkId === "") {
    call.state.sessions.destroyOn(node);
    catalog.removeNode(node);
  }
  return json(true);
}

async function nodeServices(call: Call) {
  const [name = ""] = call.params;
  if (name === "") throw new Refusal(400, "Missing node name");
  requireDatacenter(call);
  const authorizer = call.authorizer();
  const filter = readFilter(call.query, SERVICE_FIELDS);
  const { catalog, store } = call.state;
  const mayRead = authorizer.allows("node", "read", name);
  const { value, index } = await blockCall(call, () => {
    const node = catalog.node(call.datacenter, name);
    const services = node ? catalog.servicesOn(node) : [];
    return {
      index: Math.max(
        store.topicIndex(nodeTopic(call.datacenter, name)) ?? 1,
        mergeIndex(call, services),
      ),
      topics: [nodeTopic(call.datacenter, name), ...mergeTopics(call, services)],
      value: mayRead ? { node, services } : { node: undefined, services: [] },
    };
  });
  const seen = value.services.filter((service) =>
    authorizer.allows("service", "read", service.name)
  );
  const shown = seen.map((service) => serviceJson(call, service))
    .filter((item) => !filter || matchesBexpr(filter, item));
  const filtered = authorizer.hasToken && (!mayRead || seen.length < value.services.length);
  const none = value.node || filter ? [] : null;
  return json({
    Node: value.node ? nodeJson(value.node) : null,
    Services: shown.length > 0 ? shown : none,
  }, metaHeaders(call, index, { filtered }));
}

async function nodeHealth(call: Call) {
  const [name = ""] = call.params;
  if (name === "") throw new Refusal(400, "Missing node name");
  requireDatacenter(call);
  const authorizer = call.authorizer();
  const { catalog, store } = call.state;
  const { value, index } = await blockCall(call, () => {
    const node = catalog.node(call.datacenter, name);
    const topic = nodeChecksTopic(call.datacenter, name);
    return {
      index: store.topicIndex(topic) ?? store.tableIndex("catalog"),
      topics: [topic],
      value: node ? catalog.allChecksOf(node).map((check) => ({ node, check })) : [],
    };
  });
  const seen = authorizer.allows("node", "read", name)
    ? value.filter(({ check }) =>
      check.serviceName === "" || authorizer.allows("service", "read", check.serviceName)
    )
    : [];
  const filtered = authorizer.hasToken && seen.length < value.length;
  const body = seen.map(({ node, check }) => checkJson(node, check));
  return json(body, metaHeaders(call, index, { filtered }));
}

function serviceJson(call: Call, service: ServiceRecord) {
  const tagged = call.state.catalog.taggedAddresses(service);
  return catalogService(service, tagged, shownProxy(call, service));
}

/** A body may name the datacenter, too. */
function requireOwnDatacenter(call: Call, named: string): void {
  requireDatacenter(call);
  if (named !== "" && named !== call.world.datacenter) {
    throw new Refusal(500, "No path to datacenter");
  }
}
