/**
 * What tests and the demo do to a world without a request: services, config entries, intentions, roots.
 *
 * @module
 */

import type { Ca } from "./ca/ca.ts";
import type { LocalServices } from "./catalog/local_services.ts";
import type { Status } from "./catalog/records.ts";
import { REGISTRATION } from "./catalog/registration_shape.ts";
import { readEntry } from "./entries/config_entries.ts";
import { permissionsOf } from "./entries/intention_entry.ts";
import { decide, exactIntention, putIntention } from "./entries/intentions.ts";
import type { World } from "./http/call.ts";
import { decodeObject, type JsonObject } from "./http/decode.ts";
import { textAt } from "./http/fields.ts";

export abstract class DevWorld {
  protected abstract get world(): World;

  /** The body of `PUT /v1/agent/service/register`. */
  registerService(body: unknown): void {
    this.services.register(decodeObject(JSON.stringify(body), REGISTRATION));
  }

  /** With its sidecar. False: it is not there. */
  deregisterService(id: string): boolean {
    return this.services.deregister(id);
  }

  /** Statuses by id of what {@link registerService} registered, for a status line. */
  statuses(): ReadonlyMap<string, Status> {
    const { services } = this;
    return new Map(services.all().map((record) => [record.id, services.statusOf(record.id)]));
  }

  /** What keeps them, and runs their checks. */
  protected get services(): LocalServices {
    return this.world.state.services;
  }

  get trustDomain(): string {
    return this.world.state.ca.trustDomain;
  }

  /** The body of `PUT /v1/config`. */
  writeEntry(body: unknown): void {
    this.world.state.config.put(readEntry(JSON.stringify(body)));
  }

  /** What `source` may do at `destination`: an entry's source without its name. */
  setIntention(source: string, destination: string, says: JsonObject): void {
    putIntention(this.world.state.config, destination, { Name: source, ...says });
  }

  /** What `source` may do at `destination` now, the default included. */
  intention(source: string, destination: string): "allow" | "deny" | "permissions" {
    const { config, acl } = this.world.state;
    const exact = exactIntention(config, source, destination);
    if (exact && permissionsOf(exact).length > 0) return "permissions";
    const decision = decide(config, { namespace: "default", service: source }, destination);
    const fallback = this.world.defaultIntentionPolicy ?? acl.defaultPolicy;
    return decision === undefined ? fallback : decision.allowed ? "allow" : "deny";
  }

  /** Takes every inactive root off the list. */
  pruneRoots(): void {
    const roots = this.world.state.ca.rootsJson()["Roots"];
    for (const root of Array.isArray(roots) ? roots as readonly JsonObject[] : []) {
      if (root["Active"] !== true) this.world.state.ca.prune(textAt(root, "ID"));
    }
  }

  /** The CA's own hands, for tests that need a certificate the agent would not issue. */
  get ca(): Ca {
    return this.world.state.ca;
  }
}
