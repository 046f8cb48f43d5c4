/** Compiles config entries into a discovery chain. Pure: reads them through `find`. @module */

import { createHash } from "node:crypto";
import {
  isEmpty,
  type JsonObject,
  numberAt,
  objectAt,
  objectsAt,
  textAt,
  textsAt,
  withoutEmpty,
} from "../json.ts";
import { HttpRefusal } from "../refusal.ts";
import { configTopic } from "../store.ts";
import { type ChainOverrides, ChainTargets, type FindEntry } from "./chain_targets.ts";

export const NO_OVERRIDES: ChainOverrides = {
  protocol: "",
  connectTimeout: null,
  meshGatewayMode: "",
};

export interface ChainTerms {
  readonly service: string;
  readonly datacenter: string;
  readonly trustDomain: string;
  readonly overrides: ChainOverrides;
  readonly find: FindEntry;
}

interface CompiledChain {
  readonly chain: JsonObject;
  /** Topics of every entry that was read or missed. */
  readonly topics: readonly string[];
}

/** Throws a {@link HttpRefusal} where the entries do not fit together. */
export function compileChain(request: ChainTerms): CompiledChain {
  return new Compiler(request).compile();
}

/** The protocol of a service by its own defaults, else by those of the mesh. */
export function protocolOf(service: string, find: FindEntry): string {
  const own = find("service-defaults", service);
  return (own ? textAt(own, "Protocol") : meshProtocol(find)) || "tcp";
}

/** The protocol that proxy-defaults say, which may be of any type there; `""`: none. */
export function meshProtocol(find: FindEntry): string {
  const { protocol } = objectAt(find("proxy-defaults", "global") ?? {}, "Config");
  return String(protocol ?? "").toLowerCase();
}

const HASHED = ["ring_hash", "maglev"];

class Compiler {
  readonly #request: ChainTerms;
  readonly #find: FindEntry;
  readonly #topics = new Set<string>();
  readonly #nodes: Record<string, JsonObject> = {};
  readonly #targets: ChainTargets;
  readonly #protocol: string;

