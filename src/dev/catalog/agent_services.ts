/** The services of one agent: registrations, their checks, maintenance, merging. @module */

import { type Clock, messageOf, type Timer } from "../../base/mod.ts";
import type { Engine } from "../../net/mod.ts";
import { mergeProxy } from "../entries/central_config.ts";
import type { ConfigEntries } from "../entries/config_entries.ts";
import { type JsonObject, numberAt, textAt } from "../json.ts";
import { HttpRefusal } from "../refusal.ts";
import type { CatalogNode } from "./catalog.ts";
import { type ServiceContent, type ServiceRecord, type Status, worstOf } from "./records.ts";
import { type CheckTask, readRegistrationBody, serviceFacts } from "./registration.ts";

const FIRST_SIDECAR_PORT = 21000;
const LAST_SIDECAR_PORT = 21255;

/** Runs checks. Each resolves with a text to show, and rejects when the check fails. */
export interface Probes {
  tcp(host: string, port: number, timeoutMs: number): Promise<string>;
  http(url: string, timeoutMs: number): Promise<string>;
}

interface AgentServicesOptions {
  readonly clock: Clock;
  readonly probes: Probes;
  readonly config: ConfigEntries;
  readonly node: CatalogNode;
}

interface RunningCheck {
  readonly task: CheckTask;
  timer: Timer | undefined;
}

export class AgentServices {
  readonly node: CatalogNode;
  readonly #options: AgentServicesOptions;
  /** Services of this agent; the node may have others in the catalog. */
  readonly #ids = new Set<string>();
  readonly #running = new Map<string, RunningCheck>();

  constructor(options: AgentServicesOptions) {
    this.#options = options;
    this.node = options.node;
    options.config.onChange((kind) => {
      if (kind === "proxy-defaults" || kind === "service-defaults") this.#mergeAgain();
    });
  }

