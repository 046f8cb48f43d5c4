/** Keeps a plugin's stray promises and timers from ending the thread when they fail. @module */

import process from "node:process";
import { type Log, messageOf, type Stats } from "../../base/mod.ts";
import type { SnapshotUpdate } from "../../snapshot/mod.ts";

const LOG_EVERY_MS = 1_000;

export class FailureContainer {
  readonly #options: { readonly log: Log; readonly stats: Stats; readonly nowMs: () => number };
  #isOn = false;
  #loggedMs = -Infinity;
  #suppressed = 0;

  constructor(options: { readonly log: Log; readonly stats: Stats; readonly nowMs: () => number }) {
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
    const { log, stats, nowMs } = this.#options;
    const help =
      "Errors in a thread with plugins that no request waited for; the log names the place";
    stats.counter("plugin_loose_failures_total", help).add(1);
    const now = nowMs();
    if (now - this.#loggedMs < LOG_EVERY_MS) return void this.#suppressed++;
    const place = error instanceof Error ? error.stack?.match(/^\s*at .*/m)?.[0].trim() : undefined;
    const more = this.#suppressed || undefined;
    const fields = { reason: messageOf(error), place, more };
    log.error("a failure that nobody waited for, likely a plugin's", fields);
    this.#loggedMs = now;
    this.#suppressed = 0;
  }
}
