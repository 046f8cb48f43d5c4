/**
 * Log lines of an agent's outage. An agent that cannot be reached fails every watch at once: it is
 * reported once when that begins, and once when all watches work again.
 * @module
 */

import type { Clock, ErrorCode, Log } from "../../base/mod.ts";
import type { Failing, SourceStatus } from "./source.ts";

interface AgentOutageOptions {
  /** As {@link Agent.called} has it. */
  readonly called: string;
  readonly clock: Clock;
  readonly log: Log;
  /** For the list of events. */
  readonly onEvent: (kind: "unreachable" | "recovered", detail: string) => void;
}

export class AgentOutage {
  readonly #options: AgentOutageOptions;
  #sinceMs: number | undefined;
  #reported: ErrorCode | undefined;

  constructor(options: AgentOutageOptions) {
    this.#options = options;
  }

  /** `failing`: all watches that fail now. `serving`: there is a last good state. */
  look(failing: readonly Failing[], { serving }: { readonly serving: boolean }): void {
    const { called, clock, log, onEvent } = this.#options;
    const outage = gravest(failing);
    if (outage && outage.code !== this.#reported) {
      this.#sinceMs ??= outage.sinceMs;
      // A foreign cluster that is restarted is the same failure.
      const isNews = this.#reported !== "cluster_changed";
      if (!isNews) return;
      this.#reported = outage.code;
      const fields = { code: outage.code, error: outage.message };
      const what = serving ? "last good state stays" : "nothing can be served yet";
      if (outage.code === "cluster_changed") {
        log.error(`${called} belongs to another cluster, ${what}`, fields);
      } else log.warn(`${called} not reached, ${what}`, fields);
      onEvent("unreachable", outage.message);
    } else if (!outage && this.#sinceMs !== undefined) {
      const after_ms = clock.now() - this.#sinceMs;
      this.#sinceMs = this.#reported = undefined;
      log.info(`${called} reached again`, { after_ms });
      onEvent("recovered", `after ${after_ms} ms`);
    }
  }
}

export function isOutage({ code }: Failing): boolean {
  return code === "agent_unreachable" || code === "cluster_changed";
}

/** Another cluster is a graver failure than an agent that is away. */
function gravest(failing: readonly Failing[]): Failing | undefined {
  return failing.find(({ code }) => code === "cluster_changed") ?? failing.find(isOutage);
}

/** `failing` with one entry in place of all watches that the outage makes fail. */
export function joinOutage(failing: readonly Failing[], called: string): readonly Failing[] {
  const lost = failing.filter(isOutage);
  const outage = gravest(lost);
  if (!outage || lost.length === 1) return failing;
  const sinceMs = Math.min(...lost.map((one) => one.sinceMs));
  return [{ ...outage, watch: called, sinceMs }, ...failing.filter((one) => !isOutage(one))];
}

/** An outage is one of them; more than these are failures of single watches. */
const SHOWN = 20;

/** Failures that hide changes from the source, with their start and reason, a sentence each: for `/ready`. */
export function troublesOf({ failing, servers }: SourceStatus): readonly string[] {
  const sentences = failing.slice(0, SHOWN).map((one) => sentenceOf(one, servers !== undefined));
  const more = failing.length - sentences.length;
  if (more > 0) sentences.push(`and ${more} more, see /config_dump`);
  // While a server is still searched no watch has failed.
  if (servers && servers.server === "" && servers.lastFailure && !failing.some(isOutage)) {
    sentences.unshift(`no Consul server is in use: ${servers.lastFailure}`);
  }
  return sentences;
}

function sentenceOf({ watch, code, message, sinceMs }: Failing, isServers: boolean): string {
  const since = new Date(sinceMs).toISOString();
  const who = isServers ? "Consul" : "the agent";
  switch (code) {
    case "agent_unreachable":
      return `${who} not reached since ${since}: ${message}`;
    case "cluster_changed":
      return `another cluster answers since ${since}: ${message}`;
    default:
      return `${watch} not read since ${since}: ${message}`;
  }
}
