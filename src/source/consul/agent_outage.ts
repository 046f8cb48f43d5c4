/**
 * An agent that cannot be reached fails every watch at once: that is one trouble, told once when it
 * begins and once when all watches have come through it.
 *
 * @module
 */

import type { Clock, ErrorCode, Log } from "../../base/mod.ts";
import type { Failing } from "../source.ts";

export interface AgentOutageOptions {
  /** As {@link Agent.called} has it. */
  readonly called: string;
  readonly clock: Clock;
  readonly log: Log;
  /** For what happened lately. */
  readonly onEvent: (kind: "unreachable" | "recovered", detail: string) => void;
}

export class AgentOutage {
  readonly #options: AgentOutageOptions;
  #sinceMs: number | undefined;
  #told: ErrorCode | undefined;

  constructor(options: AgentOutageOptions) {
    this.#options = options;
  }

  /** `failing` are all that fail now. `serving`: there is a last good state. */
  look(failing: readonly Failing[], { serving }: { readonly serving: boolean }): void {
    const { called, clock, log, onEvent } = this.#options;
    const outage = gravest(failing);
    if (outage && outage.code !== this.#told) {
      this.#sinceMs ??= outage.sinceMs;
      // A foreign cluster that is restarted is the same trouble.
      const isNews = this.#told !== "cluster_changed";
      if (!isNews) return;
      this.#told = outage.code;
      const fields = { code: outage.code, error: outage.message };
      const what = serving ? "last good state stays" : "nothing can be served yet";
      if (outage.code === "cluster_changed") {
        log.error(`${called} belongs to another cluster, ${what}`, fields);
      } else log.warn(`${called} not reached, ${what}`, fields);
      onEvent("unreachable", outage.message);
    } else if (!outage && this.#sinceMs !== undefined) {
      const after_ms = clock.now() - this.#sinceMs;
      this.#sinceMs = this.#told = undefined;
      log.info(`${called} reached again`, { after_ms });
      onEvent("recovered", `after ${after_ms} ms`);
    }
  }
}

export function isOutage({ code }: Failing): boolean {
  return code === "agent_unreachable" || code === "cluster_changed";
}

/** Of an agent that is away and one of another cluster, the second is the graver trouble. */
function gravest(failing: readonly Failing[]): Failing | undefined {
  return failing.find(({ code }) => code === "cluster_changed") ?? failing.find(isOutage);
}

/** For people: several watches that an outage makes fail are one. */
export function joinOutage(failing: readonly Failing[], called: string): readonly Failing[] {
  const lost = failing.filter(isOutage);
  const outage = gravest(lost);
  if (!outage || lost.length === 1) return failing;
  const sinceMs = Math.min(...lost.map((one) => one.sinceMs));
  return [{ ...outage, watch: called, sinceMs }, ...failing.filter((one) => !isOutage(one))];
}
