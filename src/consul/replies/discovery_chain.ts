/**
 * The compiled discovery chain of an upstream. Compiled for TCP it has neither routers nor splitters, and
 * begins with a resolver.
 * @module
 */

import * as v from "valibot";
import { formatDurationMs, prepareRegexes } from "../../base/mod.ts";
import { type ChainBalancing, type ChainHashPolicy, chainHasRegexes } from "../../chain/mod.ts";
import type { ChainRequest } from "../model/consul.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { answerOf, isMissing, pollCall } from "./questions.ts";
import { RouteJson, SplitJson, toRoute, toSplit } from "./chain_routes.ts";
import {
  count,
  duration,
  flag,
  list,
  map,
  object,
  readReply,
  replyInvalid,
  text,
} from "./schema.ts";
import type { ChainNode, ChainTarget, DiscoveryChain } from "../model/values.ts";

/** Consul's default, also in place of a negative value, which Consul does not check. */
const CONNECT_TIMEOUT_MS = 5_000;

const NodeJson = object({
  Type: text,
  Name: text,
  Routes: list(RouteJson),
  Splits: list(SplitJson),
  Resolver: v.nullish(object({
    ConnectTimeout: duration,
    RequestTimeout: duration,
    Target: text,
    Failover: v.nullish(object({ Targets: list(v.string()) })),
  })),
  LoadBalancer: v.nullish(object({
    Policy: text,
    RingHashConfig: v.nullish(object({ MinimumRingSize: count, MaximumRingSize: count })),
    LeastRequestConfig: v.nullish(object({ ChoiceCount: count })),
    HashPolicies: list(object({
      Field: text,
      FieldValue: text,
      CookieConfig: v.nullish(object({ Session: flag, TTL: duration, Path: text })),
      SourceIP: flag,
      Terminal: flag,
    })),
  })),
});

const TargetJson = object({
  ID: text,
  Name: text,
  Service: text,
  ServiceSubset: text,
  Namespace: text,
  Partition: text,
  Datacenter: text,
  Peer: text,
  MeshGateway: v.nullish(object({ Mode: text })),
  PrioritizeByLocality: v.nullish(object({ Mode: text })),
  Subset: v.nullish(object({ Filter: text, OnlyPassing: flag })),
  ConnectTimeout: duration,
  External: flag,
  SNI: text,
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
    .map(([id, target]) => [id, toTarget(id, target)] as const);
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
    throw replyInvalid("the discovery chain", `a node has the unknown type ${quote(node.Type)}`);
  }
  return {
    kind: "resolver",
    name: node.Name,
    target: node.Resolver.Target,
    connectTimeoutMs: timeoutMs(node.Resolver.ConnectTimeout),
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
    ...(hashed?.length ? { hashPolicies: hashed.map(toHashPolicy) } : {}),
  };
}

type HashPolicyJson = NonNullable<
  NonNullable<v.InferOutput<typeof NodeJson>["LoadBalancer"]>["HashPolicies"]
>[number];

function toHashPolicy(policy: HashPolicyJson): ChainHashPolicy {
  const { CookieConfig: cookie } = policy;
  return {
    field: policy.Field,
    name: policy.FieldValue,
    sourceIp: policy.SourceIP,
    terminal: policy.Terminal,
    cookie: cookie ? { isSession: cookie.Session, ttlMs: cookie.TTL, path: cookie.Path } : null,
  };
}

function toTarget(id: string, target: v.InferOutput<typeof TargetJson>): ChainTarget {
  return {
    id,
    name: target.Name,
    service: target.Service,
    subset: target.ServiceSubset,
    namespace: target.Namespace || "default",
    partition: target.Partition || "default",
    datacenter: target.Datacenter,
    peer: target.Peer,
    meshGatewayMode: target.MeshGateway?.Mode ?? "",
    localityMode: target.PrioritizeByLocality?.Mode ?? "",
    filter: target.Subset?.Filter ?? "",
    onlyPassing: target.Subset?.OnlyPassing ?? false,
    connectTimeoutMs: timeoutMs(target.ConnectTimeout),
    external: target.External,
    sni: target.SNI,
  };
}

function timeoutMs(ms: number): number {
  return ms > 0 ? ms : CONNECT_TIMEOUT_MS;
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
  return {
    name: `chain ${service}${datacenter ? ` dc=${datacenter}` : ""}`,
    resource: "chain",
    lacks: (after, before) => isMissing(partsOf(after), partsOf(before), (name) => name),
    async poll(request) {
      const reply = await pollCall(client, request, {
        resource: "chain",
        what: `read the discovery chain of ${quote(service)}`,
        method: "POST",
        path: `/v1/discovery-chain/${encodeURIComponent(service)}`,
        query: { "compile-dc": datacenter },
        body,
        changesNothing: true,
      });
      const answer = answerOf(reply, request, readChain);
      // Later readers of the chain must not wait for this.
      if (chainHasRegexes(answer.value)) await prepareRegexes();
      return answer;
    },
  };
}

function partsOf({ nodes, targets }: DiscoveryChain): readonly string[] {
  return [...Object.keys(nodes), ...Object.keys(targets).map((id) => `target ${id}`)];
}

function quote(name: string): string {
  return JSON.stringify(name);
}
