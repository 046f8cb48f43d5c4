/** Snapshots from the agent. An outage leaves the last good state in place. @module */

import { type Consul, type Registration, warningsOf } from "../../consul/mod.ts";
import { ExpiryWatch } from "../../secrets/mod.ts";
import type { CredentialsPart, Snapshot } from "../../snapshot/mod.ts";
import { type CredentialPlans, NO_PLANS } from "../parts/credential_plans.ts";
import { type JudgeCredentials, judgeCredentials } from "../parts/judge_credentials.ts";
import type {
  FactsReader,
  MadeSnapshot,
  MakeContext,
  ReaderEvents,
  ReaderStatus,
  Restoring,
} from "../shell/facts_reader.ts";
import type { Failing } from "../shell/source.ts";
import { type SourceOptions, SourceShell } from "../shell/source_shell.ts";
import type { StoredCredentials } from "../state/stored_credentials.ts";
import { logRotation } from "./rotation_lines.ts";
import { assemble, type Assembled, NO_MEMORY } from "./assemble.ts";
import { ConsulFacts, type RegistrationSource } from "./consul_facts.ts";
import { entryWarnings, unfollowedOf } from "./entry_keys.ts";
import { planRegistration, planStored, storedCredentials } from "./plan_registration.ts";
import { RegisteredPlugins, unusedLists } from "./registered_plugins.ts";
import { parseServiceId } from "../../identity/mod.ts";
import type { SnapshotStore } from "../state/store.ts";

export interface ConsulSourceOptions extends SourceOptions {
  readonly agent: Consul;
  readonly registration: RegistrationSource;
  readonly authorize?: "match" | "both";
  /** Prepared queries without an interval of their own; default 10 s. */
  readonly defaultQueryIntervalMs?: number;
  /** How long upstreams are waited for; default 5 s. */
  readonly graceMs?: number;
  /** How long the endpoints of an emptied list are kept; default 5 min. */
  readonly lastResortMs?: number;
  /** Default: the real check. */
  readonly judge?: JudgeCredentials;
}

/** Failures that mean "the agent, or Consul behind it, is away", not "the agent refuses". */
const AWAY = new Set([
  "agent_unreachable",
  "agent_failed",
  "agent_overloaded",
  "agent_reply_invalid",
  "cluster_changed",
]);

/** The agent's leaf in the watch for certificates that expire. */
const LEAF = { ref: { name: "leaf" }, source: "consul" };

/** Agents renew a leaf at some time between 60 and 90 % of its life: sooner, a warning would be false. */
const LEAF_WARN_FRACTION = 1 / 12;

export class ConsulSource extends SourceShell {
  constructor(options: ConsulSourceOptions) {
    super(options, new ConsulReader(options));
  }
}

class ConsulReader implements FactsReader {
  readonly called: string;
  readonly firstPart = "registration";
  readonly restoring: Restoring;
  readonly #options: ConsulSourceOptions;
  readonly #expiry: ExpiryWatch;
  readonly #plugins: RegisteredPlugins;
  readonly #facts: ConsulFacts;
  #events: ReaderEvents | undefined;
  #registration: Registration | undefined;
  #plans: CredentialPlans = NO_PLANS;
  #credentials: StoredCredentials | null = null;
  #assembled: Assembled | undefined;

