/**
 * An agent's world at its start: empty, with a new CA, made of what the options ask for.
 *
 * @module
 */

import type { Clock, Log, Random } from "../base/mod.ts";
import { LEAF_TTL_MS } from "./ca/mint.ts";
import type { Engine } from "../net/mod.ts";
import { Acl, type AclOptions } from "./acl/acl.ts";
import { AuthMethods } from "./acl/auth_methods.ts";
import { Ca } from "./ca/ca.ts";
import type { State, World } from "./http/call.ts";
import { Catalog } from "./catalog/catalog.ts";
import type { NodeRecord } from "./catalog/records.ts";
import { ConfigEntries } from "./entries/config_entries.ts";
import { type Probes, socketProbes } from "./catalog/health_checks.ts";
import { LocalServices } from "./catalog/local_services.ts";
import { PreparedQueries } from "./entries/prepared_queries.ts";
import { Sessions } from "./catalog/sessions.ts";
import { Store } from "./catalog/store.ts";
import { validateEntries } from "./entries/validate_entries.ts";

export interface DevAgentOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log?: Log;
  readonly host?: string;
  /** 0, the default: a free one. */
  readonly port?: number;
  readonly datacenter?: string;
  /** Absent: ACLs are off. */
  readonly acl?: AclOptions;
  readonly defaultIntentionPolicy?: "allow" | "deny";
  readonly leafTtlMs?: number;
  /** Answer like a client agent: forwarded errors are prefixed, unset limits written as null. */
  readonly asClientAgent?: boolean;
  /** Sockets; this runtime's by default. */
  readonly engine?: Engine;
  /** How TCP and HTTP checks are made; over the engine by default. */
  readonly probes?: Probes;
}

export function newWorld(options: DevAgentOptions, engine: Engine, nodeName = "dev"): World {
  const { clock, random, datacenter = "dc1", asClientAgent = false } = options;
  const store = new Store();
  const catalog = new Catalog(store);
  const ca = new Ca({
    store,
    clock,
    random,
    datacenter,
    leafTtlMs: options.leafTtlMs ?? LEAF_TTL_MS,
  });
  const config = new ConfigEntries(
    store,
    (find, names) => validateEntries(find, names, datacenter),
  );
  store.commit("config", []);
  config.onChange((kind, name) => {
    if (kind.startsWith("service-") && name !== "*") catalog.giveVirtualIp(datacenter, name);
  });
  const acl = new Acl(options.acl);
  const shared = {
    datacenter,
    clock,
    random,
    asClientAgent,
    defaultIntentionPolicy: options.defaultIntentionPolicy,
    state: {
      store,
      catalog,
      config,
      ca,
      acl,
      methods: new AuthMethods(acl, clock),
      queries: new PreparedQueries(store),
      sessions: new Sessions({ store, clock, catalog }),
      authorized: new Set<string>(),
    },
  };
  return withNode(shared, { nodeName, host: options.host ?? "127.0.0.1", options, engine });
}

/** The same world as another node's agent has it, with local services of its own. */
export function withNode(
  { state, ...world }: Shared,
  { nodeName, host, ...how }: ServicesOptions & {
    readonly nodeName: string;
    readonly host: string;
  },
): World {
  const node = state.catalog.addNode(world.datacenter, nodeName, host);
  return { ...world, nodeName, state: { ...state, services: servicesOn(node, state, how) } };
}

/** Services that `node` keeps in the catalog, with their checks. */
export function servicesOn(
  node: NodeRecord,
  { catalog, config }: Pick<State, "catalog" | "config">,
  { options, engine }: ServicesOptions,
): LocalServices {
  const { clock, asClientAgent = false, probes = socketProbes(engine, clock) } = options;
  const services = new LocalServices({ clock, catalog, config, asClientAgent, probes, node });
  config.onChange((kind) => {
    if (kind === "proxy-defaults" || kind === "service-defaults") services.refresh();
  });
  return services;
}

interface ServicesOptions {
  readonly options: DevAgentOptions;
  readonly engine: Engine;
}

type Shared = Omit<World, "nodeName" | "state"> & { readonly state: Omit<State, "services"> };
