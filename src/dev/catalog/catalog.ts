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
  readonly #checks = new Map<string, CheckRecord>();
  readonly #virtualIps = new Map<string, string>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** A new node, with its `serfHealth` check. */
  addNode(datacenter: string, name: string, address: string): NodeRecord {
    const index = this.#store.commit("catalog", [`catalog:${datacenter}`]);
    return { id: randomUUID(), name, address, datacenter, index };
  }

  /** Adds or replaces an instance. An identical one changes nothing. */
  put(node: NodeRecord, service: NewService): void {
    const key = `${node.datacenter}/${node.name}/${service.id}`;
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
    const key = `${node.datacenter}/${node.name}/${serviceId}`;
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
    return this.#services.get(`${node.datacenter}/${node.name}/${serviceId}`);
  }

  /** Adds or replaces a check; wakes watchers unless only its output differs. */
  putCheck(node: NodeRecord, check: NewCheck): void {
    const key = nodePrefix(node) + check.id;
    const old = this.#checks.get(key);
    if (old && old.status === check.status && old.serviceId === check.serviceId) {
      this.#checks.set(key, { ...old, ...check });
      return;
    }
    const index = this.#store.commit("catalog", this.#checkTopics(node, check.serviceId));
    this.#checks.set(key, { ...check, createIndex: old?.createIndex ?? index, modifyIndex: index });
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

  services(filter: (service: ServiceRecord) => boolean): readonly ServiceRecord[] {
    return [...this.#services.values()].filter(filter)
      .sort((a, b) => a.node.name.localeCompare(b.node.name) || a.id.localeCompare(b.id));
  }

  /** Instances with the checks that count for them: the node's and their own. */
  entries(filter: (service: ServiceRecord) => boolean): readonly Entry[] {
    return this.services(filter).map((service) => ({
      service,
      checks: [
        serfHealth(service.node),
        ...this.checksOf(service.node, ""),
        ...this.checksOf(service.node, service.id),
      ],
    }));
  }

  entryJson(entry: Entry): JsonObject {
    const { service } = entry;
    return {
      Node: nodeJson(service.node),
      Service: catalogService(service, this.taggedAddresses(service)),
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

  #checkTopics(node: NodeRecord, serviceId: string): readonly string[] {
    const of = this.services((service) =>
      service.node === node && (serviceId === "" || service.id === serviceId)
    );
    return of.flatMap((service) =>
      topicsOf(service).filter((topic) => !topic.startsWith("catalog"))
    );
  }
}

/** Topics that a change of this instance concerns. */
function topicsOf(
  service: Pick<ServiceRecord, "node" | "name" | "kind" | "native" | "proxy" | "id">,
) {
  const { datacenter } = service.node;
  const topics = [
    `catalog:${datacenter}`,
    `service:${datacenter}:${service.name.toLowerCase()}`,
    `instance:${datacenter}:${service.node.name}:${service.id}`,
  ];
  const mesh = meshServiceOf(service as ServiceRecord);
  if (mesh !== undefined) topics.push(`mesh:${datacenter}:${mesh.toLowerCase()}`);
  return topics;
}

function nodePrefix(node: NodeRecord): string {
  return `${node.datacenter}/${node.name}/`;
}

function sameContent(old: ServiceRecord, service: NewService): boolean {
  const { node: _, createIndex: _c, modifyIndex: _m, ...content } = old;
  return stable(content) === stable(service);
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
    createIndex: node.index,
    modifyIndex: node.index,
  };
}
