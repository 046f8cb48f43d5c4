/**
 * The compiled discovery chain of an upstream. Compiled for TCP it has neither routers nor splitters, and
 * begins with a resolver.
 *
 * @module
 */

import * as v from "valibot";
import { formatDurationMs, prepareRegexes } from "../../base/mod.ts";
import { type ChainBalancing, chainHasRegexes } from "../../chain/mod.ts";
import type { ChainRequest } from "../model/consul.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { callQuestion, isMissing } from "./questions.ts";
import { RouteJson, SplitJson, toRoute, toSplit } from "./chain_routes.ts";
import {
  count,
  duration,
  flag,
  list,
  map,
  mode,
  object,
  readReply,
  renamed,
  replyInvalid,
  tenancy,
  text,
} from "./schema.ts";
import type { ChainNode, DiscoveryChain } from "../model/values.ts";

/** Consul's default, also in place of a negative value, which Consul does not check. */
const CONNECT_TIMEOUT_MS = 5_000;

const connectTimeout = v.pipe(duration, v.transform((ms) => ms > 0 ? ms : CONNECT_TIMEOUT_MS));

const NodeJson = object({
  Type: text,
  Name: text,
  Routes: list(RouteJson),
  Splits: list(SplitJson),
  Resolver: v.nullish(object({
    ConnectTimeout: connectTimeout,
    RequestTimeout: duration,
    Target: text,
    Failover: v.nullish(object({ Targets: list(v.string()) })),
  })),
  LoadBalancer: v.nullish(object({
    Policy: text,
    RingHashConfig: v.nullish(object({ MinimumRingSize: count, MaximumRingSize: count })),
    LeastRequestConfig: v.nullish(object({ ChoiceCount: count })),
    HashPolicies: list(renamed({
      field: ["Field", text],
      name: ["FieldValue", text],
      sourceIp: ["SourceIP", flag],
      terminal: ["Terminal", flag],
      cookie: [
        "CookieConfig",
        v.nullish(
          renamed({ isSession: ["Session", flag], ttlMs: ["TTL", duration], path: ["Path", text] }),
          null,
        ),
      ],
    })),
  })),
});

const TargetJson = renamed({
  name: ["Name", text],
  service: ["Service", text],
  subset: ["ServiceSubset", text],
  namespace: ["Namespace", tenancy],
  partition: ["Partition", tenancy],
  datacenter: ["Datacenter", text],
  peer: ["Peer", text],
  meshGatewayMode: ["MeshGateway", mode],
  localityMode: ["PrioritizeByLocality", mode],
  endpoints: [
    "Subset",
    v.nullish(renamed({ filter: ["Filter", text], onlyPassing: ["OnlyPassing", flag] }), {}),
  ],
  connectTimeoutMs: ["ConnectTimeout", connectTimeout],
  external: ["External", flag],
  sni: ["SNI", text],
});

const ChainReply = object({
  Chain: object({
    ServiceName: text,
    Protocol: text,
    CustomizationHash: text,
    StartNode: text,
    Nodes: map(NodeJson),
    Targets: map(TargetJson),
  }),
});

export function readChain(json: unknown): DiscoveryChain {
  const { Chain: chain } = readReply(ChainReply, json, "the discovery chain");
  const nodes = Object.entries(chain.Nodes).map(([id, node]) => [id, toNode(node)] as const);
  const targets = Object.entries(chain.Targets)
    .map(([id, { endpoints, ...target }]) => [id, { id, ...target, ...endpoints }] as const);
  return {
    service: chain.ServiceName,
    protocol: chain.Protocol || "tcp",
    customization: chain.CustomizationHash,
    startNode: chain.StartNode,
    nodes: Object.fromEntries(nodes),
    targets: Object.fromEntries(targets),
  };
}

function toNode(node: v.InferOutput<typeof NodeJson>): ChainNode {
  if (node.Type === "router") {
    return { kind: "router", name: node.Name, routes: node.Routes.map(toRoute) };
  }
  if (node.Type === "splitter") {
    const splits = node.Splits.map(toSplit);
    return { kind: "splitter", name: node.Name, splits, balancing: toBalancing(node) };
  }
  if (node.Type !== "resolver" || !node.Resolver) {
    const fact = `a node has the unknown type ${JSON.stringify(node.Type)}`;
    throw replyInvalid("the discovery chain", fact);
  }
  return {
    kind: "resolver",
    name: node.Name,
    target: node.Resolver.Target,
    connectTimeoutMs: node.Resolver.ConnectTimeout,
    requestTimeoutMs: Math.max(node.Resolver.RequestTimeout, 0),
    failoverTargets: node.Resolver.Failover?.Targets ?? [],
    balancing: toBalancing(node),
  };
}

function toBalancing({ LoadBalancer: balancer }: v.InferOutput<typeof NodeJson>): ChainBalancing {
  const { RingHashConfig: ring, LeastRequestConfig: least, HashPolicies: hashed } = balancer ?? {};
  return {
    policy: balancer?.Policy ?? "",
    ...(ring?.MinimumRingSize ? { minimumRingSize: ring.MinimumRingSize } : {}),
    ...(ring?.MaximumRingSize ? { maximumRingSize: ring.MaximumRingSize } : {}),
    ...(least?.ChoiceCount ? { choiceCount: least.ChoiceCount } : {}),
    ...(hashed?.length ? { hashPolicies: hashed } : {}),
  };
}

export function chainQuestion(client: Client, chain: ChainRequest): PollQuestion<DiscoveryChain> {
  const { service, datacenter } = chain;
  const body = {
    ...(chain.protocol ? { OverrideProtocol: chain.protocol } : {}),
    // The unit is required: Consul reads a bare number as nanoseconds.
    ...(chain.connectTimeoutMs === undefined
      ? {}
      : { OverrideConnectTimeout: formatDurationMs(chain.connectTimeoutMs) }),
    ...(chain.meshGatewayMode ? { OverrideMeshGateway: { Mode: chain.meshGatewayMode } } : {}),
  };
  return callQuestion(client, {
    name: `chain ${service}${datacenter ? ` dc=${datacenter}` : ""}`,
    resource: "chain",
    lacks: (after, before) => isMissing(partsOf(after), partsOf(before), (name) => name),
    call: {
      what: `read the discovery chain of ${JSON.stringify(service)}`,
      method: "POST",
      path: `/v1/discovery-chain/${encodeURIComponent(service)}`,
      query: { "compile-dc": datacenter },
      body,
      changesNothing: true,
    },
    read: readChain,
    async finish(value) {
      // Later readers of the chain must not wait for this.
      if (chainHasRegexes(value)) await prepareRegexes();
      return value;
    },
  });
}

function partsOf({ nodes, targets }: DiscoveryChain): readonly string[] {
  return [...Object.keys(nodes), ...Object.keys(targets).map((id) => `target ${id}`)];
}
