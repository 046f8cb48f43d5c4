/**
 * The part that all snapshot sources share. It follows secrets, joins bursts of changes, publishes what
 * changed, reports it, stores it, and restores it. A reader of facts makes the snapshots.
 *
 * @module
 */

import {
  type Clock,
  type Log,
  messageOf,
  type ProxyError,
  type ReportEvent,
  type Stats,
  type Timer,
} from "../../base/mod.ts";
import {
  type HeldSecrets,
  keySalt,
  type SecretStore,
  type StoredSecrets,
} from "../../secrets/mod.ts";
import {
  type Refusal,
  sameContent,
  type Snapshot,
  type TelemetryChoice,
  type TracingChoice,
} from "../../snapshot/mod.ts";
import {
  type CredentialPlans,
  type EnvironmentVariables,
  NO_PLANS,
} from "../parts/credential_plans.ts";
import type { PluginWatch } from "../plugins/plugin_watch.ts";
import type { SnapshotStore } from "../state/store.ts";
import {
  type StoredCredentials,
  storedSecrets,
  type StoredState,
  withNews,
} from "../state/stored_credentials.ts";
import { certificateStatusOf, type FailingNow, joinOutage, SourceReport } from "./source_report.ts";
import { type FactsReader, type MadeSnapshot, type Restoring, waiting } from "./facts_reader.ts";
import { type FetchedCertificate, SecretsLink, type SecretsReport } from "./secrets_link.ts";
import type { Failing, SnapshotSource, SourceStatus, TakeSnapshot } from "./source.ts";

/** Changes that come within this time are made into one snapshot. */
const COALESCE_MS = 3;

export interface SourceOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  /** Takes the events of the source and of its secrets; absent: they are dropped. */
  readonly report?: ReportEvent;
  /** Keeps the last good state over restarts. */
  readonly store?: SnapshotStore;
  /** For listeners and upstreams with credentials of their own. */
  readonly createSecretStore: () => SecretStore;
  /** Where SPIFFE_ENDPOINT_SOCKET is looked up; default nowhere. */
  readonly env?: EnvironmentVariables;
  /** Absent: changed files of plugins count from the next reload. */
  readonly pluginWatch?: PluginWatch | undefined;
  readonly strictSpiffeChain?: boolean;
  /** Tracing as the process was started; it counts before the configuration. Absent: the configuration's. */
  readonly tracing?: TracingChoice | undefined;
  readonly telemetry?: TelemetryChoice | undefined;
  /** Upstream connections without a byte; default 1 h, as Envoy's. 0: never. */
  readonly idleTimeoutMs?: number;
  /** Upstream connections at all; default 0: for ever. */
  readonly lifetimeMs?: number;
}

type TimerName = "refresh" | "due" | "restore";

export class SourceShell implements SnapshotSource {
  readonly #options: SourceOptions;
  readonly #reader: FactsReader;
  readonly #report: SourceReport;
  readonly #secrets: SecretsLink;
  readonly #timers = new Map<TimerName, Timer>();
  #onSnapshot: TakeSnapshot | undefined;
  #plans = NO_PLANS;
  #made: MadeSnapshot;
  #published: Snapshot | undefined;
  /** The state in force after {@link SourceShell.#published}; `undefined`: it is refused. */
  #taken = Promise.resolve<Snapshot | undefined>(undefined);
  /** Read from the store and not used yet. */
  #stored: StoredState | undefined;
  /** The store has not answered yet. */
  #loading = false;
  #restored = false;
  /** Saved, or to be saved when its snapshot is in force. */
  #saved: StoredState | undefined;
  #credentials: StoredCredentials | null = null;
  #closed = false;

  constructor(options: SourceOptions, reader: FactsReader) {
    const { called } = reader;
    this.#options = options;
    this.#reader = reader;
    this.#made = waiting([reader.firstPart], []);
    this.#report = new SourceReport({ ...options, called });
    this.#secrets = new SecretsLink(options.createSecretStore, () => this.#wake("refresh", 0));
  }

