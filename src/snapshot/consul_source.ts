/**
 * Snapshots from the agent: collects its answers, assembles them, and publishes what changed. Bursts of
 * answers are joined; an outage leaves the last good state in place and is told once.
 *
 * @module
 */

import {
  type Clock,
  type Log,
  messageOf,
  type ProxyError,
  type Stats,
  type Timer,
} from "../base/mod.ts";
import type { Agent } from "../consul/mod.ts";
import { AgentEvents } from "./agent_events.ts";
import {
  assemble,
  type Assembled,
  type AssembleOptions,
  type Memory,
  NO_MEMORY,
} from "./assemble.ts";
import { ConsulFacts, type RegistrationSource } from "./consul_facts.ts";
import { type JudgeCredentials, judgeCredentials } from "./judge_credentials.ts";
import type { Refusal, Snapshot } from "./snapshot.ts";
import type { Failing, SnapshotSource, SourceStatus } from "./source.ts";
import { certificateStatusOf, SourceReport } from "./source_report.ts";
import { type CertificateRequest, SecretsLink, type SecretsReport } from "./secrets_link.ts";
import type { SnapshotStore } from "./store.ts";
import {
  type CredentialPlans,
  type Environment,
  NO_PLANS,
  planRegistration,
} from "./credential_plans.ts";
import { ExpiryWatch, type SecretStore } from "../secrets/mod.ts";

export interface ConsulSourceOptions {
  readonly agent: Agent;
  readonly registration: RegistrationSource;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  /** Keeps the last good snapshot over restarts. */
  readonly store?: SnapshotStore;
  readonly authorize?: "match" | "both";
  readonly strictSpiffeChain?: boolean;
  /** Prepared queries without an interval of their own; default 10 s. */
  readonly defaultQueryIntervalMs?: number;
  /** Upstream connections without a byte; default 1 h, as Envoy's. 0: never. */
  readonly idleTimeoutMs?: number;
  /** Upstream connections at all; default 0: for ever. */
  readonly lifetimeMs?: number;
  /** How long upstreams are waited for; default 5 s. */
  readonly graceMs?: number;
  /** How long the endpoints of an emptied list are kept; default 5 min. */
  readonly lastResortMs?: number;
  /** Default: the real check. */
  readonly judge?: JudgeCredentials;
  /** For listeners and upstreams with credentials of their own. */
  readonly createSecretStore: () => SecretStore;
  /** Where SPIFFE_ENDPOINT_SOCKET is looked up; default nowhere. */
  readonly env?: Environment;
}

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
]);

/** What the agent's leaf is called where certificates are watched growing old. */
const LEAF = { ref: { name: "leaf" }, source: "consul" };

export class ConsulSource implements SnapshotSource {
  readonly #options: ConsulSourceOptions;
  readonly #facts: ConsulFacts;
  readonly #report: SourceReport;
  readonly #agentEvents: AgentEvents;
  readonly #expiry: ExpiryWatch;
  readonly #timers = new Map<"refresh" | "due" | "check" | "restore", Timer>();
  #onSnapshot: ((snapshot: Snapshot) => void) | undefined;
  #onFatal: ((error: ProxyError) => void) | undefined;
  readonly #secrets: SecretsLink;
  #plans: CredentialPlans = NO_PLANS;
  #memory: Memory = NO_MEMORY;
  #assembled: Assembled | undefined;
  #published: Snapshot | undefined;
  #stored: Snapshot | undefined;
  #restored = false;
  #closed = false;

