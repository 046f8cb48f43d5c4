/** The targets of a resolver: redirects, subsets, failover. @module */

import {
  durationMsAt,
  isObject,
  type JsonObject,
  type JsonValue,
  objectAt,
  objectsAt,
  textAt,
  textsAt,
  withoutEmpty,
} from "../json.ts";
import { HttpRefusal } from "../refusal.ts";

export type FindEntry = (kind: string, name: string) => JsonObject | undefined;

const DEFAULT_CONNECT_TIMEOUT = "5s";

export interface ChainOverrides {
  /** `""`: none. */
  readonly protocol: string;
  /** A Go duration; null: none. */
  readonly connectTimeout: JsonValue;
  readonly meshGatewayMode: string;
}

/** A target by its parts, before or after redirects. */
interface TargetParts {
  readonly service: string;
  readonly subset: string;
  /** `""` with a peer. */
  readonly datacenter: string;
  readonly peer: string;
}

interface ResolvedTarget extends TargetParts {
  readonly id: string;
  /** The service-resolver that applies. */
  readonly entry: JsonObject | undefined;
  readonly connectTimeout: JsonValue;
}

interface ChainTargetsOptions {
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

  resolve(service: string, subset: string): ResolvedTarget {
    return this.#follow({ service, subset, datacenter: this.#options.datacenter, peer: "" });
  }

  /** Failover targets of a resolved one, in order, without itself. */
  failover(resolved: ResolvedTarget): readonly ResolvedTarget[] {
    const all = objectAt(resolved.entry ?? {}, "Failover");
    const failover = all[resolved.subset] ?? all["*"];
    if (!isObject(failover)) return [];
    const targets = failoverParts(resolved, failover, this.#options.datacenter)
      .filter((parts) => idOf(parts) !== resolved.id)
      .map((parts) => this.#follow(parts))
      .filter(({ id }) => id !== resolved.id);
    return targets.filter(({ id }, at) => targets.findIndex((other) => other.id === id) === at);
  }

  #follow(start: TargetParts): ResolvedTarget {
    const seen: string[] = [];
    for (let at = start;;) {
      const entry = at.peer === "" ? this.#options.find("service-resolver", at.service) : undefined;
      const redirect = entry?.["Redirect"];
      const next = isObject(redirect) ? redirected(at, redirect) : at;
      const id = idOf(at);
      if (idOf(next) === id) {
        const subset = at.subset || textAt(entry ?? {}, "DefaultSubset");
        return this.#use({ ...at, subset }, entry);
      }
      if (seen.includes(id)) {
        const circle = [...seen.slice(seen.indexOf(id)), id].join(" -> ");
        throw new HttpRefusal(500, `detected circular resolver redirect: [${circle}]`);
      }
      seen.push(id);
      at = next;
    }
  }

  #use(parts: TargetParts, entry: JsonObject | undefined): ResolvedTarget {
    const { service, subset, datacenter, peer } = parts;
    const { find, overrides, trustDomain } = this.#options;
    const subsets = objectAt(entry ?? {}, "Subsets");
    if (subset !== "" && !(subset in subsets)) {
      throw new HttpRefusal(500, `service "${service}" does not have a subset named "${subset}"`);
    }
    // A peer's target has the timeout of the local resolver of that name.
    const connectTimeout = this.#timeout(entry ?? find("service-resolver", service) ?? {});
    const defaults = find("service-defaults", service) ?? {};
    const externalSni = textAt(defaults, "ExternalSNI");
    const configured = textAt(objectAt(defaults, "MeshGateway"), "Mode") ||
      textAt(objectAt(find("proxy-defaults", "global") ?? {}, "MeshGateway"), "Mode");
    const mode = externalSni !== "" ? "" : overrides.meshGatewayMode || configured;
    if (mode !== "" && mode !== configured) this.gatewayOverridden = true;
    const id = idOf(parts);
    const sni = peer !== ""
      ? ""
      : `${dotted(subset)}${service}.default.${datacenter}.internal.${trustDomain}`;
    this.used[id] = {
      ...withoutEmpty({
        ServiceSubset: subset,
        Datacenter: datacenter,
        Peer: peer,
        External: externalSni !== "",
        SNI: peer === "" ? externalSni || sni : "",
        Name: sni,
      }),
      ConnectTimeout: connectTimeout,
      ID: id,
      Service: service,
      Namespace: "default",
      Partition: "default",
      MeshGateway: mode === "" ? {} : { Mode: mode },
      Subset: withoutEmpty(objectAt(subsets, subset)),
      TransparentProxy: {},
    };
    return { ...parts, id, entry, connectTimeout };
  }

  #timeout(entry: JsonObject): JsonValue {
    const { connectTimeout: override } = this.#options.overrides;
    const own = durationMsAt(entry, "ConnectTimeout") > 0
      ? entry["ConnectTimeout"] ?? null
      : DEFAULT_CONNECT_TIMEOUT;
    const overrideMs = durationMsAt({ override }, "override");
    if (overrideMs <= 0 || overrideMs === durationMsAt({ own }, "own")) return own;
    this.timeoutOverridden = true;
    return override;
  }
}

function idOf({ service, subset, datacenter, peer }: TargetParts): string {
  const where = peer === "" ? datacenter : `external.${peer}`;
  return `${dotted(subset)}${service}.default.default.${where}`;
}

function dotted(subset: string): string {
  return subset === "" ? "" : `${subset}.`;
}

function redirected(from: TargetParts, redirect: JsonObject): TargetParts {
  const peer = textAt(redirect, "Peer");
  return {
    ...withServiceOf(from, redirect),
    datacenter: peer !== "" ? "" : textAt(redirect, "Datacenter") || from.datacenter,
    peer,
  };
}

function failoverParts(
  from: TargetParts,
  failover: JsonObject,
  datacenter: string,
): readonly TargetParts[] {
  const targets = objectsAt(failover, "Targets");
  if (targets.length > 0) {
    return targets.map((target) => redirected({ ...from, datacenter }, target));
  }
  const parts = withServiceOf(from, failover);
  const datacenters = textsAt(failover, "Datacenters");
  return (datacenters.length > 0 ? datacenters : [from.datacenter])
    .map((name) => ({ ...parts, datacenter: name }));
}

/** The subset is kept when the service stays the same. */
function withServiceOf(from: TargetParts, to: JsonObject): TargetParts {
  const service = textAt(to, "Service") || from.service;
  const subset = textAt(to, "ServiceSubset") || (service === from.service ? from.subset : "");
  return { ...from, service, subset };
}