  get refused(): readonly Refusal[] {
    return [...this.#made.refused, ...this.#secrets.refusals()];
  }

  get warnings(): readonly string[] {
    return this.#reader.warnings;
  }

  unfollowed(upstream: string | undefined): readonly string[] {
    return this.#reader.unfollowed?.(upstream) ?? [];
  }

  start(onSnapshot: TakeSnapshot, onFatal?: (error: ProxyError) => void): void {
    this.#onSnapshot = onSnapshot;
    this.#reader.start({
      changed: () => this.#wake("refresh", COALESCE_MS),
      failing: (failing) => this.#failing(failing),
      recovered: (failing) => this.#report.recovered(failing, this.#failingNow),
      fatal: (error) => onFatal?.(error),
      reload: () => void this.reload(),
    });
    const { restoring } = this.#reader;
    const { store } = this.#options;
    if (restoring && store) this.#load(restoring, store);
  }

  used(upstreamIds: readonly string[]): void {
    this.#reader.used?.(upstreamIds);
  }

  status(): SourceStatus {
    const { outcome, pending, warming } = this.#made;
    const { credentials, version } = this.#published ?? {};
    return {
      ...this.#reader.status(),
      waitingFor: this.#published || outcome.kind === "ready" ? [] : outcome.for,
      pending,
      warming,
      failing: joinOutage(this.#reader.failing, this.#reader.called),
      restored: this.#restored,
      snapshotVersion: version,
      certificate: credentials ? certificateStatusOf(credentials) : undefined,
    };
  }

  async fetchCertificate(request: FetchedCertificate): Promise<boolean> {
    const available = await this.#secrets.fetch(request);
    if (available) this.#refresh();
    return available;
  }

  secrets(): SecretsReport {
    return this.#secrets.report();
  }

  async reload(): Promise<boolean> {
    await this.#secrets.refresh();
    const isRead = await this.#reader.reload();
    this.#refresh();
    return isRead;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    await this.#reader.close();
    await this.#secrets.close();
    await this.#options.store?.close();
  }

  /** Runs one of the timers' work after `delayMs`. A timer that runs already stays as it is. */
  #wake(name: TimerName, delayMs: number): void {
    if (this.#closed || this.#timers.has(name)) return;
    const timer = this.#options.clock.after(delayMs, () => {
      this.#timers.delete(name);
      if (name === "restore") this.#restore();
      else this.#refresh();
    });
    this.#timers.set(name, timer);
  }

  /** Makes a snapshot of the present facts and secrets, and publishes it if it differs from the last. */
  #refresh(): void {
    if (this.#closed) return;
    const previous = this.#published;
    const made = this.#made = this.#reader.make({
      previous,
      hold: (plans, stored) => this.#hold(plans, stored),
    });
    const { outcome, dueMs, credentials } = made;
    if (made.warnings) this.#report.warnings(made.warnings);
    this.#report.refused(made.refused);
    this.#timers.get("due")?.cancel();
    this.#timers.delete("due");
    if (dueMs !== undefined) this.#wake("due", dueMs - this.#options.clock.monotonic());
    if (outcome.kind === "waiting") {
      // Sources of secrets change a restored snapshot while the configuration is not read.
      const isRestored = this.#restored && credentials === undefined;
      const secrets = { plans: this.#plans, held: this.#secrets.held };
      if (isRestored && previous) this.#serve(withNews(previous, secrets));
      return;
    }
    if (this.#restored && made.isConfirmed) {
      this.#restored = false;
      this.#report.confirmed();
    }
    this.#serve(outcome.snapshot, credentials);
  }

  #hold(plans: CredentialPlans, stored: StoredSecrets | undefined): HeldSecrets {
    this.#plans = plans;
    if (stored) this.#secrets.restore(plans.plans, stored);
    else this.#secrets.follow(plans.plans);
    return this.#secrets.held;
  }

  #serve(snapshot: Snapshot, credentials?: StoredCredentials | null): void {
    if (snapshot !== this.#published) this.#publish(snapshot);
    this.#keep(snapshot, credentials);
  }

  #publish(snapshot: Snapshot): void {
    const before = this.#published;
    this.#published = snapshot;
    this.#report.published(snapshot, { first: !before, restored: this.#restored, ...this.#made });
    this.#reader.published?.(snapshot, before);
    try {
      if (this.#onSnapshot) this.#taken = this.#onSnapshot(snapshot);
    } catch (error) {
      this.#taken = Promise.resolve(undefined);
      this.#options.log.error("snapshot not applied", { error: messageOf(error) });
    }
  }

  /** Stores a new state once its snapshot is in force: a refused one would be refused after a restart. */
  #keep(snapshot: Snapshot, credentials: StoredCredentials | null | undefined): void {
    const { store } = this.#options;
    if (!store) return;
    if (credentials !== undefined && !sameContent(credentials, this.#credentials)) {
      this.#credentials = credentials;
    }
    const kept = this.#credentials ?? undefined;
    if (this.#saved?.snapshot === snapshot && this.#saved.credentials === kept) return;
    const state = this.#saved = { snapshot, ...(kept && { credentials: kept }) };
    void this.#taken.then((inForce) => {
      if (inForce) store.save({ ...state, snapshot: inForce });
    });
  }

  retried(inForce: Snapshot): void {
    if (this.#saved) this.#options.store?.save({ ...this.#saved, snapshot: inForce });
  }

  #failing(failing: Failing): void {
    if (this.#reader.restoring?.isAway(failing)) this.#restore();
    if (!this.#loading) this.#report.failing(failing, this.#failingNow);
  }

  get #failingNow(): FailingNow {
    return { all: this.#reader.failing, serving: this.#published !== undefined };
  }

  #load(restoring: Restoring, store: SnapshotStore): void {
    this.#loading = true;
    store.load(restoring.proxyId).then((state) => {
      this.#stored = state;
      if (this.#reader.failing.some(restoring.isAway)) this.#restore();
    }, (error) => {
      this.#options.log.warn("stored snapshot not read", { error: messageOf(error) });
    }).finally(() => {
      this.#loading = false;
      // Before the store has answered it is open whether anything can be served.
      const now = this.#failingNow;
      for (const failing of now.all) this.#report.failing(failing, now);
    });
    // A peer that neither answers nor refuses is away as well.
    this.#wake("restore", restoring.graceMs);
  }

  /** Serves the stored snapshot unless there is a newer one or the peer refuses this proxy. */
  #restore(): void {
    const { restoring, failing } = this.#reader;
    const stored = this.#stored;
    if (!restoring || !stored || this.#published || this.#closed) return;
    // A proxy that is refused must not go on with what was once allowed.
    if (failing.some(restoring.isRefused)) return;
    this.#stored = undefined;
    const { snapshot, snapshot: { credentials } } = stored;
    if (!credentials || credentials.notAfterMs <= this.#options.clock.now()) return;
    this.#restored = true;
    const plans = restoring.plan(stored);
    const held = this.#hold(plans, storedSecrets(stored));
    this.#saved = stored;
    // Keys of secrets that came since are made with this process's salt.
    this.#credentials = stored.credentials ? { ...stored.credentials, salt: keySalt() } : null;
    this.#publish(withNews(snapshot, { plans, held }));
    this.#wake("refresh", COALESCE_MS);
  }
}