  constructor(options: ConsulSourceOptions) {
    this.#options = options;
    const { agent, clock, registration, log, stats } = options;
    this.#report = new SourceReport({ clock, log, stats });
    this.#agentEvents = new AgentEvents(clock, log);
    const scope = { source: LEAF.source };
    this.#expiry = new ExpiryWatch({ clock, log, stats, warnFraction: 1 / 3, scope });
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
      onRecovered: (failing) => this.#report.recovered(failing, this.#facts.watches.failing),
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

  start(onSnapshot: (snapshot: Snapshot) => void, onFatal?: (error: ProxyError) => void): void {
    this.#onSnapshot = onSnapshot;
    this.#onFatal = onFatal;
    this.#facts.start();
    const { store } = this.#options;
    if (!store) return;
    store.load(this.proxyId).then((snapshot) => {
      this.#stored = snapshot;
      if (this.#isAway()) this.#restore();
    }, (error) => {
      this.#options.log.warn("stored snapshot not read", { error: messageOf(error) });
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
    return {
      kind: "consul",
      waitingFor: this.#published
        ? []
        : outcome?.kind === "waiting"
        ? outcome.for
        : ["registration"],
      pending: this.#assembled?.pending ?? [],
      warming: this.#assembled?.warming ?? [],
      failing: this.#facts.watches.failing,
      watches: this.#facts.watches.states,
      restored: this.#restored,
      snapshotVersion: this.#published?.version,
      certificate: credentials ? certificateStatusOf(credentials) : undefined,
    };
  }

  async fetchCertificate(request: CertificateRequest): Promise<boolean> {
    const available = await this.#secrets.fetch(request);
    if (available && !this.#closed) this.#refresh();
    return available;
  }

  secrets(): SecretsReport {
    const { statuses, events } = this.#secrets.report();
    return { statuses, events: this.#agentEvents.with(events) };
  }

  reload(): Promise<void> {
    this.#secrets.refresh();
    return Promise.resolve();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    this.#facts.close();
    this.#expiry.close();
    await this.#secrets.close();
    await this.#options.store?.close();
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
    if (known.registration) {
      this.#plans = planRegistration(known.registration, this.#plans, this.#options.env ?? {});
      this.#secrets.follow(this.#plans.plans);
    }
    const assembled = assemble(known, this.#memory, this.#assembleOptions());
    this.#assembled = assembled;
    this.#memory = assembled.memory;
    this.#report.warnings([...known.registration?.warnings ?? [], ...this.#plans.warnings]);
    this.#report.refused(assembled.refused);
    this.#timers.get("due")?.cancel();
    this.#timers.delete("due");
    if (assembled.dueMs !== undefined) {
      this.#wake("due", assembled.dueMs - clock.monotonic(), () => this.#refresh());
    }
    if (assembled.outcome.kind === "waiting") return;
    const { leaf, roots, intentions } = known;
    if (this.#restored && leaf && roots && intentions) {
      this.#restored = false;
      this.#report.confirmed();
    }
    const { snapshot } = assembled.outcome;
    if (snapshot === this.#published) return;
    this.#publish(snapshot);
    this.#options.store?.save(snapshot);
  }

  #publish(snapshot: Snapshot): void {
    const before = this.#published;
    const first = !before;
    this.#published = snapshot;
    this.#report.published(snapshot, { first, restored: this.#restored });
    const { credentials } = snapshot;
    if (credentials) {
      this.#agentEvents.published(credentials);
      if (credentials !== before?.credentials) this.#expiry.watch(LEAF, credentials);
    }
    try {
      this.#onSnapshot?.(snapshot);
    } catch (error) {
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
    };
  }

  #failing(failing: Failing): void {
    this.#report.failing(failing, this.#facts.watches.failing);
    this.#wake("check", CHECK_MS, () => this.#check());
    if (AWAY.has(failing.code)) this.#restore();
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
    if (!stored.credentials || stored.credentials.notAfterMs <= this.#options.clock.now()) return;
    this.#restored = true;
    this.#memory = { ...this.#memory, snapshot: stored };
    this.#publish(stored);
    this.#wake("refresh", COALESCE_MS, () => this.#refresh());
  }
}

/** Is it the agent's "no" to something that nothing can be served without? */
function isRefused({ watch, code }: Failing): boolean {
  return !AWAY.has(code) && /^(registration|leaf|intentions)\b/.test(watch);
}
