/**
 * Snapshots from a file, without Consul. The configuration is read at the start and when `reload()`
 * asks; what is wrong then is refused as a whole and the last good state stays. The secrets it names
 * are followed all the time.
 *
 * @module
 */

import { type Clock, type Log, messageOf, ProxyError, type Stats } from "../../base/mod.ts";
import { keySalt, type SecretStore } from "../../secrets/mod.ts";
import type { EnvironmentVariables } from "../shell/credential_plans.ts";
import { type FileConfig, readFileConfig } from "./file_config.ts";
import { type FileSnapshot, fileSnapshot } from "./file_snapshot.ts";
import { type FetchedCertificate, SecretsLink, type SecretsReport } from "../shell/secrets_link.ts";
import type { PluginWatch } from "../plugins/plugin_watch.ts";
import type { Refusal, Snapshot } from "../../snapshot/mod.ts";
import type { SnapshotSource, SourceStatus, TakeSnapshot } from "../shell/source.ts";
import { certificateStatusOf, SourceReport } from "../shell/source_report.ts";
import type { SnapshotStore } from "../state/store.ts";
import { storedSecrets } from "../state/stored_credentials.ts";

export interface FileSourceOptions {
  readonly file: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly createSecretStore: () => SecretStore;
  /** For the secrets that servers gave; default nowhere. */
  readonly store?: SnapshotStore;
  /** Where SPIFFE_ENDPOINT_SOCKET is looked up; default nowhere. */
  readonly env?: EnvironmentVariables;
  /** Absent: changed files of plugins count from the next reload. */
  readonly pluginWatch?: PluginWatch | undefined;
  readonly strictSpiffeChain?: boolean;
  /** Upstream connections without a byte; default 1 h. 0: never. */
  readonly idleTimeoutMs?: number;
  /** Upstream connections at all; default 0: for ever. */
  readonly lifetimeMs?: number;
}

export class FileSource implements SnapshotSource {
  readonly #options: FileSourceOptions;
  readonly #report: SourceReport;
  readonly #secrets: SecretsLink;
  #onSnapshot: TakeSnapshot | undefined;
  #config: FileConfig | undefined;
  #made: FileSnapshot | undefined;
  #snapshot: Snapshot | undefined;
  /** Why the file as it is now is not in force. */
  #refused: readonly Refusal[] = [];
  #reading: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: FileSourceOptions) {
    this.#options = options;
    this.#report = new SourceReport(options);
    this.#secrets = new SecretsLink(options.createSecretStore, () => this.#publish());
  }

  get warnings(): readonly string[] {
    return this.#config?.credentials.plans.warnings ?? [];
  }

  get refused(): readonly Refusal[] {
    return [...this.#refused, ...this.#made?.refused ?? [], ...this.#secrets.refusals()];
  }

  start(onSnapshot: TakeSnapshot, onFatal?: (error: ProxyError) => void): void {
    this.#onSnapshot = onSnapshot;
    const { pluginWatch, log } = this.#options;
    pluginWatch?.start(() => {
      log.info("a plugin's file changed");
      void this.reload();
    });
    this.#enqueue((error) => onFatal?.(error));
  }

  async reload(): Promise<boolean> {
    await this.#secrets.refresh();
    let isRead = true;
    await this.#enqueue((error) => {
      isRead = false;
      this.#refused = [{ what: "configuration file", reason: error.message }];
      this.#tellRefused();
    });
    return isRead;
  }

  async fetchCertificate(request: FetchedCertificate): Promise<boolean> {
    const available = await this.#secrets.fetch(request);
    if (available) this.#publish();
    return available;
  }

  /** A key that is not known is an error here. */
  unfollowed(): readonly string[] {
    return [];
  }

  secrets(): SecretsReport {
    return this.#secrets.report();
  }

  used(): void {}

  status(): SourceStatus {
    const credentials = this.#snapshot?.credentials;
    return {
      kind: "file",
      waitingFor: this.#snapshot ? [] : ["configuration file"],
      pending: [],
      warming: this.#made?.warming ?? [],
      failing: [],
      watches: [],
      restored: false,
      snapshotVersion: this.#snapshot?.version,
      certificate: credentials ? certificateStatusOf(credentials) : undefined,
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#options.pluginWatch?.close();
    await this.#reading;
    await this.#secrets.close();
    await this.#options.store?.close();
  }

  /** One after the other: two reloads at once must not publish in the wrong order. */
  #enqueue(onError: (error: ProxyError) => void): Promise<void> {
    this.#reading = this.#reading.then(async () => {
      try {
        if (!this.#closed) await this.#read();
      } catch (error) {
        onError(
          error instanceof ProxyError
            ? error
            : new ProxyError("internal", messageOf(error), { cause: error }),
        );
      }
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const { file, env = {}, log, store, pluginWatch } = this.#options;
    const config = await readFileConfig(file, { env, pluginWatch });
    if (this.#closed) return;
    this.#config = config;
    this.#refused = [];
    const { plans, warnings } = config.credentials.plans;
    for (const warning of warnings) log.warn("configuration", { file, warning });
    const stored = this.#snapshot ? undefined : await store?.load(config.service);
    if (this.#closed) return;
    if (stored) this.#secrets.restore(plans, storedSecrets(stored));
    else this.#secrets.follow(plans);
    this.#publish();
  }

  /** What is configured and held now, where it differs from what was published last. */
  #publish(): void {
    const config = this.#config;
    if (!config || this.#closed) return;
    const { clock, strictSpiffeChain, idleTimeoutMs, lifetimeMs } = this.#options;
    const made = this.#made = fileSnapshot(config, {
      held: this.#secrets.held,
      nowMs: clock.now(),
      previous: this.#snapshot,
      options: {
        strictSpiffeChain: strictSpiffeChain ?? false,
        idleTimeoutMs: idleTimeoutMs ?? 3_600_000,
        lifetimeMs: lifetimeMs ?? 0,
      },
    });
    this.#tellRefused();
    if (made.snapshot === this.#snapshot) return;
    const first = !this.#snapshot;
    this.#snapshot = made.snapshot;
    this.#report.published(made.snapshot, { first, restored: false, ...made });
    void this.#onSnapshot?.(made.snapshot).then((isTaken) => {
      if (isTaken) this.#keep(made.snapshot);
    });
  }

  /** The file says itself what is served: of the state only the secrets are used. */
  #keep(snapshot: Snapshot): void {
    const registration = { id: snapshot.proxyId, service: snapshot.service, upstreams: [] };
    this.#options.store?.save({ snapshot, credentials: { salt: keySalt(), registration } });
  }

  /** Faults of secrets are told by those who follow them. */
  #tellRefused(): void {
    this.#report.refused([...this.#refused, ...this.#made?.refused ?? []]);
  }
}
