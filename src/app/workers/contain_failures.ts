/** Keeps a plugin's stray promises and timers from ending the thread when they fail. @module */

import process from "node:process";
import { type Log, type Stats } from "../../base/mod.ts";
import { faultOf, placeOf, pluginOf } from "../../plugin/mod.ts";
import type { SnapshotUpdate } from "../../snapshot/mod.ts";

const LOG_EVERY_MS = 1_000;

interface FailureContainerOptions {
  readonly log: Log;
  readonly stats: Stats;
  readonly nowMs: () => number;
  /** Called with each failure whose plugin is known. */
  readonly onFailure?: (plugin: string, reason: string) => void;
}

export class FailureContainer {
  readonly #options: FailureContainerOptions;
  #isOn = false;
  #loggedMs = -Infinity;
  #suppressed = 0;

  constructor(options: FailureContainerOptions) {
    this.#options = options;
  }

  /** Called before the plugins of a snapshot are created. */
  expect({ inbound, upstreams, edges }: SnapshotUpdate): void {
    const parts = Object.values({ ...inbound, ...upstreams, ...edges });
    if (this.#isOn || !parts.some((part) => part && part.plugins.length > 0)) return;
    this.#isOn = true;
    const failed = (error: unknown) => this.failed(error);
    process.on("unhandledRejection", failed);
    process.on("uncaughtException", failed);
  }

  failed(error: unknown): void {
    const { log, stats, nowMs, onFailure } = this.#options;
    const plugin = pluginOf(error);
    const reason = faultOf(error);
    const help =
      "Errors of promises and timers in a thread with plugins that nothing waited for; " +
      "the label is empty where the plugin is not known";
    stats.counter("plugin_loose_failures_total", help, { plugin: plugin ?? "" }).add(1);
    if (plugin !== undefined) onFailure?.(plugin, reason);
    const now = nowMs();
    if (now - this.#loggedMs < LOG_EVERY_MS) return void this.#suppressed++;
    // The reason has the line of a plugin's own file.
    const isPlaced = placeOf(error) !== undefined;
    const stack = error instanceof Error && !isPlaced ? error.stack : undefined;
    const place = stack?.match(/^\s*at .*/m)?.[0].trim();
    const more = this.#suppressed || undefined;
    const whose = isPlaced ? "of a plugin" : "that is likely a plugin's";
    log.error(`a promise or timer ${whose} failed, and nothing waited for it`, {
      plugin,
      reason,
      place,
      more,
    });
    this.#loggedMs = now;
    this.#suppressed = 0;
  }
}
