/**
 * The catalog: which instances exist on which nodes, in which datacenter, and how their checks stand.
 * Writes take an index from the store and wake whoever watches the service.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import type { JsonObject } from "../http/decode.ts";
import {
  catalogService,
  checkJson,
  type CheckRecord,
  meshServiceOf,
  nodeJson,
  type NodeRecord,
  type ServiceRecord,
} from "./records.ts";
import type { Store } from "./store.ts";
import { nodeChecksTopic, nodeKey, nodeTopic, topicsOf } from "./topics.ts";

export type NewNode = Omit<NodeRecord, "createIndex" | "modifyIndex">;
export type NewService = Omit<ServiceRecord, "node" | "createIndex" | "modifyIndex">;
export type NewCheck = Omit<CheckRecord, "createIndex" | "modifyIndex">;

/** One instance with its checks, as health endpoints list them. */
export interface Entry {
  readonly service: ServiceRecord;
  readonly checks: readonly CheckRecord[];
}

export class Catalog {
  readonly #store: Store;
  /** Keyed by datacenter, node and service id. */
  readonly #services = new Map<string, ServiceRecord>();
  readonly #nodes = new Map<string, NodeRecord>();
  readonly #checks = new Map<string, CheckRecord>();
  readonly #virtualIps = new Map<string, string>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** As it is now, over a copy of the store. */
  copy(store: Store): Catalog {
    const copy = new Catalog(store);
    for (const [key, node] of this.#nodes) copy.#nodes.set(key, node);
    for (const [key, service] of this.#services) copy.#services.set(key, service);
    for (const [key, check] of this.#checks) copy.#checks.set(key, check);
    for (const [key, ip] of this.#virtualIps) copy.#virtualIps.set(key, ip);
    return copy;
  }

  /** A new node that an agent runs on, with its `serfHealth` check. */
  addNode(datacenter: string, name: string, address: string): NodeRecord {
    return this.putNode({
      id: randomUUID(),
      name,
      address,
      datacenter,
      taggedAddresses: { lan: address, lan_ipv4: address, wan: address, wan_ipv4: address },
      meta: { "consul-network-segment": "", "consul-version": "1.22.7" },
      hasAgent: true,
    });
  }

  /** Adds or replaces a node, whose services stay. An identical one changes nothing. */
  putNode(node: NewNode): NodeRecord {
    const key = nodeKey(node.datacenter, node.name);
    const old = this.#nodes.get(key);
    if (old && sameContent(old, node)) return old;
    const services = old ? this.servicesOn(old) : [];
    const index = this.#store.commit("catalog", [
      `catalog:${node.datacenter}`,
      nodeTopic(node.datacenter, node.name),
      ...services.flatMap(topicsOf),
    ]);
    const record = { ...node, createIndex: old?.createIndex ?? index, modifyIndex: index };
    this.#nodes.set(key, record);
    for (const service of services) {
      this.#services.set(serviceKey(service.node, service.id), { ...service, node: record });
    }
    return record;
  }

  /** Names are compared without letter case. */
  node(datacenter: string, name: string): NodeRecord | undefined {
    return this.#nodes.get(nodeKey(datacenter, name));
  }

  nodeById(datacenter: string, id: string): NodeRecord | undefined {
    return [...this.#nodes.values()].find((node) =>
      node.datacenter === datacenter && node.id.toLowerCase() === id.toLowerCase()
    );
  }

  /** With everything on it. */
  removeNode(node: NodeRecord): void {
    for (const { id } of this.servicesOn(node)) this.remove(node, id);
    for (const check of this.checksOf(node)) this.removeCheck(node, check.id);
    this.#nodes.delete(nodeKey(node.datacenter, node.name));
    const topics = [`catalog:${node.datacenter}`, nodeTopic(node.datacenter, node.name)];
    this.#store.commit("catalog", topics);
  }

  /** Adds or replaces an instance. An identical one changes nothing. */
  put(node: NodeRecord, service: NewService): void {
    const key = serviceKey(node, service.id);
    const old = this.#services.get(key);
    if (old && sameContent(old, service)) return;
    const topics = [...(old ? topicsOf(old) : []), ...topicsOf({ ...service, node })];
    // The record is in place before anybody wakes: waking takes a microtask, the index none.
    const index = this.#store.commit("catalog", topics);
    const record = { ...service, node, createIndex: old?.createIndex ?? index, modifyIndex: index };
    this.#services.set(key, record);
    const mesh = meshServiceOf(record);
    if (mesh !== undefined) this.giveVirtualIp(node.datacenter, mesh);
  }

  remove(node: NodeRecord, serviceId: string): boolean {
    const key = serviceKey(node, serviceId);
    const old = this.#services.get(key);
    if (!old) return false;
    this.#services.delete(key);
    for (const [checkKey, check] of this.#checks) {
      if (check.serviceId === serviceId && checkKey.startsWith(nodePrefix(node))) {
        this.#checks.delete(checkKey);
      }
    }
    this.#store.commit("catalog", topicsOf(old));
    return true;
  }

  get(node: NodeRecord, serviceId: string): ServiceRecord | undefined {
    return this.#services.get(serviceKey(node, serviceId));
  }

  /** Adds or replaces a check; wakes watchers unless only its output differs. */
  putCheck(node: NodeRecord, check: NewCheck): void {
    const key = nodePrefix(node) + check.id;
    const old = this.#checks.get(key);
    if (old && old.status === check.status && old.serviceId === check.serviceId) {
      this.#checks.set(key, { ...old, ...check });
      return;
    }
    this.#writeCheck(node, check);
  }

  /** Adds or replaces a check; an identical one changes nothing. */
  registerCheck(node: NodeRecord, check: NewCheck): void {
    const old = this.check(node, check.id);
    if (!old || !sameContent(old, check)) this.#writeCheck(node, check);
  }

  removeCheck(node: NodeRecord, checkId: string): boolean {
    const old = this.#checks.get(nodePrefix(node) + checkId);
    if (!old) return false;
    this.#checks.delete(nodePrefix(node) + checkId);
    this.#store.commit("catalog", this.#checkTopics(node, old.serviceId));
    return true;
  }

  check(node: NodeRecord, checkId: string): CheckRecord | undefined {
    return this.#checks.get(nodePrefix(node) + checkId);
  }

  checksOf(node: NodeRecord, serviceId?: string): readonly CheckRecord[] {
    const result: CheckRecord[] = [];
    for (const [key, check] of this.#checks) {
      if (!key.startsWith(nodePrefix(node))) continue;
      if (serviceId === undefined || check.serviceId === serviceId) result.push(check);
    }
    return result;
  }

  servicesOn(node: NodeRecord): readonly ServiceRecord[] {
    const key = nodeKey(node.datacenter, node.name);
    return this.services((service) => nodeKey(service.node.datacenter, service.node.name) === key);
  }

  /** With that of its agent. */
  allChecksOf(node: NodeRecord): readonly CheckRecord[] {
    return [...node.hasAgent ? [serfHealth(node)] : [], ...this.checksOf(node)];
  }

  services(filter: (service: ServiceRecord) => boolean): readonly ServiceRecord[] {
    return [...this.#services.values()].filter(filter)
      .sort((a, b) => a.node.name.localeCompare(b.node.name) || a.id.localeCompare(b.id));
  }

  /** Instances with the checks that count for them: the node's and their own. */
  entries(filter: (service: ServiceRecord) => boolean): readonly Entry[] {
    return this.services(filter).map((service) => ({
      service,
      checks: [
        ...service.node.hasAgent ? [serfHealth(service.node)] : [],
        ...this.checksOf(service.node, ""),
        ...this.checksOf(service.node, service.id),
      ],
    }));
  }

  /** `proxy`: the block to show in place of the entry's own. */
  entryJson(entry: Entry, proxy?: JsonObject): JsonObject {
    const { service } = entry;
    return {
      Node: nodeJson(service.node),
      Service: catalogService(service, this.taggedAddresses(service), proxy),
      Checks: entry.checks.map((check) => checkJson(service.node, check)),
    };
  }

  /** Registered addresses and the virtual one that the catalog gives mesh services. */
  taggedAddresses(service: ServiceRecord): JsonObject {
    const name = meshServiceOf(service);
    const ip = name === undefined ? undefined : this.virtualIpOf(service.node.datacenter, name);
    return {
      ...(ip ? { "consul-virtual": { Address: ip, Port: service.port } } : {}),
      ...service.taggedAddresses,
    };
  }

  virtualIpOf(datacenter: string, service: string): string | undefined {
    return this.#virtualIps.get(`${datacenter}/${service}`);
  }

  /** Gives a mesh service its virtual address, once. */
  giveVirtualIp(datacenter: string, service: string): void {
    const key = `${datacenter}/${service}`;
    if (this.#virtualIps.has(key)) return;
    const number = this.#virtualIps.size + 1;
    this.#virtualIps.set(key, `240.0.${number >> 8}.${number & 255}`);
  }

  #writeCheck(node: NodeRecord, check: NewCheck): void {
    const old = this.check(node, check.id);
    const index = this.#store.commit("catalog", this.#checkTopics(node, check.serviceId));
    this.#checks.set(nodePrefix(node) + check.id, {
      ...check,
      createIndex: old?.createIndex ?? index,
      modifyIndex: index,
    });
  }

  #checkTopics(node: NodeRecord, serviceId: string): readonly string[] {
    const of = this.servicesOn(node)
      .filter((service) => serviceId === "" || service.id === serviceId);
    return [
      nodeChecksTopic(node.datacenter, node.name),
      ...of.flatMap((service) =>
        topicsOf(service).filter((topic) => !/^(catalog|node):/.test(topic))
      ),
    ];
  }
}

