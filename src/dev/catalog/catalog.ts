/** The catalog: nodes, services, checks. A write wakes the readers of its topics. @module */

import { type JsonObject, stableJson } from "../json.ts";
import {
  CATALOG,
  checksTopic,
  instanceTopic,
  nodeTopic,
  serviceTopic,
  type Store,
} from "../store.ts";
import {
  catalogServiceJson,
  type CheckContent,
  checkJson,
  type CheckRecord,
  meshServiceOf,
  type NodeFacts,
  nodeJson,
  type NodeRecord,
  type ServiceContent,
  type ServiceRecord,
} from "./records.ts";

/** An instance of a service, with its node and the checks that count for it. */
export interface Entry {
  readonly node: CatalogNode;
  readonly service: ServiceRecord;
  readonly checks: readonly CheckRecord[];
}

export class CatalogNode {
  readonly #store: Store;
  readonly #services: Map<string, ServiceRecord>;
  readonly #checks: Map<string, CheckRecord>;
  #record: NodeRecord;

  /** `from`: the node is a copy of this one as it is now. */
  constructor(store: Store, facts: NodeFacts, from?: CatalogNode) {
    this.#store = store;
    this.#services = new Map(from && from.#services);
    this.#checks = new Map(from && from.#checks);
    this.#record = from ? from.#record : { ...facts, ...this.#written(facts.name, []) };
  }

  get record(): NodeRecord {
    return this.#record;
  }

  /** Replaces the facts; equal ones change nothing. */
  update(facts: NodeFacts): void {
    if (sameContent(this.#record, facts)) return;
    const topics = this.services().flatMap((service) => this.#topicsOf(service));
    this.#record = { ...facts, ...this.#written(facts.name, topics, this.#record) };
  }

  service(id: string): ServiceRecord | undefined {
    return this.#services.get(id);
  }

  services(): readonly ServiceRecord[] {
    return [...this.#services.values()].sort((a, b) => a.id < b.id ? -1 : 1);
  }

  /** Adds or replaces a service; an equal one changes nothing. */
  putService(content: ServiceContent): void {
    const old = this.#services.get(content.id);
    if (old && sameContent(old, content)) return;
    const topics = [...old ? this.#topicsOf(old) : [], ...this.#topicsOf(content)];
    const indexes = this.#written(this.#record.name, topics, old);
    this.#services.set(content.id, { ...content, ...indexes });
  }

  removeService(id: string): void {
    const old = this.#services.get(id);
    if (!old) return;
    this.#services.delete(id);
    for (const check of this.checksOf(id)) this.#checks.delete(check.id);
    this.#written(this.#record.name, this.#topicsOf(old));
  }

  check(id: string): CheckRecord | undefined {
    return this.#checks.get(id);
  }

  /** Checks of a service; `""`: those of the node. */
  checksOf(serviceId: string): readonly CheckRecord[] {
    return this.checks().filter((check) => check.serviceId === serviceId);
  }

  checks(): readonly CheckRecord[] {
    return [...this.#checks.values()];
  }

  /** Adds or replaces a check. Readers wake unless only its output differs. */
  putCheck(content: CheckContent): void {
    const old = this.#checks.get(content.id);
    if (old && old.status === content.status && old.serviceId === content.serviceId) {
      this.#checks.set(content.id, { ...old, ...content });
      return;
    }
    this.#checks.set(content.id, { ...content, ...this.#checkWritten(content, old) });
  }

  removeCheck(id: string): void {
    const old = this.#checks.get(id);
    if (this.#checks.delete(id) && old) this.#checkWritten(old);
  }

  /** Instances that `filter` takes, with the checks of the node and their own. */
  entries(filter: (service: ServiceRecord) => boolean): readonly Entry[] {
    const { hasAgent } = this.#record;
    const shared = [...hasAgent ? [this.#serfHealth()] : [], ...this.checksOf("")];
    return this.services().filter(filter).map((service) => ({
      node: this,
      service,
      checks: [...shared, ...this.checksOf(service.id)],
    }));
  }

  #serfHealth(): CheckRecord {
    const { createIndex, modifyIndex } = this.#record;
    return {
      id: "serfHealth",
      status: "passing",
      output: "Agent alive and reachable",
      serviceId: "",
      facts: { Name: "Serf Health Status" },
      createIndex,
      modifyIndex,
    };
  }

  #topicsOf(service: ServiceContent): readonly string[] {
    return [...readersOf(service), instanceTopic(this.#record.name, service.id)];
  }

  /** Indexes for something that is written now; `old`: what it replaces. */
  #written(name: string, topics: readonly string[], old?: Pick<NodeRecord, "createIndex">) {
    const index = this.#store.commit([CATALOG, nodeTopic(name), checksTopic(name), ...topics]);
    return { createIndex: old?.createIndex ?? index, modifyIndex: index };
  }

  /** Indexes for a check that is written now, which wakes readers of health alone. */
  #checkWritten({ serviceId }: CheckContent, old?: Pick<NodeRecord, "createIndex">) {
    const services = this.services().filter(({ id }) => serviceId === "" || id === serviceId);
    const topics = [checksTopic(this.#record.name), ...services.flatMap(readersOf)];
    const index = this.#store.commit(topics);
    return { createIndex: old?.createIndex ?? index, modifyIndex: index };
  }
}

export class Catalog {
  /** By name in lower case. */
  readonly nodes = new Map<string, CatalogNode>();

  add(node: CatalogNode): CatalogNode {
    this.nodes.set(node.record.name.toLowerCase(), node);
    return node;
  }

  entries(filter: (service: ServiceRecord) => boolean): readonly Entry[] {
    const nodes = [...this.nodes.values()].sort((a, b) => a.record.name < b.record.name ? -1 : 1);
    return nodes.flatMap((node) => node.entries(filter));
  }
}

export function entryJson({ node, service, checks }: Entry): JsonObject {
  return {
    Node: nodeJson(node.record),
    Service: catalogServiceJson(service),
    Checks: checks.map((check) => checkJson(node.record, check)),
  };
}

function readersOf(service: ServiceContent): readonly string[] {
  const mesh = meshServiceOf(service);
  const topics = [serviceTopic(service.name, false)];
  return mesh === undefined ? topics : [...topics, serviceTopic(mesh, true)];
}

function sameContent(old: object, content: object): boolean {
  return stableJson({ ...old, ...content }) === stableJson(old);
}
