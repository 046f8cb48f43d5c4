/**
 * Consul as the rest of Postern sees it, through an agent or through servers: watches that last, and
 * single calls. Everything that a long poll can do wrong (index resets, frozen caches, unproved empty
 * lists, waits that never end) is dealt with behind this interface.
 *
 * @module
 */

import type { Clock, Log, ProxyError, Random, ReportEvent, Stats } from "../../base/mod.ts";
import type { Defaults, JwtProvider, Mesh } from "./config_entries.ts";
import type {
  DiscoveryChain,
  Instance,
  Intentions,
  Leaf,
  QueryResult,
  Registration,
  Roots,
} from "./values.ts";

/** Arguments of nearly every part. */
export interface CommonDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  readonly report?: ReportEvent;
}

/** Receives the values of a watch: the first answer at once, then every change of content. */
export interface WatchSink<T> {
  onValue(value: T): void;
  /** Each failure; the watch goes on by itself and the last value stays true. */
  onError(error: ProxyError): void;
}

/** A running watch. Stopping it is immediate; nothing is delivered afterwards. */
export interface WatchHandle {
  stop(): void;
  /** Marks its data as in use, so that it is read before the data of idle watches. */
  touch?(): void;
  readonly state: WatchState;
}

/** The state of a watch, as the admin server shows it. */
export interface WatchState {
  /** `leaf web`, `health db dc=dc2`: for people. */
  readonly name: string;
  /** `long`: has a connection of its own; `short`: takes its turn within the budget. */
  readonly mode: "long" | "short" | "poll";
  /** Monotonic time of the last good answer (also an unchanged one); undefined: none yet. */
  readonly lastSuccessMs: number | undefined;
  readonly failures: number;
  readonly lastError: string | undefined;
}

export interface ChainRequest {
  readonly service: string;
  /** `""`: that of the proxy. */
  readonly datacenter: string;
  /** The protocol that replaces the service's own; `tcp` leaves routes and splits out. */
  readonly protocol?: string;
  readonly connectTimeoutMs?: number;
  readonly meshGatewayMode?: string;
}

export interface HealthRequest {
  readonly service: string;
  readonly datacenter: string;
  /** bexpr of a subset, `""`: none. */
  readonly filter: string;
}

export interface QueryRequest {
  readonly name: string;
  readonly datacenter: string;
  readonly intervalMs: number;
}

export interface DefaultsRequest {
  readonly kind: "service-defaults" | "proxy-defaults";
  /** A service, or `global` for proxy-defaults. */
  readonly name: string;
}

export interface DefaultPolicyRequest {
  readonly service: string;
  readonly trustDomain: string;
  readonly datacenter: string;
}

/** A service of the mesh, by all that names it. */
export interface ServiceRef {
  readonly service: string;
  readonly namespace: string;
  readonly partition: string;
  readonly datacenter: string;
}

/** The proxy's own instance in the catalog. */
export interface InstanceRef {
  readonly service: string;
  readonly proxyId: string;
  readonly datacenter: string;
}

/** An instance of a service, and the protocol that its sidecar speaks with callers; `""`: none is named. */
export interface InstanceProtocol {
  readonly id: string;
  readonly protocol: string;
}

export type RightsCheck =
  | {
    readonly kind: "checked";
    /** Empty: it may do everything. */
    readonly missing: readonly MissingRight[];
  }
  /** Every caller may do everything. */
  | { readonly kind: "acls_off" }
  | { readonly kind: "unknown"; readonly reason: string };

/** A right that the token lacks: `service:write` on `web`. */
export interface MissingRight {
  readonly right: string;
  readonly on: string;
  /** The function that needs the right. */
  readonly neededFor: string;
}

export interface Consul {
  /** For messages: whether an agent or servers answer. */
  readonly called: "agent" | "consul";
  /** An ingress gateway's comes with its config entry. */
  watchRegistration(proxyId: string, sink: WatchSink<Registration>): WatchHandle;
  watchLeaf(service: string, sink: WatchSink<Leaf>): WatchHandle;
  watchRoots(sink: WatchSink<Roots>): WatchHandle;
  watchIntentions(service: string, sink: WatchSink<Intentions>): WatchHandle;
  /**
   * The default policy, from an authorize call about a source that no rule can name: read at start, after
   * each agent restart and every few minutes.
   */
  watchDefaultPolicy(request: DefaultPolicyRequest, sink: WatchSink<"allow" | "deny">): WatchHandle;
  watchChain(request: ChainRequest, sink: WatchSink<DiscoveryChain>): WatchHandle;
  /** An empty list is delivered only after a read without `index` confirmed it. */
  watchHealth(request: HealthRequest, sink: WatchSink<readonly Instance[]>): WatchHandle;
  watchQuery(request: QueryRequest, sink: WatchSink<QueryResult>): WatchHandle;
  /** `null`: there is no mesh entry. */
  watchMesh(sink: WatchSink<Mesh | null>): WatchHandle;
  /** `null`: there is no such entry. */
  watchDefaults(request: DefaultsRequest, sink: WatchSink<Defaults | null>): WatchHandle;
  /** `null`: there is no such entry. */
  watchJwtProvider(name: string, sink: WatchSink<JwtProvider | null>): WatchHandle;
  /** The value that a watch would deliver now. */
  askDefaults(request: DefaultsRequest): Promise<Defaults | null>;
  /** For any service whose intentions the token may read, once and as they are now. */
  askIntentions(destination: ServiceRef): Promise<Intentions>;
  /** The value of a key of the key/value store, as it is now. */
  askKey(key: string): Promise<Uint8Array>;
  /** Whether the catalog has an instance of it; `undefined`: the token may not read that. */
  askInCatalog(service: ServiceRef): Promise<boolean | undefined>;
  /** For an operator: what callers of the service must speak. */
  askProtocols?(service: ServiceRef): Promise<readonly InstanceProtocol[]>;
  /** Header `Date` of the newest reply; `""`: there is none. */
  replyDate?(): string;
  /**
   * Why callers would pass over the proxy's own instance, as the catalog has it now; empty: all its
   * checks pass.
   */
  askFailingChecks(instance: InstanceRef): Promise<readonly string[]>;

