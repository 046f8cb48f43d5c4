/** The state of an agent, created again when the agent forgets all. @module */

import { randomUUID } from "node:crypto";
import type { Clock, Random } from "../base/mod.ts";
import type { Engine } from "../net/mod.ts";
import { Ca, LEAF_TTL_MS } from "./ca/ca.ts";
import { AgentServices, type Probes, socketProbes } from "./catalog/agent_services.ts";
import { Catalog, CatalogNode } from "./catalog/catalog.ts";
import type { NodeFacts } from "./catalog/records.ts";
import { Store } from "./store.ts";
import { ConfigEntries } from "./entries/config_entries.ts";
import { PreparedQueries } from "./catalog/prepared_queries.ts";

export interface WorldOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly datacenter?: string;
  /** Absent: requests need no token. */
  readonly acl?: AclTerms;
  readonly defaultIntentionPolicy?: "allow" | "deny";
  readonly leafTtlMs?: number;
  /** Runs TCP and HTTP checks; default: over the engine. */
  readonly probes?: Probes;
}

export interface AclTerms {
  /** `acl.default_policy` as the API shows it. */
  readonly defaultPolicy: "allow" | "deny";
  /** True: authorize and intentions/check allow sources that no intention covers. */
  readonly allowsByDefault: boolean;
  /** The one token that every request needs; undefined: requests need none. */
  readonly token: string | undefined;
}

const OPEN: AclTerms = { defaultPolicy: "allow", allowsByDefault: true, token: undefined };

export interface World {
  readonly datacenter: string;
  readonly clock: Clock;
  readonly random: Random;
  /** Action where no intention matches; undefined: that of `acl`. */
  readonly intentionPolicy: "allow" | "deny" | undefined;
  readonly acl: AclTerms;
  readonly store: Store;
  readonly catalog: Catalog;
  readonly config: ConfigEntries;
  readonly ca: Ca;
  readonly queries: PreparedQueries;
  /** The key/value store. */
  readonly keys: Map<string, { readonly value: Uint8Array; readonly index: number }>;
  /** The services of the agent that answers. */
  readonly services: AgentServices;
}

type AgentNode = Pick<NodeFacts, "name" | "address">;

export function newWorld(options: WorldOptions, engine: Engine, agent: AgentNode): World {
  const { clock, random, datacenter = "dc1", acl = OPEN, leafTtlMs = LEAF_TTL_MS } = options;
  const store = new Store();
  const config = new ConfigEntries(store, datacenter);
  const shared = {
    datacenter,
    clock,
    random,
    intentionPolicy: options.defaultIntentionPolicy,
    acl,
    store,
    catalog: new Catalog(),
    config,
    ca: new Ca({ store, clock, random, datacenter, leafTtlMs }),
    queries: new PreparedQueries(),
    keys: new Map(),
  } as const;
  return withAgent(shared, { options, engine, agent });
}

/** The same datacenter for another agent, with services of its own. */
export function withAgent(
  world: Omit<World, "services">,
  { options, engine, agent }: {
    readonly options: WorldOptions;
    readonly engine: Engine;
    readonly agent: AgentNode;
  },
): World {
  const { clock, store, config, catalog, datacenter } = world;
  const { name, address } = agent;
  const node = catalog.add(
    new CatalogNode(store, {
      id: randomUUID(),
      name,
      address,
      datacenter,
      taggedAddresses: { lan: address, wan: address },
      meta: {},
      hasAgent: true,
    }),
  );
  const probes = options.probes ?? socketProbes(engine, clock);
  return { ...world, services: new AgentServices({ clock, probes, config, node }) };
}