  constructor(options: ConsulSourceOptions) {
    const { agent, clock, registration, env = {} } = options;
    const { graceMs = 5_000, defaultQueryIntervalMs = 10_000 } = options;
    this.#options = options;
    this.called = agent.called;
    this.#plugins = new RegisteredPlugins({
      clock,
      readKey: (key) => agent.askKey(key),
      watch: options.pluginWatch,
      onChange: () => this.#events?.changed(),
    });
    const scope = { source: LEAF.source };
    this.#expiry = new ExpiryWatch({ ...options, warnFraction: LEAF_WARN_FRACTION, scope });
    this.#facts = new ConsulFacts({ agent, clock, registration, defaultQueryIntervalMs });
    this.restoring = {
      proxyId: registration.kind === "agent" ? registration.proxyId : registration.registration.id,
      graceMs,
      isAway: ({ code }) => AWAY.has(code),
      // The proxy serves nothing without these three.
      isRefused: ({ watch, code }) =>
        !AWAY.has(code) && /^(registration|leaf|intentions)\b/.test(watch),
      plan: (stored) => {
        const { registration } = this.#facts.known;
        this.#plans = registration
          ? planRegistration(registration, this.#plans, env)
          : planStored(stored, env);
        return this.#plans;
      },
    };
  }

  get failing(): readonly Failing[] {
    return this.#facts.watches.failing;
  }

  get warnings(): readonly string[] {
    const { known } = this.#facts;
    return [
      ...known.registration ? warningsOf(known.registration) : [],
      ...known.registration ? unusedLists(known.registration) : [],
      ...entryWarnings(known),
      ...this.#assembled?.ignored ?? [],
      ...this.#plans.warnings,
    ];
  }

  unfollowed(upstream: string | undefined): readonly string[] {
    const { refused = [], ignored = [] } = this.#assembled ?? {};
    return unfollowedOf(this.#facts.known, { upstream, refused, ignored });
  }

  start(events: ReaderEvents): void {
    this.#events = events;
    this.#facts.start(events);
  }

  used(upstreamIds: readonly string[]): void {
    this.#facts.used(upstreamIds);
  }

  make({ previous, hold }: MakeContext): MadeSnapshot {
    const { known } = this.#facts;
    const { registration, leaf, roots, intentions } = known;
    const { clock, env = {}, ...options } = this.#options;
    if (registration) {
      this.#plans = planRegistration(registration, this.#plans, env);
      this.#plugins.follow(registration, known.proxyDefaults);
      if (registration !== this.#registration) {
        this.#registration = registration;
        this.#credentials = storedCredentials(registration) ?? null;
      }
    }
    const { memory = NO_MEMORY } = this.#assembled ?? {};
    this.#assembled = assemble(known, { ...memory, snapshot: previous }, {
      proxyId: this.restoring.proxyId,
      authorize: options.authorize ?? "match",
      strictSpiffeChain: options.strictSpiffeChain ?? false,
      judge: options.judge ?? judgeCredentials,
      nowMs: clock.now(),
      monotonicMs: clock.monotonic(),
      graceMs: this.restoring.graceMs,
      lastResortMs: options.lastResortMs ?? 300_000,
      idleTimeoutMs: options.idleTimeoutMs ?? 3_600_000,
      lifetimeMs: options.lifetimeMs ?? 0,
      plans: this.#plans,
      held: hold(this.#plans),
      plugins: this.#plugins.held,
      tracing: options.tracing,
      telemetry: options.telemetry,
    });
    return {
      ...this.#assembled,
      warnings: this.warnings,
      isConfirmed: leaf !== undefined && roots !== undefined && intentions !== undefined,
      ...(registration && { credentials: this.#credentials }),
    };
  }

  published({ credentials }: Snapshot, previous: Snapshot | undefined): void {
    if (!credentials) return;
    logRotation(this.#options.log, previous?.credentials ?? undefined, credentials);
    pinCluster(credentials, this.#options, this.restoring.proxyId);
    if (credentials !== previous?.credentials) this.#expiry.watch(LEAF, credentials);
  }

  status(): ReaderStatus {
    const { metrics, ingress } = this.#facts.known.registration ?? {};
    const servers = this.#options.agent.serversStatus?.();
    return {
      kind: "consul",
      ...(metrics && { metrics }),
      ...(ingress && { isGateway: true }),
      watches: this.#facts.watches.states,
      ...(servers && { servers }),
    };
  }

  reload(): Promise<boolean> {
    return this.#plugins.refresh();
  }

  close(): void {
    this.#facts.close();
    this.#expiry.close();
    this.#plugins.close();
  }
}

interface PinOptions {
  readonly agent: Pick<Consul, "pinCluster">;
  readonly store?: Pick<SnapshotStore, "fileOf">;
}

/** A changed trust domain is the sure sign of another cluster. */
function pinCluster(
  { uri }: Pick<CredentialsPart, "uri">,
  { agent, store }: PinOptions,
  proxyId: string,
): void {
  const parsed = parseServiceId(uri);
  if (parsed.kind !== "service") return;
  const stateFile = store?.fileOf?.(proxyId);
  agent.pinCluster?.({
    trustDomain: parsed.id.trustDomain,
    ...(stateFile === undefined ? {} : { stateFile }),
  });
}

/** Called before the first request: the first server that answers might belong to another cluster. */
export async function pinStoredCluster(
  proxyId: string,
  options: PinOptions & { readonly store: SnapshotStore },
): Promise<void> {
  const stored = await options.store.load(proxyId);
  const credentials = stored?.snapshot.credentials;
  if (credentials) pinCluster(credentials, options, proxyId);
}
