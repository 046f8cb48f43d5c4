/**
 * Where a resolver ends: redirects followed, default subset applied, failover targets in order, and the
 * target objects with SNI, subset filter and mesh gateway mode.
 *
 * @module
 */

import type { FindEntry } from "./config_entries.ts";
import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { durationNs, goDuration } from "../http/go_duration.ts";
import { Refusal } from "../http/refusal.ts";
import { dropEmpty } from "../catalog/records.ts";
import { objectAt, textAt, textsAt } from "../http/fields.ts";

const DEFAULT_CONNECT_TIMEOUT_NS = 5e9;

export interface ChainOverrides {
  /** `""`: none. */
  readonly protocol: string;
  readonly connectTimeoutNs: number;
  readonly meshGatewayMode: string;
}

/** Service, subset, datacenter and peer, before or after redirects. */
export interface Place {
  readonly service: string;
  readonly subset: string;
  /** `""` with a peer. */
  readonly datacenter: string;
  readonly peer: string;
}

export interface Resolved extends Place {
  readonly id: string;
  readonly entry: JsonObject | undefined;
  readonly connectTimeoutNs: number;
  readonly requestTimeoutNs: number;
}

export interface ChainTargetsOptions {
  readonly find: FindEntry;
  readonly overrides: ChainOverrides;
  readonly datacenter: string;
  readonly trustDomain: string;
}

export class ChainTargets {
  readonly #options: ChainTargetsOptions;
  /** Targets that nodes refer to, by id. */
  readonly used: Record<string, JsonObject> = {};
  timeoutOverridden = false;
  gatewayOverridden = false;

  constructor(options: ChainTargetsOptions) {
    this.#options = options;
  }

  /** Follows redirects from `place` and notes the target. */
  resolve(place: Place): Resolved {
    let at = place;
    const seen: string[] = [];
    while (true) {
      const entry = at.peer === "" ? this.#options.find("service-resolver", at.service) : undefined;
      const redirect = entry?.["Redirect"];
      const next = isObject(redirect) ? redirected(at, redirect) : at;
      if (isObject(redirect) && idOf(next) !== idOf(at)) {
        const id = idOf(at);
        if (seen.includes(id)) {
          const circle = [...seen.slice(seen.indexOf(id)), id].join(" -> ");
          throw new Refusal(500, `detected circular resolver redirect: [${circle}]`);
        }
        seen.push(id);
        at = next;
        continue;
      }
      const subset = at.subset || textAt(entry ?? {}, "DefaultSubset");
      return this.#note({ ...at, subset }, entry);
    }
  }

  /** Failover targets of a resolved place, in order, without itself. */
  failover(resolved: Resolved): readonly Resolved[] {
    const all = objectAt(resolved.entry ?? {}, "Failover");
    const failover = all[resolved.subset] ?? all["*"];
    if (!isObject(failover)) return [];
    const result: Resolved[] = [];
    for (const place of placesOf(resolved, failover, this.#options.datacenter)) {
      if (idOf(place) === resolved.id) continue;
      const target = this.resolve(place);
      if (target.id !== resolved.id && !result.some((other) => other.id === target.id)) {
        result.push(target);
      }
    }
    return result;
  }

  #note(place: Place, entry: JsonObject | undefined): Resolved {
    const { find, overrides } = this.#options;
    const subset = objectAt(objectAt(entry ?? {}, "Subsets"), place.subset);
    if (place.subset !== "" && !(place.subset in objectAt(entry ?? {}, "Subsets"))) {
      throw new Refusal(
        500,
        `service "${place.service}" does not have a subset named "${place.subset}"`,
      );
    }
    // A peer's target has the timeout of the local resolver of that name.
    const timed = entry ?? find("service-resolver", place.service);
    const own = timeoutNs(timed, "ConnectTimeout") || DEFAULT_CONNECT_TIMEOUT_NS;
    const connectTimeoutNs = overrides.connectTimeoutNs || own;
    if (connectTimeoutNs !== own) this.timeoutOverridden = true;
    const id = idOf(place);
    const defaults = find("service-defaults", place.service) ?? {};
    const external = textAt(defaults, "ExternalSNI");
    const configured = textAt(objectAt(defaults, "MeshGateway"), "Mode") ||
      textAt(objectAt(find("proxy-defaults", "global") ?? {}, "MeshGateway"), "Mode");
    const mode = external !== "" ? "" : overrides.meshGatewayMode || configured;
    if (mode !== "" && mode !== configured) this.gatewayOverridden = true;
    const sni = this.#sni(place);
    this.used[id] = dropEmpty({
      ConnectTimeout: goDuration(connectTimeoutNs),
      ID: id,
      Service: place.service,
      ServiceSubset: place.subset,
      Namespace: "default",
      Partition: "default",
      Datacenter: place.datacenter,
      Peer: place.peer,
      MeshGateway: mode === "" ? {} : { Mode: mode },
      Subset: dropEmpty(subset, ["Filter", "OnlyPassing"]),
      TransparentProxy: {},
      External: external !== "",
      SNI: place.peer !== "" ? "" : external || sni,
      Name: place.peer !== "" ? "" : sni,
    }, ["ServiceSubset", "Datacenter", "Peer", "External", "SNI", "Name"]);
    return {
      ...place,
      id,
      entry,
      connectTimeoutNs,
      requestTimeoutNs: timeoutNs(entry, "RequestTimeout"),
    };
  }

  #sni(place: Place): string {
    const prefix = place.subset === "" ? "" : `${place.subset}.`;
    return `${prefix}${place.service}.default.${place.datacenter}.internal.${this.#options.trustDomain}`;
  }
}

function idOf(place: Place): string {
  const prefix = place.subset === "" ? "" : `${place.subset}.`;
  const where = place.peer === "" ? place.datacenter : `external.${place.peer}`;
  return `${prefix}${place.service}.default.default.${where}`;
}

function redirected(place: Place, redirect: JsonObject): Place {
  const service = textAt(redirect, "Service") || place.service;
  const peer = textAt(redirect, "Peer");
  return {
    service,
    subset: textAt(redirect, "ServiceSubset") || (service === place.service ? place.subset : ""),
    datacenter: peer !== "" ? "" : textAt(redirect, "Datacenter") || place.datacenter,
    peer,
  };
}

function placesOf(from: Place, failover: JsonObject, datacenter: string): readonly Place[] {
  const targets = failover["Targets"];
  if (Array.isArray(targets)) {
    return (targets as readonly Json[]).filter(isObject).map((target) => {
      const peer = textAt(target, "Peer");
      return {
        ...elsewhere(from, target),
        datacenter: peer !== "" ? "" : textAt(target, "Datacenter") || datacenter,
        peer,
      };
    });
  }
  const datacenters = textsAt(failover, "Datacenters");
  const place = elsewhere(from, failover);
  return (datacenters.length > 0 ? datacenters : [from.datacenter])
    .map((name) => ({ ...place, datacenter: name }));
}

function elsewhere(from: Place, to: JsonObject): Place {
  const service = textAt(to, "Service") || from.service;
  const subset = textAt(to, "ServiceSubset") || (service === from.service ? from.subset : "");
  return { ...from, service, subset };
}

function timeoutNs(entry: JsonObject | undefined, key: string): number {
  const text = textAt(entry ?? {}, key);
  return text === "" ? 0 : durationNs(text, key);
}
