/**
 * The services registered on an agent, or on a node without one by who looks after it: what a registration changes in the catalog, the checks it
 * starts, maintenance, and the merged view that follows the config entries.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import { type Catalog, stable } from "./catalog.ts";
import { mergeProxy } from "../entries/central_config.ts";
import type { ConfigEntries } from "../entries/config_entries.ts";
import type { JsonObject } from "../http/decode.ts";
import { HealthChecks, type Probes } from "./health_checks.ts";
import { type NodeRecord, type ServiceRecord, type Status, worst } from "./records.ts";
import { Refusal } from "../http/refusal.ts";
import type { CheckDefinition } from "./check_definition.ts";
import { readRegistration } from "./registration.ts";

const FIRST_SIDECAR_PORT = 21000;
const LAST_SIDECAR_PORT = 21255;

export interface LocalServicesOptions {
  readonly clock: Clock;
  readonly probes: Probes;
  readonly catalog: Catalog;
  readonly config: ConfigEntries;
  readonly node: NodeRecord;
  readonly asClientAgent: boolean;
}

export class LocalServices {
  readonly #options: LocalServicesOptions;
  readonly #ids = new Set<string>();
  readonly #checks: HealthChecks;

  constructor(options: LocalServicesOptions) {
    this.#options = options;
    this.#checks = new HealthChecks({
      clock: options.clock,
      probes: options.probes,
      report: (check, status, output) => this.#report(check, status, output),
    });
  }

  get node(): NodeRecord {
    return this.#options.node;
  }

  /** Registers the service of a decoded body, and its sidecar. */
  register(body: JsonObject): void {
    const all = readRegistration(body, (id) => this.#sidecarPort(id));
    for (const { service, checks } of all) {
      this.#ids.add(service.id);
      this.#options.catalog.put(this.node, { ...service, merged: this.#merged(service.proxy) });
      for (const check of checks) this.addCheck(check);
    }
    for (const { service } of all) this.#judgeAliases(service.id);
  }

  /** Removes a service with its checks and its sidecar. */
  deregister(id: string): boolean {
    if (!this.#ids.has(id)) return false;
    const sidecar = `${id}-sidecar-proxy`;
    for (const gone of [id, ...this.#ids.has(sidecar) ? [sidecar] : []]) {
      for (const check of this.#options.catalog.checksOf(this.node, gone)) {
        this.#checks.stop(check.id);
      }
      this.#ids.delete(gone);
      this.#options.catalog.remove(this.node, gone);
    }
    this.#judgeAliases(id);
    return true;
  }

  get(id: string): ServiceRecord | undefined {
    return this.#ids.has(id) ? this.#options.catalog.get(this.node, id) : undefined;
  }

  all(): readonly ServiceRecord[] {
    return [...this.#ids].sort().flatMap((id) => this.get(id) ?? []);
  }

  /** Status and output of the checks of one service, summed up. */
  statusOf(id: string): Status {
    const checks = this.#options.catalog.checksOf(this.node, id);
    return worst(checks.map((check) => check.status));
  }

  addCheck(check: CheckDefinition): void {
    const old = this.#options.catalog.check(this.node, check.id);
    this.#options.catalog.putCheck(this.node, {
      ...check,
      status: check.status ?? old?.status ?? "critical",
      output: old?.output ?? "",
      type: check.kind.kind,
      definition: {},
    });
    this.#checks.start(check);
    if (check.kind.kind === "alias") this.#judgeAlias(check);
  }

  /** A heartbeat; refuses unknown checks and those that are no TTL checks. */
  beat(id: string, status: Status, output: string): void {
    if (!this.#options.catalog.check(this.node, id)) {
      throw new Refusal(
        404,
        `Unknown check ID "${id}". Ensure that the check ID is passed, not the check name.`,
      );
    }
    if (!this.#checks.beat(id, status, output)) {
      throw new Refusal(500, `CheckID "${id}" does not have associated TTL`);
    }
  }

  maintenance(id: string, enable: boolean, reason: string): void {
    const service = this.get(id);
    if (!service) throw unknownService(id);
    const checkId = `_service_maintenance:${id}`;
    if (!enable) {
      this.#options.catalog.removeCheck(this.node, checkId);
    } else {
      this.#options.catalog.putCheck(this.node, {
        id: checkId,
        name: "Service Maintenance Mode",
        status: "critical",
        notes: reason ||
          "Maintenance mode is enabled for this service, but no reason was provided. " +
            "This is a default message.",
        output: "",
        serviceId: id,
        serviceName: service.name,
        serviceTags: service.tags,
        type: "maintenance",
        interval: "",
        timeout: "",
        definition: {},
      });
    }
    this.#judgeAliases(id);
  }

  /** The central configuration has changed: every proxy is merged again. */
  refresh(): void {
    for (const service of this.all()) {
      if (!service.proxy) continue;
      const merged = this.#merged(service.proxy);
      if (stable(merged) === stable(service.merged)) continue;
      const { node, createIndex: _c, modifyIndex: _m, ...rest } = service;
      this.#options.catalog.put(node, { ...rest, merged });
    }
  }

  stop(): void {
    this.#checks.stopAll();
  }

  /** Where no agent is nobody merges, until somebody reads it who asks for that. */
  #merged(proxy: JsonObject | undefined): JsonObject | undefined {
    if (!this.node.hasAgent) return undefined;
    const { config, asClientAgent } = this.#options;
    return proxy && mergeProxy(proxy, (kind, name) => config.find(kind, name), asClientAgent);
  }

  #sidecarPort(id: string): number {
    const known = this.get(id);
    if (known) return known.port;
    const taken = new Set(this.all().map((service) => service.port));
    for (let port = FIRST_SIDECAR_PORT; port <= LAST_SIDECAR_PORT; port++) {
      if (!taken.has(port)) return port;
    }
    throw new Refusal(400, "none left for auto-assignment in the range [21000, 21255]");
  }

  #report(check: CheckDefinition, status: Status, output: string): void {
    this.#options.catalog.putCheck(this.node, {
      ...check,
      status,
      output,
      type: check.kind.kind,
      definition: {},
    });
    this.#judgeAliases(check.serviceId);
  }

  #judgeAliases(serviceId: string): void {
    for (const alias of this.#checks.aliasesOf(serviceId)) this.#judgeAlias(alias);
  }

  #judgeAlias(alias: CheckDefinition): void {
    if (alias.kind.kind !== "alias") return;
    const { catalog } = this.#options;
    const checks = catalog.checksOf(this.node, alias.kind.serviceId);
    const status = worst(checks.map((check) => check.status));
    const bad = checks.find((check) => check.status === status && status !== "passing");
    const output = bad
      ? `Aliased check "${bad.name}" failing: ${bad.output}`
      : checks.length === 0
      ? "No checks found."
      : "All checks passing.";
    catalog.putCheck(this.node, { ...alias, status, output, type: "alias", definition: {} });
  }
}

export function unknownService(id: string): Refusal {
  return new Refusal(
    404,
    `Unknown service ID "${id}". Ensure that the service ID is passed, not the service name.`,
  );
}