  register(body: JsonObject): void {
    const all = readRegistrationBody(body, (id) => this.#sidecarPort(id));
    for (const { service, checks } of all) {
      this.#ids.add(service.id);
      this.node.putService(this.#merged(service));
      for (const check of checks) this.#start(check);
    }
    for (const { service } of all) this.#judgeAliases(service.id);
  }

  /** Removes a service with its checks and its sidecar. */
  deregister(id: string): void {
    if (!this.#ids.has(id)) throw unknownService(id);
    for (const gone of [id, `${id}-sidecar-proxy`]) {
      if (!this.#ids.delete(gone)) continue;
      for (const check of this.node.checksOf(gone)) this.#stop(check.id);
      this.node.removeService(gone);
    }
    this.#judgeAliases(id);
  }

  get(id: string): ServiceRecord | undefined {
    return this.#ids.has(id) ? this.node.service(id) : undefined;
  }

  all(): readonly ServiceRecord[] {
    return [...this.#ids].sort().flatMap((id) => this.get(id) ?? []);
  }

  statusOf(id: string): Status {
    return worstOf(this.node.checksOf(id));
  }

  /** Sets the status of a TTL check, which holds until its TTL has passed once more. */
  beat(id: string, status: Status, output: string): void {
    const running = this.#running.get(id);
    if (!running) throw new HttpRefusal(404, `Unknown check ID "${id}"`);
    const { run } = running.task;
    if (run.kind !== "ttl") {
      throw new HttpRefusal(500, `Cannot set the status of check "${id}": it has no TTL`);
    }
    this.#expireAfter(run.ttlMs, running);
    this.#report(running.task, status, output);
  }

  maintenance(id: string, isOn: boolean, reason: string): void {
    const service = this.get(id);
    if (!service) throw unknownService(id);
    const checkId = `_service_maintenance:${id}`;
    if (isOn) {
      this.node.putCheck({
        id: checkId,
        status: "critical",
        output: "",
        serviceId: id,
        facts: {
          Name: "Service Maintenance Mode",
          Notes: reason,
          ...serviceFacts(service),
          Type: "maintenance",
        },
      });
    } else this.node.removeCheck(checkId);
    this.#judgeAliases(id);
  }

  stop(): void {
    for (const id of [...this.#running.keys()]) this.#stop(id);
  }

  #mergeAgain(): void {
    for (const { createIndex: _c, modifyIndex: _m, ...service } of this.all()) {
      this.node.putService(this.#merged(service));
    }
  }

  #merged(service: ServiceContent): ServiceContent {
    const { proxy } = service;
    const { config } = this.#options;
    if (!proxy || !this.node.record.hasAgent) return service;
    return { ...service, merged: mergeProxy(proxy, (kind, name) => config.find(kind, name)) };
  }

  #sidecarPort(id: string): number {
    const known = this.get(id);
    if (known) return numberAt(known.definition, "Port");
    const taken = new Set(this.all().map(({ definition }) => numberAt(definition, "Port")));
    for (let port = FIRST_SIDECAR_PORT; port <= LAST_SIDECAR_PORT; port++) {
      if (!taken.has(port)) return port;
    }
    throw new HttpRefusal(400, "Cannot find a port for the sidecar: 21000 to 21255 are all taken");
  }

  #start(task: CheckTask): void {
    const { content, run } = task;
    const old = this.node.check(content.id);
    const kept = old
      ? { output: old.output, ...task.saysStatus ? {} : { status: old.status } }
      : {};
    this.#stop(content.id);
    this.node.putCheck({ ...content, ...kept });
    const running: RunningCheck = { task, timer: undefined };
    this.#running.set(content.id, running);
    if (run.kind === "ttl") this.#expireAfter(run.ttlMs, running);
    else if (run.kind === "alias") this.#judgeAlias(task);
    else this.#probe(running);
  }

  #stop(id: string): void {
    this.#running.get(id)?.timer?.cancel();
    this.#running.delete(id);
  }

  #expireAfter(ttlMs: number, running: RunningCheck): void {
    running.timer?.cancel();
    running.timer = this.#options.clock.after(ttlMs, () => {
      this.#report(running.task, "critical", "TTL expired");
    });
  }

  #probe(running: RunningCheck): void {
    const { clock, probes } = this.#options;
    const { run, timeoutMs, intervalMs } = running.task;
    const finish = (status: Status, output: string) => {
      if (this.#running.get(running.task.content.id) !== running) return;
      this.#report(running.task, status, output);
      running.timer = clock.after(intervalMs, () => this.#probe(running));
    };
    const probed = run.kind === "tcp"
      ? probes.tcp(run.host, run.port, timeoutMs)
      : probes.http(run.kind === "http" ? run.url : "", timeoutMs);
    probed.then(
      (output) => finish("passing", output),
      (error) => finish("critical", messageOf(error)),
    );
  }

  #report({ content }: CheckTask, status: Status, output: string): void {
    this.node.putCheck({ ...content, status, output });
    this.#judgeAliases(content.serviceId);
  }

  #judgeAliases(serviceId: string): void {
    for (const { task } of this.#running.values()) {
      if (task.run.kind === "alias" && task.run.serviceId === serviceId) this.#judgeAlias(task);
    }
  }

  #judgeAlias({ content, run }: CheckTask): void {
    if (run.kind !== "alias") return;
    const checks = this.node.checksOf(run.serviceId);
    const status = worstOf(checks);
    const bad = checks.find((check) => status !== "passing" && check.status === status);
    const output = bad
      ? `Aliased check "${textAt(bad.facts, "Name")}" failing: ${bad.output}`
      : checks.length === 0
      ? "No checks found."
      : "All checks passing.";
    this.node.putCheck({ ...content, status, output });
  }
}

function unknownService(id: string): HttpRefusal {
  return new HttpRefusal(404, `Unknown service ID "${id}"`);
}

/** Checks over the network. A TCP check wants only that the service accepts the connection. */
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
