/**
 * The watches of the agent and their last good answers. The registration names the service and its
 * upstreams, roots have the trust domain, chains name targets: each answer may start and stop watches.
 * `assemble()` judges and joins the answers.
 *
 * @module
 */

import { type Clock, ProxyError } from "../../base/mod.ts";
import type {
  Consul,
  DiscoveryChain,
  Instance,
  JwtProvider,
  QueryResult,
  Registration,
} from "../../consul/mod.ts";
import { parseServiceId } from "../../identity/mod.ts";
import type { ConsulState } from "./consul_state.ts";
import { chainRequest, healthKey, refuseDeclaration, type UpstreamPlan } from "./plan.ts";
import { protocolOf } from "../parts/http_rules.ts";
import type { ReaderEvents } from "../shell/facts_reader.ts";
import { plainKey, upstreamKey, UpstreamPlans } from "./upstream_plans.ts";
import { MAX_PROVIDERS, providersOf } from "./token_providers.ts";
import { type Starter, WatchSet } from "./watch_set.ts";

/** Where the registration comes from: the agent, or flags (then it never changes). */
export type RegistrationSource =
  | { readonly kind: "agent"; readonly proxyId: string }
  | { readonly kind: "static"; readonly registration: Registration };

interface ConsulFactsOptions {
  readonly agent: Consul;
  readonly clock: Clock;
  readonly registration: RegistrationSource;
  readonly defaultQueryIntervalMs: number;
}

/** Questions about the entries of one registration, while their watches see others in between. */
const ASKS = 5;

