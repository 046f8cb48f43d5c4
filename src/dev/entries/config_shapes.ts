/**
 * The shapes of the config entries that the agent keeps, one per kind. Other kinds that Consul knows
 * are refused by name rather than stored half understood.
 *
 * @module
 */

import { list, map, object, type Shape } from "../http/decode.ts";

const MESH_GATEWAY = object({ Mode: "string" });
const TRANSPARENT_PROXY = object({ OutboundListenerPort: "number", DialedDirectly: "bool" });
const EXPOSE = object({
  Checks: "bool",
  Paths: list(object({
    ListenerPort: "number",
    Path: "string",
    LocalPathPort: "number",
    Protocol: "string",
  })),
});
const UPSTREAM_CONFIG = object({
  Name: "string",
  Peer: "string",
  Protocol: "string",
  ConnectTimeoutMs: "number",
  Limits: object({
    MaxConnections: "number",
    MaxPendingRequests: "number",
    MaxConcurrentRequests: "number",
  }),
  PassiveHealthCheck: object({
    Interval: "any",
    MaxFailures: "number",
    EnforcingConsecutive5xx: "number",
    MaxEjectionPercent: "number",
    BaseEjectionTime: "any",
  }),
  MeshGateway: MESH_GATEWAY,
  BalanceOutboundConnections: "string",
  EnvoyListenerJSON: "string",
  EnvoyClusterJSON: "string",
});
const HEADER_RULES = object({
  Add: map("string"),
  Set: map("string"),
  Remove: list("string"),
});
const JWT = object({
  Providers: list(object({
    Name: "string",
    VerifyClaims: list(object({ Path: list("string"), Value: "string" })),
  })),
});
const HEADER_MATCH = object({
  Name: "string",
  Present: "bool",
  Exact: "string",
  Prefix: "string",
  Suffix: "string",
  Contains: "string",
  Regex: "string",
  IgnoreCase: "bool",
  Invert: "bool",
});
const TLS_DIRECTION = object({
  TLSMinVersion: "string",
  TLSMaxVersion: "string",
  CipherSuites: list("string"),
});
const BASE: Readonly<Record<string, Shape>> = { Kind: "string", Meta: map("string") };
const NAMED: Readonly<Record<string, Shape>> = { ...BASE, Name: "string" };

const FAILOVER = object({
  Service: "string",
  ServiceSubset: "string",
  Datacenters: list("string"),
  Targets: list(object({
    Service: "string",
    ServiceSubset: "string",
    Datacenter: "string",
    Peer: "string",
  })),
});

const LOAD_BALANCER = object({
  Policy: "string",
  RingHashConfig: object({ MinimumRingSize: "number", MaximumRingSize: "number" }),
  LeastRequestConfig: object({ ChoiceCount: "number" }),
  HashPolicies: list(object({
    Field: "string",
    FieldValue: "string",
    CookieConfig: object({ Session: "bool", TTL: "any", Path: "string" }),
    SourceIP: "bool",
    Terminal: "bool",
  })),
});

const ROUTE = object({
  Match: object({
    HTTP: object({
      PathExact: "string",
      PathPrefix: "string",
      PathRegex: "string",
      CaseInsensitive: "bool",
      Header: list(HEADER_MATCH),
      QueryParam: list(
        object({ Name: "string", Present: "bool", Exact: "string", Regex: "string" }),
      ),
      Methods: list("string"),
    }),
  }),
  Destination: object({
    Service: "string",
    ServiceSubset: "string",
    PrefixRewrite: "string",
    RequestTimeout: "any",
    IdleTimeout: "any",
    NumRetries: "number",
    RetryOnConnectFailure: "bool",
    RetryOn: list("string"),
    RetryOnStatusCodes: list("number"),
    RequestHeaders: HEADER_RULES,
    ResponseHeaders: HEADER_RULES,
  }),
});

