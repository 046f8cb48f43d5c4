/** Prepared queries: definitions, and their execution in this datacenter. @module */

import { randomUUID } from "node:crypto";
import { type Catalog, type Entry, entryJson } from "./catalog.ts";
import { meshServiceOf, worstOf } from "./records.ts";
import { type JsonObject, objectAt, objectsAt, textAt, textsAt } from "../json.ts";
import { HttpRefusal } from "../refusal.ts";

interface ExecuteOptions {
  readonly connect: boolean;
  /** 0: none. */
  readonly limit: number;
  readonly datacenter: string;
}

export class PreparedQueries {
  readonly #queries = new Map<string, JsonObject>();

  /** Keeps a decoded definition and returns its id. */
  put(body: JsonObject): string {
    const name = textAt(body, "Name");
    if (textAt(objectAt(body, "Service"), "Service") === "") {
      throw new HttpRefusal(400, `Cannot keep the query "${name}": Service.Service is missing`);
    }
    if (name !== "" && this.#named(name)) {
      throw new HttpRefusal(500, `Cannot keep the query "${name}": another one has that name`);
    }
    const id = randomUUID();
    this.#queries.set(id, { ...body, ID: id });
    return id;
  }

  get(idOrName: string): JsonObject {
    const found = this.#queries.get(idOrName) ?? this.#named(idOrName);
    if (!found) throw new HttpRefusal(404, "Query not found");
    return found;
  }

  remove(id: string): void {
    if (!this.#queries.delete(id)) throw new HttpRefusal(404, "Query not found");
  }

  #named(name: string): JsonObject | undefined {
    return [...this.#queries.values()].find((query) => textAt(query, "Name") === name);
  }
}

export function executeQuery(
  query: JsonObject,
  catalog: Catalog,
  { connect, limit, datacenter }: ExecuteOptions,
): JsonObject {
  const service = objectAt(query, "Service");
  const name = textAt(service, "Service");
  const isMesh = connect || service["Connect"] === true;
  const found = catalog.entries((record) => (isMesh ? meshServiceOf(record) : record.name) === name)
    .filter((entry) => fits(entry, service));
  const limited = limit > 0 ? found.slice(0, limit) : found;
  return {
    Service: name,
    Nodes: limited.map(entryJson),
    DNS: objectAt(query, "DNS"),
    Datacenter: datacenter,
    PeerName: "",
    // Attempts at other datacenters and peers, of which there are none.
    Failovers: found.length > 0 ? 0 : objectsAt(objectAt(service, "Failover"), "Targets").length,
  };
}

function fits({ service: { definition }, checks }: Entry, wanted: JsonObject): boolean {
  const ignored = textsAt(wanted, "IgnoreCheckIDs");
  const status = worstOf(checks.filter(({ id }) => !ignored.includes(id)));
  if (status === "critical" || (status === "warning" && wanted["OnlyPassing"] === true)) {
    return false;
  }
  const [tags, meta] = [textsAt(definition, "Tags"), objectAt(definition, "Meta")];
  return Object.entries(objectAt(wanted, "ServiceMeta"))
    .every(([key, value]) => meta[key] === value) &&
    textsAt(wanted, "Tags").every((tag) =>
      tag.startsWith("!") ? !tags.includes(tag.slice(1)) : tags.includes(tag)
    );
}
