/**
 * Limits concurrent retries to a share of the active requests, like Envoy's retry budget, so that retries do
 * not multiply the load of a failing upstream.
 *
 * @module
 */

import type { Host } from "../../src/plugin/api.ts";

export class Budget {
  readonly #share: number;
  readonly #minimum: number;
  #requests = 0;
  #retries = 0;

  constructor({ percent, minimum }: { readonly percent: number; readonly minimum: number }) {
    this.#share = percent / 100;
    this.#minimum = minimum;
  }

  requestBegins(): void {
    this.#requests++;
  }

  requestEnds(): void {
    this.#requests--;
  }

  /** False: the budget is used up. Otherwise the caller gives the retry back once. */
  take(): boolean {
    if (this.#retries >= Math.max(this.#minimum, Math.floor(this.#requests * this.#share))) {
      return false;
    }
    this.#retries++;
    return true;
  }

  giveBack(): void {
    this.#retries--;
  }
}

/** Without a refused retry for so long, the budget has room again. */
const QUIET_MS = 10_000;

/** Tells operators while the budget refuses retries, and at the end how many. */
export class UsedUp {
  readonly #host: Pick<Host, "condition" | "clock" | "signal" | "listener">;
  #refused = 0;

  constructor(host: Pick<Host, "condition" | "clock" | "signal" | "listener">) {
    this.#host = host;
  }

  refused(): void {
    if (this.#refused++ === 0) void this.#untilQuiet();
  }

  async #untilQuiet(): Promise<void> {
    const { clock, signal, listener } = this.#host;
    const end = this.#host.condition({
      key: "retry budget",
      text: `retries of ${listener} are refused: the retry budget is used up`,
    });
    const ended = () => end(`retries of ${listener} are allowed again`, this.#refused);
    // Afterwards the host of a closed plugin reports nothing.
    signal.addEventListener("abort", ended);
    for (let seen = 0; seen < this.#refused && !signal.aborted;) {
      seen = this.#refused;
      await clock.sleep(QUIET_MS, signal);
    }
    signal.removeEventListener("abort", ended);
    ended();
    this.#refused = 0;
  }
}