  /** The one sidecar registered for a service id; fails with `agent_not_found` or `usage` (several). */
  findSidecar(serviceId: string): Promise<string>;
  /** The id, where that proxy can be run; fails with `agent_not_found`, `usage` or `unsupported`. */
  findProxy(proxyId: string): Promise<string>;
  /** The one ingress gateway here, of that name where one is given; fails like the above. */
  findGateway(service: string): Promise<string>;
  /** Whether the token may do what running `registration` takes. */
  checkRights(registration: Registration): Promise<RightsCheck>;
  /** The agent's own verdict on one connection, bounded by `timeoutMs`; any failure rejects. */
  authorize(
    request: { readonly target: string; readonly uri: string; readonly serial: string },
    options: { readonly timeoutMs: number },
  ): Promise<{ readonly allowed: boolean; readonly reason: string }>;
  /** `-register`: registers, keeps the registration alive, deregisters at the end. */
  keepRegistered(request: RegisterRequest, signals: RegisterSignals): Promise<void>;
  watchStates(): readonly WatchState[];
  /**
   * From now on only a Consul of that trust domain is believed: everything else fails with
   * `cluster_changed`, and the last values stay. Only the first call counts.
   */
  pinCluster?(cluster: PinnedCluster): void;
  /** Undefined beside an agent. */
  serversStatus?(): ServersStatus | undefined;
  /** Reads token file and certificates again (SIGHUP); unusable ones leave those in use, and throw. */
  reloadFiles?(): void;
  /** Releases at the end what the process obtained (login tokens), within 5 s. Never rejects. */
  leave?(): Promise<void>;
  close(): void;
}

/** The cluster that this proxy belongs to. */
export interface PinnedCluster {
  /** In lower case. */
  readonly trustDomain: string;
  /** The file that a restart would serve from; absent: none is kept. */
  readonly stateFile?: string;
}

/** The state of the session with Consul's servers, as the admin server shows it. */
export interface ServersStatus {
  /** The one in use; `""`: none. */
  readonly server: string;
  /** Wall clock: when it was taken into use. */
  readonly sinceMs: number | undefined;
  readonly known: readonly string[];
  /** Number of changes of the server after the first one. */
  readonly moves: number;
  /** Why the last one was left, or none was found; `""`: nothing has failed yet. */
  readonly lastFailure: string;
  /** Absent where the token is given. */
  readonly login?: LoginStatus;
}

/** The state of a login, as the admin server shows it. Times are those of the wall clock. */
export interface LoginStatus {
  readonly authMethod: string;
  /** Names the token in use, and opens nothing; `""`: there is none. */
  readonly accessorId: string;
  readonly lastLoginMs: number | undefined;
  /** Undefined: never, or not known. */
  readonly expiresMs: number | undefined;
  /** Number of consecutive failures. */
  readonly failures: number;
  /** `""`: the last login gave a token. */
  readonly lastFailure: string;
}

export interface RegisterRequest {
  /** Made from flags alone. */
  readonly registration: Registration;
  /** The application's id; it is registered as well where no agent has it. */
  readonly applicationId: string;
  /** Where others reach this host; `""`: the address that is listened on, or else the node's. */
  readonly nodeAddress: string;
  /** Path of the application's HTTP check; `""`: it only has to take connections. */
  readonly httpCheckPath: string;
}

export interface RegisterSignals {
  /** Ends the registration, and deregisters the entries unless {@link RegisterSignals.handedOver} did. */
  readonly signal: AbortSignal;
  /** Ends it as well: another process keeps the entries from now on. */
  readonly handedOver?: AbortSignal;
  /** Aborts when callers are served; absent: they are served already. */
  readonly serving?: AbortSignal;
  /** Aborts when no new callers should come. */
  readonly draining?: AbortSignal;
  /** Called when Consul knows about the drain. */
  readonly onLeft?: () => void;
}
