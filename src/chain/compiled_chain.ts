/**
 * A compiled discovery chain: where connections to an upstream may go. The values are Consul's
 * (`/v1/discovery-chain/:service`), the shape is ours; ids are opaque keys.
 *
 * @module
 */

export interface DiscoveryChain {
  readonly service: string;
  readonly protocol: string;
  readonly startNode: string;
  readonly nodes: Readonly<Record<string, ChainNode>>;
  readonly targets: Readonly<Record<string, ChainTarget>>;
}

export type ChainNode =
  | { readonly kind: "router" | "splitter"; readonly name: string }
  | ResolverNode;

export interface ResolverNode {
  readonly kind: "resolver";
  readonly name: string;
  readonly target: string;
  readonly connectTimeoutMs: number;
  /** Of a whole HTTP exchange; 0: none. */
  readonly requestTimeoutMs: number;
  readonly failoverTargets: readonly string[];
  readonly balancing: ChainBalancing;
}

/** `LoadBalancer` of a resolver; `""` policy means round robin. */
export interface ChainBalancing {
  readonly policy: string;
  readonly minimumRingSize?: number;
  readonly maximumRingSize?: number;
  readonly choiceCount?: number;
}

/** {@link ChainBalancing} with nothing left open. */
export type LoadBalancing =
  | { readonly kind: "round_robin" | "random" | "maglev" }
  | { readonly kind: "least_request"; readonly choiceCount: number }
  | { readonly kind: "ring_hash"; readonly minimumSize: number; readonly maximumSize: number };

export interface ChainTarget {
  readonly id: string;
  readonly service: string;
  readonly subset: string;
  readonly namespace: string;
  readonly partition: string;
  /** `""` for peer targets. */
  readonly datacenter: string;
  readonly peer: string;
  readonly meshGatewayMode: string;
  /** bexpr, given to the agent as it is. */
  readonly filter: string;
  readonly onlyPassing: boolean;
  readonly connectTimeoutMs: number;
  readonly external: boolean;
  readonly sni: string;
}
