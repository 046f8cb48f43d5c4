/**
 * Compiles router, splitter, resolver and defaults entries into a discovery chain, the graph that a
 * proxy follows for one upstream. Pure: entries are read through `find`.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { type ChainOverrides, ChainTargets, type Resolved } from "./chain_targets.ts";
import { configTopic, type FindEntry } from "./config_entries.ts";
import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { goDuration } from "../http/go_duration.ts";
import { Refusal } from "../http/refusal.ts";
import { dropEmpty } from "../catalog/records.ts";
import { numberAt, objectAt, textAt, textsAt } from "../http/fields.ts";

export const NO_OVERRIDES: ChainOverrides = {
  protocol: "",
  connectTimeoutNs: 0,
  meshGatewayMode: "",
};

export interface ChainRequest {
  readonly service: string;
  readonly datacenter: string;
  readonly trustDomain: string;
  readonly overrides: ChainOverrides;
  readonly find: FindEntry;
  readonly virtualIp: string | undefined;
}

export interface CompiledChain {
  readonly chain: JsonObject;
  /** Topics of every entry that was read or missed. */
  readonly topics: readonly string[];
}

/** Throws a {@link Refusal} with Consul's text where the entries do not fit together. */
export function compileChain(request: ChainRequest): CompiledChain {
  return new Compiler(request).compile();
}

/** The protocol a service has by its own defaults, else the mesh's. */
export function protocolOf(service: string, find: FindEntry): string {
  const own = find("service-defaults", service);
  if (own) return textAt(own, "Protocol") || "tcp";
  return meshProtocol(find) || "tcp";
}

/** The mesh's protocol, weakly typed and in any letter case; `""`: it has none. */
export function meshProtocol(find: FindEntry): string {
  const { protocol } = objectAt(find("proxy-defaults", "global") ?? {}, "Config");
  return protocol === undefined || protocol === null ? "" : String(protocol).toLowerCase();
}

const HASHED = ["ring_hash", "maglev"];

class Compiler {
  readonly #request: ChainRequest;
  readonly #find: FindEntry;
  readonly #topics = new Set<string>();
  readonly #nodes: Record<string, JsonObject> = {};
  readonly #targets: ChainTargets;
  readonly #protocol: string;
  readonly #plain: boolean;

