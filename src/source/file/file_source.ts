/**
 * Snapshots from a file, without Consul. The configuration is read at the start and on every reload; a
 * file with a mistake is refused as a whole and the last good state stays, and plugins whose files cannot
 * be used are refused for their listener. The secrets that it names are followed all the time.
 *
 * @module
 */

import { messageOf, ProxyError } from "../../base/mod.ts";
import { keySalt, type StoredSecrets } from "../../secrets/mod.ts";
import type { Refusal } from "../../snapshot/mod.ts";
import {
  type FactsReader,
  type MadeSnapshot,
  type MakeContext,
  type ReaderEvents,
  type ReaderStatus,
  waiting,
} from "../shell/facts_reader.ts";
import { type SourceOptions, SourceShell } from "../shell/source_shell.ts";
import { storedSecrets } from "../state/stored_credentials.ts";
import { type FileConfig, readFileConfig } from "./file_config.ts";
import { fileSnapshot } from "./file_snapshot.ts";

/** Only the secrets of a stored state are used: the file has the rest. */
export interface FileSourceOptions extends SourceOptions {
  readonly file: string;
}

export class FileSource extends SourceShell {
  constructor(options: FileSourceOptions) {
    super(options, new FileConfigReader(options));
  }
}

class FileConfigReader implements FactsReader {
  readonly called = "configuration file";
  readonly firstPart = "configuration file";
  readonly failing = [];
  readonly #options: FileSourceOptions;
  #config: FileConfig | undefined;
  /** Secrets of an earlier run that are not followed yet. */
  #stored: StoredSecrets | undefined;
  /** Why the file as it is now is not in force. */
  #refused: readonly Refusal[] = [];
  #reading: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: FileSourceOptions) {
    this.#options = options;
  }

  get warnings(): readonly string[] {
    return this.#config?.credentials.plans.warnings ?? [];
  }

  start(events: ReaderEvents): void {
    const { pluginWatch, log } = this.#options;
    pluginWatch?.start(() => {
      log.info("a plugin's file changed");
      events.reload();
    });
    void this.#enqueue((error) => events.fatal(error)).then(() => events.changed());
  }

  async reload(): Promise<boolean> {
    let isRead = true;
    await this.#enqueue((error) => {
      isRead = false;
      this.#refused = [{ what: "configuration file", reason: error.message }];
    });
    return isRead && this.#refused.length === 0;
  }

  make({ previous, hold }: MakeContext): MadeSnapshot {
    const config = this.#config;
    const stored = this.#stored;
    this.#stored = undefined;
    if (!config) return waiting([this.firstPart], this.#refused);
    const { clock, strictSpiffeChain = false, idleTimeoutMs = 3_600_000, lifetimeMs = 0 } =
      this.#options;
    const made = fileSnapshot(config, {
      held: hold(config.credentials.plans, stored),
      nowMs: clock.now(),
      previous,
      strictSpiffeChain,
      idleTimeoutMs,
      lifetimeMs,
      tracing: this.#options.tracing,
      telemetry: this.#options.telemetry,
    });
    const { service } = config;
    return {
      ...made,
      refused: [...this.#refused, ...made.refused],
      credentials: { salt: keySalt(), registration: { id: service, service, upstreams: [] } },
    };
  }

  status(): ReaderStatus {
    return { kind: "file", watches: [] };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#options.pluginWatch?.close();
    await this.#reading;
  }

  /** One after the other: two reloads at once must not publish in the wrong order. */
  #enqueue(onError: (error: ProxyError) => void): Promise<void> {
    this.#reading = this.#reading.then(async () => {
      try {
        if (!this.#closed) await this.#read();
      } catch (error) {
        const isKnown = error instanceof ProxyError;
        onError(isKnown ? error : new ProxyError("internal", messageOf(error), { cause: error }));
      }
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const { file, env = {}, log, store, pluginWatch } = this.#options;
    const config = await readFileConfig(file, { env, pluginWatch, previous: this.#config });
    if (!this.#config) {
      const stored = await store?.load(config.service);
      this.#stored = stored && storedSecrets(stored);
    }
    if (this.#closed) return;
    this.#config = config;
    this.#refused = config.refused ?? [];
    for (const warning of this.warnings) log.warn("configuration", { file, warning });
  }
}
