/**
 * Prepared queries: kept definitions, and their execution.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import type { Catalog, Entry } from "../catalog/catalog.ts";
import { isObject, type Json, type JsonObject, list, map, object } from "../http/decode.ts";
import { meshServiceOf, worst } from "../catalog/records.ts";
import { Refusal } from "../http/refusal.ts";
import { numberAt, objectAt, textAt, textsAt } from "../http/fields.ts";
import type { Store } from "../catalog/store.ts";

export const QUERY_SHAPE = object({
  ID: "string",
  Name: "string",
  Session: "string",
  Token: "string",
  Template: object({ Type: "string", Regexp: "string", RemoveEmptyTags: "bool" }),
  Service: object({
    Service: "string",
    SamenessGroup: "string",
    Peer: "string",
    Failover: object({
      NearestN: "number",
      Datacenters: list("string"),
      Targets: list(object({ Peer: "string", Datacenter: "string" })),
    }),
    OnlyPassing: "bool",
    IgnoreCheckIDs: list("string"),
    Near: "string",
    Tags: list("string"),
    NodeMeta: map("string"),
    ServiceMeta: map("string"),
    Connect: "bool",
  }),
  DNS: object({ TTL: "string" }),
  CreateIndex: "number",
  ModifyIndex: "number",
});

export interface ExecuteOptions {
  readonly connect: boolean;
  readonly limit: number;
  readonly datacenter: string;
  /** Whether the caller may see an instance. */
  readonly visible: (entry: Entry) => boolean;
}

export interface Executed {
  readonly body: JsonObject;
  readonly filtered: boolean;
}

export class PreparedQueries {
  readonly #store: Store;
  readonly #queries = new Map<string, JsonObject>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** By id, for reading; names are not accepted here, as in Consul. */
  get(id: string): JsonObject {
    if (id.length !== 36) {
      throw new Refusal(
        500,
        "failed prepared query lookup: index error: UUID must be 36 characters",
      );
    }
    const found = this.#queries.get(id);
    if (!found) throw new Refusal(404, "Query not found");
    return found;
  }

  /** By id or name, for execution. */
  lookup(idOrName: string): JsonObject {
    const found = this.#queries.get(idOrName) ??
      [...this.#queries.values()].find((query) => textAt(query, "Name") === idOrName);
    if (!found) throw new Refusal(404, "Query not found");
    return found;
  }

  /** Stores a decoded definition under a new id. */
  put(body: JsonObject): string {
    const service = objectAt(body, "Service");
    const failover = objectAt(service, "Failover");
    if (textAt(service, "Service") === "") {
      throw new Refusal(500, "Invalid prepared query: Must provide a Service name to query");
    }
    if (textAt(service, "SamenessGroup") !== "") {
      throw new Refusal(
        500,
        "Invalid prepared query: sameness groups are an enterprise-only feature",
      );
    }
    const targets = Array.isArray(failover["Targets"]) && failover["Targets"].length > 0;
    if (
      targets && (numberAt(failover, "NearestN") > 0 || textsAt(failover, "Datacenters").length > 0)
    ) {
      throw new Refusal(
        500,
        "Invalid prepared query: Targets cannot be populated with NearestN or Datacenters",
      );
    }
    const name = textAt(body, "Name");
    const key = randomUUID();
    const clash = [...this.#queries.values()].some((query) => textAt(query, "Name") === name);
    if (name !== "" && clash) {
      throw new Refusal(500, `raft apply failed: name '${name}' aliases an existing query name`);
    }
    const index = this.#store.commit("query", ["query"]);
    this.#queries.set(key, {
      ID: key,
      Name: name,
      Session: "",
      Token: "",
      Template: { Type: "", Regexp: "", RemoveEmptyTags: false, ...objectAt(body, "Template") },
      Service: fullService(service),
      DNS: { TTL: textAt(objectAt(body, "DNS"), "TTL") },
      CreateIndex: index,
      ModifyIndex: index,
    });
    return key;
  }

  remove(id: string): void {
    this.get(id);
    this.#queries.delete(id);
    this.#store.commit("query", ["query"]);
  }

  execute(query: JsonObject, catalog: Catalog, options: ExecuteOptions): Executed {
    const service = objectAt(query, "Service");
    const connect = options.connect || service["Connect"] === true;
    const all = catalog.entries((record) =>
      (connect ? meshServiceOf(record) : record.name) === textAt(service, "Service")
    );
    const seen = all.filter(options.visible);
    const filtered = seen.length < all.length;
    const nodes = seen.filter((entry) => usable(entry, service));
    const limited = options.limit > 0 ? nodes.slice(0, options.limit) : nodes;
    return {
      filtered,
      body: {
        Service: textAt(service, "Service"),
        Nodes: limited.map((entry) => catalog.entryJson(entry)),
        DNS: objectAt(query, "DNS"),
        Datacenter: options.datacenter,
        PeerName: "",
        // To other datacenters and peers, of which there are none here.
        Failovers: nodes.length > 0 ? 0 : targetsIn(service),
        Index: 1,
        LastContact: 0,
        KnownLeader: true,
        ConsistencyLevel: "leader",
        NotModified: false,
        Backend: 0,
        ResultsFilteredByACLs: filtered,
      },
    };
  }
}

function usable(entry: Entry, service: JsonObject): boolean {
  const ignored = textsAt(service, "IgnoreCheckIDs");
  const status = worst(
    entry.checks.filter((check) => !ignored.includes(check.id)).map((c) => c.status),
  );
  if (status === "critical" || (status === "warning" && service["OnlyPassing"] === true)) {
    return false;
  }
  const meta = Object.entries(objectAt(service, "ServiceMeta"));
  if (!meta.every(([key, value]) => entry.service.meta[key] === value)) return false;
  return textsAt(service, "Tags").every((tag) =>
    tag.startsWith("!")
      ? !entry.service.tags.includes(tag.slice(1))
      : entry.service.tags.includes(tag)
  );
}

/** How many peers and datacenters are tried by name; only those of datacenters that there are count. */
function targetsIn(service: JsonObject): number {
  const targets = objectAt(service, "Failover")["Targets"];
  return Array.isArray(targets) ? targets.length : 0;
}

function fullService(service: JsonObject): JsonObject {
  const failover = objectAt(service, "Failover");
  const targets = failover["Targets"];
  return {
    Service: "",
    SamenessGroup: "",
    OnlyPassing: false,
    IgnoreCheckIDs: null,
    Near: "",
    Tags: null,
    NodeMeta: null,
    ServiceMeta: null,
    Connect: false,
    Peer: "",
    ...service,
    Failover: {
      NearestN: numberAt(failover, "NearestN"),
      Datacenters: failover["Datacenters"] ?? null,
      Targets: Array.isArray(targets)
        ? (targets as readonly Json[]).filter(isObject).map((target) => ({
          Peer: textAt(target, "Peer"),
          Datacenter: textAt(target, "Datacenter"),
        }))
        : null,
    },
  };
}