  constructor(request: ChainRequest) {
    this.#request = request;
    this.#find = (kind, name) => {
      this.#topics.add(configTopic(kind, name));
      return request.find(kind, name);
    };
    const { overrides, datacenter, trustDomain } = request;
    this.#targets = new ChainTargets({ find: this.#find, overrides, datacenter, trustDomain });
    this.#protocol = protocolOf(request.service, this.#find);
    this.#plain = (overrides.protocol || this.#protocol) === "tcp";
  }

  compile(): CompiledChain {
    const { service, overrides, datacenter } = this.#request;
    const start = this.#start(service);
    const first = this.#nodes[start] ?? {};
    const resolver = objectAt(first, "Resolver");
    const defaults = this.#find("service-defaults", service) ?? {};
    const ip = this.#request.virtualIp;
    const chain = dropEmpty({
      ServiceName: service,
      Namespace: "default",
      Partition: "default",
      Datacenter: datacenter,
      CustomizationHash: this.#customization(),
      Default: resolver["Default"] === true &&
        textAt(resolver, "Target") === `${service}.default.default.${datacenter}`,
      Protocol: overrides.protocol || this.#protocol,
      ServiceMeta: objectAt(defaults, "Meta"),
      StartNode: start,
      Nodes: byKey(this.#reached(start)),
      Targets: byKey(this.#targets.used),
      AutoVirtualIPs: ip === undefined ? null : [ip],
      ManualVirtualIPs: ip === undefined ? null : [],
    }, ["CustomizationHash", "Default", "ServiceMeta"]);
    return { chain, topics: [...this.#topics] };
  }

  #start(service: string): string {
    const router = this.#find("service-router", service);
    if (!router || this.#plainRefuses(service, "service-router")) {
      return this.#splitterOrResolver(service);
    }
    const name = `router:${service}.default.default`;
    const routes = Array.isArray(router["Routes"]) ? router["Routes"] as readonly Json[] : [];
    const built = routes.filter(isObject).map((route) => {
      const destination = objectAt(route, "Destination");
      const to = textAt(destination, "Service") || service;
      const subset = textAt(destination, "ServiceSubset");
      return {
        Definition: route,
        NextNode: subset === "" ? this.#splitterOrResolver(to) : this.#resolver(to, subset),
      };
    });
    built.push({
      Definition: {
        Match: { HTTP: { PathPrefix: "/" } },
        Destination: { Service: service, Namespace: "default", Partition: "default" },
      },
      NextNode: this.#splitterOrResolver(service),
    });
    this.#nodes[name] = { Type: "router", Name: `${service}.default.default`, Routes: built };
    return name;
  }

  #splitterOrResolver(service: string): string {
    const splitter = this.#find("service-splitter", service);
    if (!splitter || this.#plainRefuses(service, "service-splitter")) {
      return this.#resolver(service, "");
    }
    const name = `splitter:${service}.default.default`;
    if (this.#nodes[name]) return name;
    // In place before its legs are compiled, so that a circle ends here.
    this.#nodes[name] = { Type: "splitter", Name: `${service}.default.default` };
    const splits = Array.isArray(splitter["Splits"]) ? splitter["Splits"] as readonly Json[] : [];
    const legs = splits.filter(isObject).flatMap((split) => {
      const to = textAt(split, "Service") || service;
      const subset = textAt(split, "ServiceSubset");
      const next = to === service || subset !== ""
        ? this.#resolver(to, subset)
        : this.#splitterOrResolver(to);
      const leg = { Definition: split, Weight: numberAt(split, "Weight"), NextNode: next };
      return next.startsWith("splitter:") ? this.#flatten(leg) : [leg];
    });
    const balancer = legs.map((leg) => objectAt(this.#nodes[leg.NextNode] ?? {}, "LoadBalancer"))
      .find((item) => HASHED.includes(textAt(item, "Policy")));
    this.#nodes[name] = {
      Type: "splitter",
      Name: `${service}.default.default`,
      Splits: legs,
      ...balancer ? { LoadBalancer: balancer } : {},
    };
    return name;
  }

  /** Without splitters that are a part of another one, and of nothing else. */
  #reached(start: string): Record<string, JsonObject> {
    const reached: Record<string, JsonObject> = {};
    const pending = [start];
    for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
      const node = this.#nodes[id];
      if (!node || reached[id]) continue;
      reached[id] = node;
      for (const legs of [node["Routes"], node["Splits"]]) {
        const all: readonly Json[] = Array.isArray(legs) ? legs : [];
        pending.push(...all.filter(isObject).map((leg) => textAt(leg, "NextNode")));
      }
    }
    return reached;
  }

  /** The legs of an inner splitter, weighted by the outer leg. */
  #flatten(leg: { Definition: JsonObject; Weight: number; NextNode: string }) {
    const inner = this.#nodes[leg.NextNode]?.["Splits"];
    if (!Array.isArray(inner)) {
      throw new Refusal(500, "detected circular reference between splitters");
    }
    return (inner as readonly Json[]).filter(isObject).map((split) => ({
      Definition: withHeadersOf(leg.Definition, objectAt(split, "Definition")),
      Weight: Math.round(leg.Weight * numberAt(split, "Weight")) / 100,
      NextNode: textAt(split, "NextNode"),
    }));
  }

  #resolver(service: string, subset: string): string {
    const resolved = this.#targets.resolve({
      service,
      subset,
      datacenter: this.#request.datacenter,
      peer: "",
    });
    this.#agree(resolved.service);
    const name = `resolver:${resolved.id}`;
    if (this.#nodes[name]) return name;
    const entry = resolved.entry;
    const failover = this.#targets.failover(resolved);
    for (const target of failover) this.#agree(target.service);
    const balancer = objectAt(entry ?? {}, "LoadBalancer");
    this.#nodes[name] = {
      Type: "resolver",
      Name: resolved.id,
      Resolver: dropEmpty({
        ConnectTimeout: goDuration(resolved.connectTimeoutNs),
        RequestTimeout: requestTimeoutNs(resolved),
        Default: entry === undefined,
        Target: resolved.id,
        Failover: failover.length > 0 ? { Targets: failover.map((target) => target.id) } : null,
      }, ["RequestTimeout", "Default", "Failover"]),
      ...Object.keys(balancer).length > 0 ? { LoadBalancer: balancer } : {},
    };
    return name;
  }

  /** TCP allows no routing: dropped when the caller overrides to it, otherwise refused. */
  #plainRefuses(service: string, _kind: string): boolean {
    if (!this.#plain) return false;
    if (this.#request.overrides.protocol === "tcp") return true;
    throw new Refusal(
      500,
      `discovery chain "${service}" uses a protocol "tcp" that does not permit advanced routing or splitting behavior`,
    );
  }

  #agree(service: string): void {
    if (this.#request.overrides.protocol !== "" || service === this.#request.service) return;
    const protocol = protocolOf(service, this.#find);
    if (protocol === this.#protocol) return;
    throw new Refusal(
      500,
      `discovery chain "${this.#request.service}" uses inconsistent protocols; service "${service}" has "${protocol}" which is not "${this.#protocol}"`,
    );
  }

  /** Eight hex digits when an override changed something. */
  #customization(): string {
    const { protocol, connectTimeoutNs, meshGatewayMode } = this.#request.overrides;
    const effective = [
      protocol !== "" && protocol !== this.#protocol ? protocol : "",
      this.#targets.timeoutOverridden ? String(connectTimeoutNs) : "",
      this.#targets.gatewayOverridden ? meshGatewayMode : "",
    ];
    if (effective.every((part) => part === "")) return "";
    return createHash("sha256").update(effective.join("\n")).digest("hex").slice(0, 8);
  }
}

/** The last to touch a message has the last word: the inner split of requests, the outer of responses. */
function withHeadersOf(outer: JsonObject, inner: JsonObject): JsonObject {
  const merged = (name: string, [first, last]: readonly [JsonObject, JsonObject]) => {
    const [before, after] = [objectAt(first, name), objectAt(last, name)];
    const all = {
      Add: { ...objectAt(before, "Add"), ...objectAt(after, "Add") },
      Set: { ...objectAt(before, "Set"), ...objectAt(after, "Set") },
      Remove: [...textsAt(before, "Remove"), ...textsAt(after, "Remove")],
    };
    return dropEmpty(all, ["Add", "Set", "Remove"]);
  };
  return {
    ...inner,
    ...dropEmpty({
      RequestHeaders: merged("RequestHeaders", [outer, inner]),
      ResponseHeaders: merged("ResponseHeaders", [inner, outer]),
    }, ["RequestHeaders", "ResponseHeaders"]),
  };
}

function requestTimeoutNs(resolved: Resolved): number {
  const text = textAt(resolved.entry ?? {}, "RequestTimeout");
  return text === "" ? 0 : resolved.requestTimeoutNs;
}

function byKey(record: Readonly<Record<string, JsonObject>>): JsonObject {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => a < b ? -1 : 1));
}
