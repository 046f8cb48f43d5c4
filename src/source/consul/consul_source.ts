/**
 * Snapshots from the agent: collects its answers, assembles them, and publishes what changed. Bursts of
 * answers are joined; an outage leaves the last good state in place and is told once.
 *
 * @module
 */

import { messageOf, type ProxyError, type Timer } from "../../base/mod.ts";
import { type Registration, warningsOf } from "../../consul/mod.ts";
import { AgentEvents } from "./agent_events.ts";
import { AgentOutage, joinOutage } from "../shell/agent_outage.ts";
import {
  assemble,
  type Assembled,
  type AssembleMemory,
  type AssembleOptions,
  NO_MEMORY,
} from "./assemble.ts";
import { ConsulFacts } from "./consul_facts.ts";
import type { ConsulSourceOptions } from "./consul_source_options.ts";
import { entryWarnings, unfollowedOf } from "./entry_keys.ts";
import { judgeCredentials } from "../shell/judge_credentials.ts";
import { pinCluster } from "./pin_cluster.ts";
import type { Refusal, Snapshot } from "../../snapshot/mod.ts";
import type { Failing, SnapshotSource, SourceStatus, TakeSnapshot } from "../shell/source.ts";
import { certificateStatusOf, SourceReport } from "../shell/source_report.ts";
import { type FetchedCertificate, SecretsLink, type SecretsReport } from "../shell/secrets_link.ts";
import { RegisteredPlugins } from "./registered_plugins.ts";
import { StateKeeper } from "./state_keeper.ts";
import { storedSecrets, type StoredState, withNews } from "../state/stored_credentials.ts";
import { planStored } from "./plan_registration.ts";
import { type CredentialPlans, NO_PLANS } from "../shell/credential_plans.ts";
import { planRegistration } from "./plan_registration.ts";
import { ExpiryWatch } from "../../secrets/mod.ts";

/** Answers that come within this time are assembled together. */
const COALESCE_MS = 3;
/** Failing watches are looked at this often, since a recovery without a change is not reported. */
const CHECK_MS = 1_000;
/** Failures that mean "the agent, or Consul behind it, is away", not "the agent says no". */
const AWAY = new Set([
  "agent_unreachable",
  "agent_failed",
  "agent_overloaded",
  "agent_reply_invalid",
  "cluster_changed",
]);

/** What the agent's leaf is called where certificates are watched growing old. */
const LEAF = { ref: { name: "leaf" }, source: "consul" };

/** Agents renew a leaf at some time between 60 and 90 % of its life: sooner, a warning would be false. */
const LEAF_WARN_FRACTION = 1 / 12;

export class ConsulSource implements SnapshotSource {
  readonly #options: ConsulSourceOptions;
  readonly #facts: ConsulFacts;
  readonly #report: SourceReport;
  readonly #agentEvents: AgentEvents;
  readonly #outage: AgentOutage;
  readonly #expiry: ExpiryWatch;
  readonly #timers = new Map<"refresh" | "due" | "check" | "restore", Timer>();
  #onSnapshot: TakeSnapshot | undefined;
  #onFatal: ((error: ProxyError) => void) | undefined;
  readonly #secrets: SecretsLink;
  readonly #plugins: RegisteredPlugins;
  readonly #keeper: StateKeeper | undefined;
  #plans: CredentialPlans = NO_PLANS;
  #memory: AssembleMemory = NO_MEMORY;
  #assembled: Assembled | undefined;
  #published: Snapshot | undefined;
  /** Whether that came into force. */
  #taken = Promise.resolve(false);
  #stored: StoredState | undefined;
  /** It is not known yet whether there is a stored state. */
  #loading = false;
  #restored = false;
  #closed = false;