  constructor(request: ChainTerms) {
    this.#request = request;
    this.#find = (kind, name) => {
      this.#topics.add(configTopic(kind, name));
      return request.find(kind, name);
    };
    this.#targets = new ChainTargets({ ...request, find: this.#find });
    this.#protocol = protocolOf(request.service, this.#find);
  }

  compile(): CompiledChain {
    const { service, overrides, datacenter } = this.#request;
    const start = this.#start(service);
    const resolver = objectAt(this.#nodes[start] ?? {}, "Resolver");
    const defaults = this.#find("service-defaults", service) ?? {};
    const chain = {
      ...withoutEmpty({
        CustomizationHash: this.#customization(),
        Default: resolver["Default"] === true &&
          textAt(resolver, "Target") === `${service}.default.default.${datacenter}`,
        ServiceMeta: objectAt(defaults, "Meta"),
      }),
      ServiceName: service,
      Namespace: "default",
      Partition: "default",
      Datacenter: datacenter,
      Protocol: overrides.protocol || this.#protocol,
      StartNode: start,
      Nodes: this.#nodesFrom(start),
      Targets: this.#targets.used,
    };
    return { chain, topics: [...this.#topics] };
  }

  #start(service: string): string {
    const router = this.#routing("service-router", service);
    if (!router) return this.#splitterOrResolver(service);
    const routes = objectsAt(router, "Routes").map((route) => {
      const destination = objectAt(route, "Destination");
      const to = textAt(destination, "Service") || service;
      const subset = textAt(destination, "ServiceSubset");
      const next = subset === "" ? this.#splitterOrResolver(to) : this.#resolver(to, subset);
      return { Definition: route, NextNode: next };
    });
    const last = {
      Definition: {
        Match: { HTTP: { PathPrefix: "/" } },
        Destination: { Service: service, Namespace: "default", Partition: "default" },
      },
      NextNode: this.#splitterOrResolver(service),
    };
    return this.#node("router", `${service}.default.default`, { Routes: [...routes, last] });
  }

  #splitterOrResolver(service: string): string {
    const splitter = this.#routing("service-splitter", service);
    if (!splitter) return this.#resolver(service, "");
    const name = `${service}.default.default`;
    const id = `splitter:${name}`;
    if (this.#nodes[id]) return id;
    // Stored before its splits are compiled, so that a cycle ends here.
    this.#node("splitter", name, {});
    const splits = objectsAt(splitter, "Splits").flatMap((definition) => {
      const to = textAt(definition, "Service") || service;
      const subset = textAt(definition, "ServiceSubset");
      const next = to === service || subset !== ""
        ? this.#resolver(to, subset)
        : this.#splitterOrResolver(to);
      const weight = numberAt(definition, "Weight");
      if (next.startsWith("splitter:")) return this.#flattened(definition, weight, next);
      return [{ Definition: definition, Weight: weight, NextNode: next }];
    });
    const balancer = splits.map(({ NextNode }) =>
      objectAt(this.#nodes[NextNode] ?? {}, "LoadBalancer")
    )
      .find((found) => HASHED.includes(textAt(found, "Policy")));
    return this.#node("splitter", name, {
      Splits: splits,
      ...balancer ? { LoadBalancer: balancer } : {},
    });
  }

  /** The splits of an inner splitter in place of the one that leads to it. */
  #flattened(outer: JsonObject, weight: number, inner: string) {
    const splits = objectsAt(this.#nodes[inner] ?? {}, "Splits");
    if (splits.length === 0) {
      throw new HttpRefusal(500, "detected circular reference between splitters");
    }
    return splits.map((split) => ({
      Definition: withHeadersOf(outer, objectAt(split, "Definition")),
      Weight: Math.round(weight * numberAt(split, "Weight")) / 100,
      NextNode: textAt(split, "NextNode"),
    }));
  }

  #resolver(service: string, subset: string): string {
    const resolved = this.#targets.resolve(service, subset);
    this.#agree(resolved.service);
    const { id, entry, connectTimeout } = resolved;
    if (this.#nodes[`resolver:${id}`]) return `resolver:${id}`;
    const failover = this.#targets.failover(resolved);
    for (const target of failover) this.#agree(target.service);
    const balancer = objectAt(entry ?? {}, "LoadBalancer");
    return this.#node("resolver", id, {
      Resolver: {
        ...withoutEmpty({
          RequestTimeout: entry?.["RequestTimeout"] ?? null,
          Default: entry === undefined,
          Failover: failover.length > 0 ? { Targets: failover.map((target) => target.id) } : null,
        }),
        ConnectTimeout: connectTimeout,
        Target: id,
      },
      ...isEmpty(balancer) ? {} : { LoadBalancer: balancer },
    });
  }

  #node(type: string, name: string, content: JsonObject): string {
    const id = `${type}:${name}`;
    this.#nodes[id] = { Type: type, Name: name, ...content };
    return id;
  }

  /** Removes splitters that are only a part of another one. */
  #nodesFrom(start: string): Record<string, JsonObject> {
    const reached: Record<string, JsonObject> = {};
    const pending = [start];
    for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
      const node = this.#nodes[id];
      if (!node || reached[id]) continue;
      reached[id] = node;
      const branches = [...objectsAt(node, "Routes"), ...objectsAt(node, "Splits")];
      pending.push(...branches.map((branch) => textAt(branch, "NextNode")));
    }
    return reached;
  }

  /** A router or splitter. TCP allows none: left out if the caller asks for TCP, else refused. */
  #routing(kind: string, service: string): JsonObject | undefined {
    const entry = this.#find(kind, service);
    const { protocol } = this.#request.overrides;
    if (!entry || (protocol || this.#protocol) !== "tcp") return entry;
    if (protocol === "tcp") return undefined;
    throw new HttpRefusal(
      500,
      `discovery chain "${service}" uses a protocol "tcp" that does not permit advanced routing ` +
        "or splitting behavior",
    );
  }

  /** All services of a chain speak one protocol. */
  #agree(service: string): void {
    const { overrides, service: own } = this.#request;
    if (overrides.protocol !== "" || service === own) return;
    const protocol = protocolOf(service, this.#find);
    if (protocol === this.#protocol) return;
    throw new HttpRefusal(
      500,
      `discovery chain "${own}" uses inconsistent protocols; service "${service}" has ` +
        `"${protocol}" which is not "${this.#protocol}"`,
    );
  }

  /** Eight hex digits where an override changed something. */
  #customization(): string {
    const { protocol, connectTimeout, meshGatewayMode } = this.#request.overrides;
    const changes = [
      protocol !== this.#protocol ? protocol : "",
      this.#targets.timeoutOverridden ? String(connectTimeout) : "",
      this.#targets.gatewayOverridden ? meshGatewayMode : "",
    ];
    if (changes.every((change) => change === "")) return "";
    return createHash("sha256").update(changes.join("\n")).digest("hex").slice(0, 8);
  }
}

/** The changes of both splits. The inner split changes requests last, the outer split responses. */
function withHeadersOf(outer: JsonObject, inner: JsonObject): JsonObject {
  const merged = (name: string, [first, last]: readonly [JsonObject, JsonObject]) => {
    const [before, after] = [objectAt(first, name), objectAt(last, name)];
    return withoutEmpty({
      Add: { ...objectAt(before, "Add"), ...objectAt(after, "Add") },
      Set: { ...objectAt(before, "Set"), ...objectAt(after, "Set") },
      Remove: [...textsAt(before, "Remove"), ...textsAt(after, "Remove")],
    });
  };
  return {
    ...inner,
    ...withoutEmpty({
      RequestHeaders: merged("RequestHeaders", [outer, inner]),
      ResponseHeaders: merged("ResponseHeaders", [inner, outer]),
    }),
  };
}