function nodePrefix(node: NodeRecord): string {
  return `${nodeKey(node.datacenter, node.name)}/`;
}

function serviceKey(node: NodeRecord, id: string): string {
  return nodePrefix(node) + id;
}

function sameContent<T extends object>(old: T & Stamped, content: T): boolean {
  const { node: _, createIndex: _c, modifyIndex: _m, ...rest } = old;
  return stable(rest) === stable(content);
}

interface Stamped {
  readonly node?: NodeRecord;
  readonly createIndex: number;
  readonly modifyIndex: number;
}

/** JSON with sorted keys, so that equal content gives equal text. */
export function stable(value: unknown): string {
  return JSON.stringify(
    value,
    (_key, item) =>
      typeof item === "object" && item !== null && !Array.isArray(item)
        ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => a < b ? -1 : 1))
        : item,
  );
}

function serfHealth(node: NodeRecord): CheckRecord {
  return {
    id: "serfHealth",
    name: "Serf Health Status",
    status: "passing",
    notes: "",
    output: "Agent alive and reachable",
    serviceId: "",
    serviceName: "",
    serviceTags: [],
    type: "",
    interval: "",
    timeout: "",
    definition: {},
    createIndex: node.createIndex,
    modifyIndex: node.modifyIndex,
  };
}