  constructor(options: ConsulSourceOptions) {
    this.#options = options;
    const { agent, clock, registration, log, stats, store } = options;
    this.#plugins = new RegisteredPlugins(
      () => this.#wake("refresh", 0, () => this.#refresh()),
      options.pluginWatch,
    );
    this.#keeper = store && new StateKeeper(store);
    const { called } = agent;
    this.#report = new SourceReport({ called, clock, log, stats });
    this.#agentEvents = new AgentEvents(clock, log);
    const onEvent: AgentEvents["agent"] = (kind, detail) => this.#agentEvents.agent(kind, detail);
    this.#outage = new AgentOutage({ called, clock, log, onEvent });
    const scope = { source: LEAF.source };
    this.#expiry = new ExpiryWatch({ clock, log, stats, warnFraction: LEAF_WARN_FRACTION, scope });
    this.#secrets = new SecretsLink(
      options.createSecretStore,
      () => this.#wake("refresh", 0, () => this.#refresh()),
    );
    this.#facts = new ConsulFacts({
      agent,
      clock,
      registration,
      defaultQueryIntervalMs: options.defaultQueryIntervalMs ?? 10_000,
      onChange: () => this.#wake("refresh", COALESCE_MS, () => this.#refresh()),
      onFailing: (failing) => this.#failing(failing),
      onRecovered: (failing) => {
        this.#report.recovered(failing, this.#facts.watches.failing);
        this.#lookAtOutage();
      },
      onFatal: (error) => this.#onFatal?.(error),
    });
  }

  get proxyId(): string {
    const { registration } = this.#options;
    return registration.kind === "agent" ? registration.proxyId : registration.registration.id;
  }

  get refused(): readonly Refusal[] {
    return [...this.#assembled?.refused ?? [], ...this.#secrets.refusals()];
  }

  get warnings(): readonly string[] {
    const { known } = this.#facts;
    return [
      ...known.registration ? warningsOf(known.registration) : [],
      ...entryWarnings(known),
      ...this.#assembled?.ignored ?? [],
      ...this.#plans.warnings,
    ];
  }

  unfollowed(upstream: string | undefined): readonly string[] {
    const { refused } = this;
    const ignored = this.#assembled?.ignored ?? [];
    return unfollowedOf(this.#facts.known, { upstream, refused, ignored });
  }

  start(onSnapshot: TakeSnapshot, onFatal?: (error: ProxyError) => void): void {
    this.#onSnapshot = onSnapshot;
    this.#onFatal = onFatal;
    this.#facts.start();
    if (!this.#keeper) return;
    this.#loading = true;
    this.#keeper.load(this.proxyId).then((state) => {
      this.#stored = state;
      if (this.#isAway()) this.#restore();
    }, (error) => {
      this.#options.log.warn("stored snapshot not read", { error: messageOf(error) });
    }).finally(() => {
      this.#loading = false;
      // Whether anything can be served meanwhile is known now.
      for (const failing of this.#facts.watches.failing) this.#tell(failing);
    });
    // An agent that neither answers nor refuses is away as well.
    this.#wake("restore", this.#graceMs, () => this.#restore());
  }

  used(upstreamIds: readonly string[]): void {
    this.#facts.used(upstreamIds);
  }

  status(): SourceStatus {
    const outcome = this.#assembled?.outcome;
    const credentials = this.#published?.credentials;
    const servers = this.#options.agent.serversStatus?.();
    const { metrics, ingress } = this.#facts.known.registration ?? {};
    return {
      ...(metrics && { metrics }),
      ...(ingress && { isGateway: true }),
      kind: "consul",
      waitingFor: this.#published
        ? []
        : outcome?.kind === "waiting"
        ? outcome.for
        : ["registration"],
      pending: this.#assembled?.pending ?? [],
      warming: this.#assembled?.warming ?? [],
      failing: joinOutage(this.#facts.watches.failing, this.#options.agent.called),
      watches: this.#facts.watches.states,
      ...(servers ? { servers } : {}),
      restored: this.#restored,
      snapshotVersion: this.#published?.version,
      certificate: credentials ? certificateStatusOf(credentials) : undefined,
    };
  }

  async fetchCertificate(request: FetchedCertificate): Promise<boolean> {
    const available = await this.#secrets.fetch(request);
    if (available && !this.#closed) this.#refresh();
    return available;
  }

  secrets(): SecretsReport {
    const { statuses, events } = this.#secrets.report();
    return { statuses, events: this.#agentEvents.with(events) };
  }

  async reload(): Promise<boolean> {
    const [isRead] = await Promise.all([this.#plugins.refresh(), this.#secrets.refresh()]);
    // What was found is on its way to being in force when this resolves.
    if (!this.#closed) this.#refresh();
    return isRead;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    this.#facts.close();
    this.#expiry.close();
    this.#plugins.close();
    await this.#secrets.close();
    await this.#keeper?.close();
  }

  get #graceMs(): number {
    return this.#options.graceMs ?? 5_000;
  }

  /** Runs `fn` after `delayMs`, once, however often it is asked for meanwhile. */
  #wake(name: "refresh" | "due" | "check" | "restore", delayMs: number, fn: () => void): void {
    if (this.#closed || this.#timers.has(name)) return;
    const timer = this.#options.clock.after(delayMs, () => {
      this.#timers.delete(name);
      if (!this.#closed) fn();
    });
    this.#timers.set(name, timer);
  }

  #refresh(): void {
    const { clock } = this.#options;
    const known = this.#facts.known;
    const { registration, leaf, roots, intentions } = known;
    if (registration) {
      this.#plan(registration);
      this.#secrets.follow(this.#plans.plans);
      this.#plugins.follow(registration.plugins);
    }
    const assembled = assemble(known, this.#memory, this.#assembleOptions());
    this.#assembled = assembled;
    this.#memory = assembled.memory;
    this.#report.warnings(this.warnings);
    this.#report.refused(assembled.refused);
    this.#timers.get("due")?.cancel();
    this.#timers.delete("due");
    if (assembled.dueMs !== undefined) {
      this.#wake("due", assembled.dueMs - clock.monotonic(), () => this.#refresh());
    }
    if (assembled.outcome.kind === "waiting") {
      const { snapshot } = this.#memory;
      if (this.#restored && !registration && snapshot) this.#serve(this.#withNews(snapshot));
      return;
    }
    if (this.#restored && leaf && roots && intentions) {
      this.#restored = false;
      this.#report.confirmed();
    }
    this.#serve(assembled.outcome.snapshot, registration);
  }

  #plan(registration: Registration): void {
    this.#plans = planRegistration(registration, this.#plans, this.#options.env ?? {});
  }

  /** The restored `snapshot` as sources of credentials have changed it, while the agent says nothing. */
  #withNews(snapshot: Snapshot): Snapshot {
    const news = withNews(snapshot, { plans: this.#plans, held: this.#secrets.held });
    this.#memory = { ...this.#memory, snapshot: news };
    return news;
  }

  #serve(snapshot: Snapshot, registration?: Registration): void {
    if (snapshot !== this.#published) this.#publish(snapshot);
    this.#keeper?.keep(snapshot, registration, this.#taken);
  }

  #publish(snapshot: Snapshot): void {
    const before = this.#published;
    const first = !before;
    this.#published = snapshot;
    this.#report.published(snapshot, { first, restored: this.#restored, ...this.#assembled });
    const { credentials } = snapshot;
    if (credentials) {
      this.#agentEvents.published(credentials);
      pinCluster(credentials, this.#options, this.proxyId);
      if (credentials !== before?.credentials) this.#expiry.watch(LEAF, credentials);
    }
    try {
      if (this.#onSnapshot) this.#taken = this.#onSnapshot(snapshot);
    } catch (error) {
      this.#taken = Promise.resolve(false);
      this.#options.log.error("snapshot not applied", { error: messageOf(error) });
    }
  }

  #assembleOptions(): AssembleOptions {
    const { clock, authorize, strictSpiffeChain, idleTimeoutMs, lifetimeMs, lastResortMs, judge } =
      this.#options;
    return {
      proxyId: this.proxyId,
      authorize: authorize ?? "match",
      strictSpiffeChain: strictSpiffeChain ?? false,
      judge: judge ?? judgeCredentials,
      nowMs: clock.now(),
      monotonicMs: clock.monotonic(),
      graceMs: this.#graceMs,
      lastResortMs: lastResortMs ?? 300_000,
      idleTimeoutMs: idleTimeoutMs ?? 3_600_000,
      lifetimeMs: lifetimeMs ?? 0,
      plans: this.#plans,
      held: this.#secrets.held,
      plugins: this.#plugins.held,
    };
  }

  #failing(failing: Failing): void {
    this.#wake("check", CHECK_MS, () => this.#check());
    if (AWAY.has(failing.code)) this.#restore();
    if (!this.#loading) this.#tell(failing);
  }

  #tell(failing: Failing): void {
    const serving = this.#published !== undefined;
    this.#report.failing(failing, this.#facts.watches.failing, { serving });
    this.#lookAtOutage();
  }

  #lookAtOutage(): void {
    this.#outage.look(this.#facts.watches.failing, { serving: this.#published !== undefined });
  }

  #check(): void {
    const { watches } = this.#facts;
    watches.check();
    if (watches.failing.length > 0) this.#wake("check", CHECK_MS, () => this.#check());
  }

  #isAway(): boolean {
    return this.#facts.watches.failing.some(({ code }) => AWAY.has(code));
  }

  /** Serves the stored snapshot, unless there is a newer one or the agent says that we are not. */
  #restore(): void {
    const stored = this.#stored;
    if (!stored || this.#published || this.#closed) return;
    // Who is told "no" must not go on with what was once allowed.
    if (this.#facts.watches.failing.some(isRefused)) return;
    this.#stored = undefined;
    const { snapshot, snapshot: { credentials } } = stored;
    if (!credentials || credentials.notAfterMs <= this.#options.clock.now()) return;
    this.#restored = true;
    const { registration } = this.#facts.known;
    if (registration) this.#plan(registration);
    else this.#plans = planStored(stored, this.#options.env ?? {});
    this.#secrets.restore(this.#plans.plans, storedSecrets(stored));
    this.#keeper?.restored(stored);
    this.#publish(this.#withNews(snapshot));
    this.#wake("refresh", COALESCE_MS, () => this.#refresh());
  }
}

/** Is it the agent's "no" to something that nothing can be served without? */
function isRefused({ watch, code }: Failing): boolean {
  return !AWAY.has(code) && /^(registration|leaf|intentions)\b/.test(watch);
}
