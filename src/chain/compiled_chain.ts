/** A compiled discovery chain, with Consul's values (`/v1/discovery-chain/:service`). @module */

export interface DiscoveryChain {
  readonly service: string;
  readonly protocol: string;
  /** Consul's hash of the upstream's overrides; `""`: none. Names of Envoy's clusters begin with it. */
  readonly customization: string;
  readonly startNode: string;
  readonly nodes: Readonly<Record<string, ChainNode>>;
  readonly targets: Readonly<Record<string, ChainTarget>>;
}

export type ChainNode = RouterNode | SplitterNode | ResolverNode;

export function chainHasRegexes({ nodes }: DiscoveryChain): boolean {
  return Object.values(nodes).some((node) =>
    node.kind === "router" && node.routes.some(({ match }) => {
      const kinds = match ? [match.path, ...match.headers, ...match.query] : [];
      return kinds.some((each) => each?.kind === "regex");
    })
  );
}

export interface RouterNode {
  readonly kind: "router";
  readonly name: string;
  /** The first route that matches is taken. */
  readonly routes: readonly RouterRoute[];
}

export interface RouterRoute {
  /** `null`: matches every request. */
  readonly match: RouteMatch | null;
  readonly destination: RouteDestination;
  readonly next: string;
  /** Members that this proxy does not know: `.Match.HTTP.PathTemplate`. */
  readonly unknown: readonly string[];
}

/** All conditions must hold; a path of `null` and an empty list: any. */
export interface RouteMatch {
  /** Compared with the path without its query; a prefix is one of bytes, a regex matches the whole path. */
  readonly path: { readonly kind: "exact" | "prefix" | "regex"; readonly value: string } | null;
  /** For the path, unless it is a regex. */
  readonly ignoreCase: boolean;
  readonly methods: readonly string[];
  readonly headers: readonly ValueMatch[];
  readonly query: readonly ValueMatch[];
}

export interface ValueMatch {
  readonly name: string;
  readonly kind: "present" | "exact" | "prefix" | "suffix" | "contains" | "regex";
  readonly value: string;
  readonly ignoreCase: boolean;
  readonly invert: boolean;
}

/** Settings of a route besides its target. Times: 0: not set; negative: no limit. */
export interface RouteDestination {
  /** `""`: the service of the chain. */
  readonly service: string;
  /** Replaces the matched part of the path; `""`: the path stays. */
  readonly prefixRewrite: string;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly retries: number;
  readonly retryOnConnectFailure: boolean;
  readonly retryOn: readonly string[];
  readonly retryOnStatuses: readonly number[];
  readonly requestHeaders: HeaderTexts | null;
  readonly responseHeaders: HeaderTexts | null;
}

/** Changes of headers, as they were written. */
export interface HeaderTexts {
  readonly remove: readonly string[];
  readonly set: Readonly<Record<string, string>>;
  readonly add: Readonly<Record<string, string>>;
}

export interface SplitterNode {
  readonly kind: "splitter";
  readonly name: string;
  readonly splits: readonly ChainSplit[];
  /** Balancing of the first resolver below that hashes requests; absent: none does. */
  readonly balancing?: ChainBalancing;
}

export interface ChainSplit {
  /** Per cent of the requests, to the hundredth. */
  readonly weight: number;
  readonly next: string;
  /** See {@link RouterRoute}. */
  readonly unknown: readonly string[];
  readonly requestHeaders: HeaderTexts | null;
  readonly responseHeaders: HeaderTexts | null;
}

export interface ResolverNode {
  readonly kind: "resolver";
  readonly name: string;
  readonly target: string;
  readonly connectTimeoutMs: number;
  /** For a whole HTTP exchange; 0: none. */
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
  readonly hashPolicies?: readonly ChainHashPolicy[];
}

/** A part of a request whose hash picks the endpoint, as configured. */
export interface ChainHashPolicy {
  /** `header`, `cookie`, `query_parameter` or `""`. */
  readonly field: string;
  readonly name: string;
  readonly sourceIp: boolean;
  readonly terminal: boolean;
  readonly cookie: ChainCookie | null;
}

export interface ChainCookie {
  readonly isSession: boolean;
  readonly ttlMs: number;
  readonly path: string;
}

/** {@link ChainHashPolicy} after checks; `terminal`: policies after it count only while there is no hash. */
export type HashPolicy =
  & { readonly terminal: boolean }
  & (
    | { readonly kind: "header" | "query"; readonly name: string }
    | { readonly kind: "cookie"; readonly name: string; readonly made: MadeCookie | null }
    /** The caller's address. */
    | { readonly kind: "source" }
  );

/** The cookie that a caller without it gets in the response; `null` elsewhere: it gets none. */
export interface MadeCookie {
  /** 0: it ends with the session. */
  readonly maxAgeSeconds: number;
  /** `""`: the path of the request. */
  readonly path: string;
}

/** {@link ChainBalancing} with all defaults applied. */
export type LoadBalancing =
  | { readonly kind: "round_robin" | "random" | "maglev" }
  | { readonly kind: "least_request"; readonly choiceCount: number }
  | { readonly kind: "ring_hash"; readonly minimumSize: number; readonly maximumSize: number };

export interface ChainTarget {
  readonly id: string;
  /** The name of Envoy's cluster: `db.default.dc1.internal.<trust domain>`. */
  readonly name: string;
  readonly service: string;
  readonly subset: string;
  readonly namespace: string;
  readonly partition: string;
  /** `""` for peer targets. */
  readonly datacenter: string;
  readonly peer: string;
  readonly meshGatewayMode: string;
  /** `PrioritizeByLocality`, which only Consul Enterprise gives; `""` and `none`: all are alike. */
  readonly localityMode: string;
  /** A bexpr filter, passed to the agent unchanged. */
  readonly filter: string;
  readonly onlyPassing: boolean;
  readonly connectTimeoutMs: number;
  readonly external: boolean;
  readonly sni: string;
}