export class ConsulFacts {
  readonly watches: WatchSet;
  readonly #options: ConsulFactsOptions;
  #events: ReaderEvents | undefined;
  #registration: Registration | undefined;
  /** The newest one, which may wait for {@link ConsulFacts.#takeMerged}. */
  #newest: Registration | undefined;
  #registrationRefusal: string | undefined;
  /** How often a watch has seen service-defaults or proxy-defaults. */
  #entriesSeen = 0;
  readonly #facts: Facts = {
    ...NOTHING_OF_SERVICE,
    roots: undefined,
    mesh: undefined,
    proxyDefaults: undefined,
  };
  readonly #jwtProviders = new Map<string, JwtProvider | null>();
  readonly #plans: UpstreamPlans;
  /** Keys of the watches that are needed now. */
  #wanted = new Set<string>();
  /** By watch key. */
  readonly #queries = new Map<string, QueryResult>();
  readonly #instances = new Map<string, readonly Instance[]>();

  constructor(options: ConsulFactsOptions) {
    this.#options = options;
    this.#plans = new UpstreamPlans(options.defaultQueryIntervalMs);
    this.watches = new WatchSet({
      clock: options.clock,
      onFailing: (failing) => {
        this.#events?.failing(failing);
        this.#events?.changed();
      },
      onRecovered: (failing) => {
        this.#events?.recovered(failing);
        this.#events?.changed();
      },
    });
  }

  start(events: ReaderEvents): void {
    this.#events = events;
    const { registration } = this.#options;
    if (registration.kind === "static") this.#takeRegistration(registration.registration);
    this.#sync();
  }

  close(): void {
    this.#newest = undefined;
    this.watches.close();
  }

  get known(): ConsulState {
    const registration = this.#placed();
    const queries = new Map<string, QueryResult>();
    const { troubles } = this.watches;
    const unheard = new Map(troubles);
    const plans = new Map<string, UpstreamPlan>();
    for (const declaration of registration?.upstreams ?? []) {
      const { id } = declaration;
      const refusal = refuseDeclaration(declaration);
      if (refusal) plans.set(id, { kind: "refused", reason: refusal });
      else plans.set(id, this.#plans.of(id) ?? { kind: "pending" });
      const key = upstreamKey(declaration);
      const result = this.#queries.get(key);
      if (result) queries.set(id, result);
      const trouble = troubles.get(key);
      if (trouble) unheard.set(id, trouble);
    }
    const refused = [...this.#plans.refusals, ...registration?.ingress?.refused ?? []];
    if (this.#registrationRefusal) {
      refused.push({ what: "registration", reason: this.#registrationRefusal });
    }
    return {
      registration,
      ...this.#facts,
      jwtProviders: this.#jwtProviders,
      plans,
      instances: this.#instances,
      queries,
      unheard,
      refused,
    };
  }

  /** These upstreams carry traffic: answers about them should arrive soon. */
  used(upstreamIds: readonly string[]): void {
    for (const { key, plan } of this.#plans.among(upstreamIds)) {
      this.watches.touch(key);
      if (plan.kind !== "targets") continue;
      for (const { health } of plan.targets) this.watches.touch(healthKey(health));
    }
  }

  /** The registration with the datacenter it lives in; flags do not have it, but the leaf does. */
  #placed(): Registration | undefined {
    const registration = this.#registration;
    if (!registration || registration.datacenter !== "") return registration;
    const { leaf } = this.#facts;
    const parsed = leaf && parseServiceId(leaf.uri);
    if (parsed?.kind !== "service") return undefined;
    return { ...registration, datacenter: parsed.id.datacenter };
  }

  #changed(): void {
    this.#sync();
    this.#events?.changed();
  }

  /**
   * Config entries are merged into it that are followed on their own, too, and may be seen later: until
   * they are as new as it is, half of what was written in one would count without the other.
   */
  async #takeMerged(registration: Registration): Promise<void> {
    const { agent } = this.#options;
    this.#newest = registration;
    const { service } = registration;
    if (service !== this.#registration?.service) return this.#takeRegistration(registration);
    for (let left = ASKS; left > 0; left--) {
      const before = this.#entriesSeen;
      const [ofService, ofAll] = await Promise.allSettled([
        agent.askDefaults({ kind: "service-defaults", name: service }),
        agent.askDefaults(OF_ALL),
      ]);
      if (this.#newest !== registration) return;
      // An answer may be older than what a watch has seen since the question.
      if (before !== this.#entriesSeen) continue;
      // The watch of an entry that cannot be read reports why.
      if (ofService.status === "fulfilled") this.#facts.serviceDefaults = ofService.value;
      if (ofAll.status === "fulfilled") this.#facts.proxyDefaults = ofAll.value;
      break;
    }
    this.#takeRegistration(registration);
    this.#changed();
  }

  #takeRegistration(registration: Registration): void {
    if (registration.mode !== "" && registration.mode !== "direct") {
      const reason = `Mode "${registration.mode}" is not supported yet; ` +
        `register the proxy with Mode "direct"`;
      if (this.#registration) {
        this.#registrationRefusal = reason;
        return;
      }
      const { id } = registration;
      this.#events?.fatal(new ProxyError("unsupported", `Cannot run proxy "${id}": ${reason}`));
      return;
    }
    this.#registrationRefusal = undefined;
    this.#registration = registration;
  }

  /** Starts missing watches and stops those that are not needed any more. */
  #sync(): void {
    this.#wanted = new Set();
    const { agent, registration: source } = this.#options;
    if (source.kind === "agent") {
      const { proxyId } = source;
      this.#want<Registration>(
        "registration",
        (sink) => agent.watchRegistration(proxyId, sink),
        (value) => void this.#takeMerged(value),
      );
    }
    this.#wantFact("roots", "roots", (sink) => agent.watchRoots(sink));
    this.#wantFact("mesh", "mesh entry", (sink) => agent.watchMesh(sink));
    this.#wantFact("proxyDefaults", "proxy-defaults", (sink) => agent.watchDefaults(OF_ALL, sink));
    this.#wantService();
    this.#plans.update(this.#placed());
    this.#wantUpstreams();
    // A watch whose value is known at once has made this run within itself: its wishes count, too.
    for (const key of this.watches.keys()) if (!this.#wanted.has(key)) this.#stop(key);
  }

  #want<T>(key: string, start: Starter<T>, take: (value: T) => void): void {
    this.#wanted.add(key);
    this.watches.ensure(key, start, (value) => {
      take(value);
      this.#changed();
    });
  }

  #wantFact<F extends Fact>(
    fact: F,
    key: string,
    start: Starter<Exclude<ConsulState[F], undefined>>,
  ): void {
    this.#want(key, start, (value) => {
      if (fact === "serviceDefaults" || fact === "proxyDefaults") this.#entriesSeen++;
      this.#facts[fact] = value;
    });
  }

  #wantService(): void {
    const { agent } = this.#options;
    const service = this.#registration?.service;
    if (service === undefined) return;
    this.#wantFact("leaf", `leaf ${service}`, (sink) => agent.watchLeaf(service, sink));
    this.#wantFact(
      "intentions",
      `intentions ${service}`,
      (sink) => agent.watchIntentions(service, sink),
    );
    for (const name of this.#jwtProvidersWanted()) {
      this.#want<JwtProvider | null>(
        jwtProviderKey(name),
        (sink) => agent.watchJwtProvider(name, sink),
        (value) => this.#jwtProviders.set(name, value),
      );
    }
    const ofService = { kind: "service-defaults", name: service } as const;
    this.#wantFact(
      "serviceDefaults",
      `service-defaults ${service}`,
      (sink) => agent.watchDefaults(ofService, sink),
    );
    const datacenter = this.#placed()?.datacenter;
    const trustDomain = this.#facts.roots?.trustDomain;
    if (!datacenter || !trustDomain) return;
    this.#wantFact(
      "defaultAction",
      `default policy ${service} ${datacenter} ${trustDomain}`,
      (sink) => agent.watchDefaultPolicy({ service, trustDomain, datacenter }, sink),
    );
  }

  /** Tokens belong to requests: a tcp service has none. */
  #jwtProvidersWanted(): readonly string[] {
    const protocol = protocolOf(this.#registration?.protocol ?? "") ?? "tcp";
    if (protocol === "tcp") return [];
    return providersOf(this.#facts.intentions ?? []).slice(0, MAX_PROVIDERS);
  }

  #wantUpstreams(): void {
    const { agent } = this.#options;
    for (const declaration of this.#placed()?.upstreams ?? []) {
      if (refuseDeclaration(declaration)) continue;
      const key = upstreamKey(declaration);
      const plan = this.#plans.of(declaration.id);
      if (plan?.kind === "query") {
        const { request } = plan;
        this.#want<QueryResult>(
          key,
          (sink) => agent.watchQuery(request, sink),
          (value) => this.#queries.set(key, value),
        );
        continue;
      }
      const wantChain = (as: string, protocol?: string) =>
        this.#want<DiscoveryChain>(
          as,
          (sink) => agent.watchChain(chainRequest(declaration, protocol), sink),
          (value) => this.#plans.chains.set(as, value),
        );
      wantChain(key);
      if (this.#plans.needPlain.has(declaration.id)) wantChain(plainKey(declaration), "tcp");
      if (plan?.kind !== "targets") continue;
      for (const { health } of plan.targets) {
        const healthAs = healthKey(health);
        this.#want<readonly Instance[]>(
          healthAs,
          (sink) => agent.watchHealth(health, sink),
          (value) => this.#instances.set(healthAs, value),
        );
      }
    }
  }

  /** Stops a watch and forgets its value: it may be about another service. */
  #stop(key: string): void {
    this.watches.stop(key);
    this.#plans.chains.delete(key);
    this.#queries.delete(key);
    for (const name of this.#jwtProviders.keys()) {
      if (key === jwtProviderKey(name)) this.#jwtProviders.delete(name);
    }
    this.#instances.delete(key);
    const service = this.#registration?.service ?? "";
    const isOther = key.startsWith("leaf ") && key !== `leaf ${service}`;
    if (isOther) Object.assign(this.#facts, NOTHING_OF_SERVICE);
  }
}

/** The facts that one watch each delivers as they are. */
type Fact =
  | keyof typeof NOTHING_OF_SERVICE
  | "roots"
  | "mesh"
  | "proxyDefaults";
type Facts = { -readonly [F in Fact]: ConsulState[F] };

const NOTHING_OF_SERVICE = {
  leaf: undefined,
  intentions: undefined,
  defaultAction: undefined,
  serviceDefaults: undefined,
};

const OF_ALL = { kind: "proxy-defaults", name: "global" } as const;

function jwtProviderKey(name: string): string {
  return `jwt-provider ${name}`;
}