/** Kinds that can be written here. */
export const CONFIG_SHAPES: Readonly<Record<string, Shape>> = {
  "service-defaults": object({
    ...NAMED,
    Protocol: "string",
    Mode: "string",
    TransparentProxy: TRANSPARENT_PROXY,
    MutualTLSMode: "string",
    MeshGateway: MESH_GATEWAY,
    Expose: EXPOSE,
    ExternalSNI: "string",
    UpstreamConfig: object({ Overrides: list(UPSTREAM_CONFIG), Defaults: UPSTREAM_CONFIG }),
    Destination: object({ Addresses: list("string"), Port: "number" }),
    MaxInboundConnections: "number",
    LocalConnectTimeoutMs: "number",
    LocalRequestTimeoutMs: "number",
    BalanceInboundConnections: "string",
    MaxRequestHeadersKB: "number",
    RateLimits: "any",
    EnvoyExtensions: "any",
  }),
  "proxy-defaults": object({
    ...NAMED,
    Config: "any",
    Mode: "string",
    TransparentProxy: TRANSPARENT_PROXY,
    MutualTLSMode: "string",
    MeshGateway: MESH_GATEWAY,
    Expose: EXPOSE,
    AccessLogs: object({
      Enabled: "bool",
      DisableListenerLogs: "bool",
      Type: "string",
      Path: "string",
      JSONFormat: "string",
      TextFormat: "string",
    }),
    EnvoyExtensions: "any",
    PrioritizeByLocality: object({ Mode: "string" }),
  }),
  mesh: object({
    ...BASE,
    TransparentProxy: object({ MeshDestinationsOnly: "bool" }),
    AllowEnablingPermissiveMutualTLS: "bool",
    ValidateClusters: "bool",
    TLS: object({ Incoming: TLS_DIRECTION, Outgoing: TLS_DIRECTION }),
    HTTP: object({
      SanitizeXForwardedClientCert: "bool",
      Incoming: object({
        RequestNormalization: object({
          InsecureDisablePathNormalization: "bool",
          MergeSlashes: "bool",
          PathWithEscapedSlashesAction: "string",
          HeadersWithUnderscoresAction: "string",
        }),
      }),
    }),
    Peering: object({ PeerThroughMeshGateways: "bool" }),
  }),
  "service-resolver": object({
    ...NAMED,
    DefaultSubset: "string",
    Subsets: map(object({ Filter: "string", OnlyPassing: "bool" })),
    Redirect: object({
      Service: "string",
      ServiceSubset: "string",
      Datacenter: "string",
      Peer: "string",
    }),
    Failover: map(FAILOVER),
    ConnectTimeout: "any",
    RequestTimeout: "any",
    LoadBalancer: LOAD_BALANCER,
    PrioritizeByLocality: object({ Mode: "string" }),
  }),
  "service-splitter": object({
    ...NAMED,
    Splits: list(object({
      Weight: "number",
      Service: "string",
      ServiceSubset: "string",
      RequestHeaders: HEADER_RULES,
      ResponseHeaders: HEADER_RULES,
    })),
  }),
  "service-router": object({ ...NAMED, Routes: list(ROUTE) }),
  "jwt-provider": object({
    ...NAMED,
    JSONWebKeySet: object({
      Local: object({ JWKS: "string", Filename: "string" }),
      Remote: object({
        URI: "string",
        RequestTimeoutMs: "number",
        CacheDuration: "any",
        FetchAsynchronously: "bool",
        UseSNI: "bool",
        RetryPolicy: object({
          NumRetries: "number",
          RetryPolicyBackOff: object({ BaseInterval: "any", MaxInterval: "any" }),
        }),
        JWKSCluster: object({
          DiscoveryType: "string",
          TLSCertificates: "any",
          ConnectTimeout: "any",
        }),
      }),
    }),
    Issuer: "string",
    Audiences: list("string"),
    Locations: list(object({
      Header: object({ Name: "string", ValuePrefix: "string", Forward: "bool" }),
      QueryParam: object({ Name: "string" }),
      Cookie: object({ Name: "string" }),
    })),
    Forwarding: object({ HeaderName: "string", PadForwardPayloadHeader: "bool" }),
    ClockSkewSeconds: "number",
    CacheConfig: object({ Size: "number" }),
  }),
  "service-intentions": object({
    ...NAMED,
    JWT,
    Sources: list(object({
      Name: "string",
      Action: "string",
      Permissions: list(object({
        Action: "string",
        HTTP: object({
          PathExact: "string",
          PathPrefix: "string",
          PathRegex: "string",
          Header: list(HEADER_MATCH),
          Methods: list("string"),
        }),
        JWT,
      })),
      Precedence: "number",
      Type: "string",
      Description: "string",
      Peer: "string",
    })),
  }),
};

/** Kinds of Consul 1.22.7 CE that can be read (always absent) but not written here. */
export const READ_ONLY_KINDS: ReadonlySet<string> = new Set([
  "ingress-gateway",
  "terminating-gateway",
  "api-gateway",
  "bound-api-gateway",
  "http-route",
  "tcp-route",
  "inline-certificate",
  "file-system-certificate",
  "exported-services",
  "sameness-group",
]);
