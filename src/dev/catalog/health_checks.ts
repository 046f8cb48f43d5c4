/**
 * Runs the checks of the agent's services: TTLs that expire, TCP and HTTP checks at their interval, and
 * aliases that follow another service. Results go to `report`; nothing here knows the catalog.
 *
 * @module
 */

import { type Clock, messageOf, type Timer } from "../../base/mod.ts";
import type { Engine } from "../../net/mod.ts";
import type { Status } from "./records.ts";
import type { CheckDefinition } from "./check_definition.ts";

/** How a check of some kind is probed; resolves with the text to show, rejects when it fails. */
export interface Probes {
  tcp(host: string, port: number, timeoutMs: number): Promise<string>;
  http(url: string, timeoutMs: number): Promise<string>;
}

export interface HealthCheckOptions {
  readonly clock: Clock;
  readonly probes: Probes;
  /** A check's result, also an unchanged one. */
  readonly report: (check: CheckDefinition, status: Status, output: string) => void;
}

interface Running {
  readonly check: CheckDefinition;
  timer: Timer | undefined;
  stopped: boolean;
}

export class HealthChecks {
  readonly #options: HealthCheckOptions;
  readonly #running = new Map<string, Running>();

  constructor(options: HealthCheckOptions) {
    this.#options = options;
  }

  /** Starts a check, replacing one of the same id. */
  start(check: CheckDefinition): void {
    this.stop(check.id);
    const running: Running = { check, timer: undefined, stopped: false };
    this.#running.set(check.id, running);
    switch (check.kind.kind) {
      case "ttl":
        this.#expire(running, check.kind.ttlMs);
        break;
      case "tcp":
      case "http":
        this.#probe(running);
        break;
      case "alias":
        break;
      default:
        check.kind satisfies never;
    }
  }

  stop(checkId: string): void {
    const running = this.#running.get(checkId);
    if (!running) return;
    running.stopped = true;
    running.timer?.cancel();
    this.#running.delete(checkId);
  }

  stopAll(): void {
    for (const id of [...this.#running.keys()]) this.stop(id);
  }

  /** Aliases of a service, to be judged again by the caller. */
  aliasesOf(serviceId: string): readonly CheckDefinition[] {
    return [...this.#running.values()].map((running) => running.check)
      .filter((check) => check.kind.kind === "alias" && check.kind.serviceId === serviceId);
  }

  /** A heartbeat; the check runs out again after its TTL. False where the check has none. */
  beat(checkId: string, status: Status, output: string): boolean {
    const running = this.#running.get(checkId);
    if (!running || running.check.kind.kind !== "ttl") return false;
    this.#expire(running, running.check.kind.ttlMs);
    this.#options.report(running.check, status, output);
    return true;
  }

  #expire(running: Running, ttlMs: number): void {
    running.timer?.cancel();
    running.timer = this.#options.clock.after(ttlMs, () => {
      this.#options.report(running.check, "critical", "TTL expired");
    });
  }

  #probe(running: Running): void {
    const { clock, probes, report } = this.#options;
    const { check } = running;
    const run = check.kind.kind === "tcp"
      ? probes.tcp(check.kind.host, check.kind.port, check.timeoutMs)
      : check.kind.kind === "http"
      ? probes.http(check.kind.url, check.timeoutMs)
      : Promise.resolve("");
    const finish = (status: Status, output: string) => {
      if (running.stopped) return;
      report(check, status, output);
      running.timer = clock.after(check.intervalMs, () => this.#probe(running));
    };
    run.then(
      (output) => finish("passing", output),
      (error) => finish("critical", messageOf(error)),
    );
  }
}

/** Probes over real sockets. A TCP check asks nothing of the service but that it accepts. */
export function socketProbes(engine: Engine, clock: Clock): Probes {
  return {
    tcp(host, port, timeoutMs) {
      return new Promise((resolve, reject) => {
        const fail = (fact: string) => reject(new Error(`dial tcp ${host}:${port}: ${fact}`));
        if (!(port > 0 && port < 65536)) return fail("invalid port");
        const timer = clock.after(timeoutMs, () => {
          dial.cancel();
          fail("i/o timeout");
        });
        const dial = engine.dial({ address: { kind: "tcp", host, port } }, {
          onConnected(connection) {
            timer.cancel();
            connection.close();
            resolve(`TCP connect ${host}:${port}: Success`);
          },
          onFailed(_stage, reason) {
            timer.cancel();
            fail(reason);
          },
        });
      });
    },
    async http(url, timeoutMs) {
      const reply = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) });
      await reply.body?.cancel();
      if (reply.ok) return `HTTP GET ${url}: ${reply.status}`;
      throw new Error(`HTTP GET ${url}: ${reply.status}`);
    },
  };
}
