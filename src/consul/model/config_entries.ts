/** Facts of config entries that no registration, chain or intention carries. @module */

/** The part of a service-defaults or proxy-defaults entry that no registration has. */
export interface Defaults {
  readonly extensions: readonly EnvoyExtension[];
  /** Only service-defaults of Enterprise have some; absent: none. */
  readonly rateLimits?: InstanceRateLimits;
  /** `strict` or `permissive`; absent: the entry does not say. No registration has it. */
  readonly mutualTlsMode?: string;
  /** `postern_plugins` of the `Config` of proxy-defaults, as written. */
  readonly plugins?: unknown;
  /** `postern_upstream_plugins` of the `Config` of proxy-defaults, as written. */
  readonly upstreamPlugins?: unknown;
  /** Keys of the entry that are not followed, as sentences for the log. */
  readonly warnings?: readonly string[];
}

export interface EnvoyExtension {
  /** `builtin/lua`. */
  readonly name: string;
  /** Without a plugin for it no part of the configuration is used. */
  readonly required: boolean;
  /** The arguments as written. */
  readonly arguments: unknown;
}

/** A limit of each instance of a service. 0 requests a second: no limit; a burst of 0: one second's. */
export interface RequestRate {
  readonly requestsPerSecond: number;
  readonly burst: number;
}

export interface InstanceRateLimits extends RequestRate {
  /** Limits that replace the above for a path; the first match applies. */
  readonly routes: readonly RouteRateLimit[];
}

/** One of `exact`, `prefix` and `regex` is not `""`. */
export interface RouteRateLimit extends RequestRate {
  readonly exact: string;
  readonly prefix: string;
  readonly regex: string;
}

export type JwtProvider =
  | {
    readonly kind: "usable";
    readonly issuer: string;
    /** A token must be for one of them; empty: any audience. */
    readonly audiences: readonly string[];
    readonly keys: JwtKeys;
    /** Empty: the usual places. */
    readonly locations: readonly JwtLocation[];
    readonly forwarding?: {
      readonly headerName: string;
      readonly padForwardPayloadHeader: boolean;
    };
    readonly clockSkewSeconds: number;
    /** Verified tokens that are remembered; absent: the entry does not say. */
    readonly cacheSize?: number;
  }
  | {
    readonly kind: "refused";
    readonly reason: string;
    /** The header of `forwarding`, which only the proxy may set although the provider is refused. */
    readonly headerName?: string;
  };

/** Zeros of `remote`: the entry does not say. */
export type JwtKeys =
  /** Base64 of a key set. */
  | { readonly kind: "text"; readonly jwks: string }
  | { readonly kind: "file"; readonly filename: string }
  | {
    readonly kind: "remote";
    readonly uri: string;
    readonly requestTimeoutMs: number;
    readonly cacheDurationMs: number;
    readonly fetchAsynchronously: boolean;
    readonly retries: number;
    readonly baseIntervalMs: number;
    readonly maxIntervalMs: number;
  };

export type JwtLocation =
  | {
    readonly header: {
      readonly name: string;
      readonly valuePrefix: string;
      readonly forward: boolean;
    };
  }
  | { readonly queryParam: { readonly name: string } }
  | { readonly cookie: { readonly name: string } };

/** The part of the mesh config entry that concerns sidecars; an absent block means Consul's defaults. */
export interface Mesh {
  readonly tls?: MeshTls;
  readonly http?: MeshHttp;
  /** Keys of the entry that are not followed, as sentences for the log. */
  readonly warnings?: readonly string[];
}

/** Rules for inbound requests. */
export interface MeshHttp {
  readonly sanitizesForwardedClientCert: boolean;
  readonly normalizesPaths: boolean;
  readonly mergesSlashes: boolean;
  /** `KEEP_UNCHANGED`, `REJECT_REQUEST`, ... or `""`. */
  readonly escapedSlashesAction: string;
  /** `ALLOW`, `REJECT_REQUEST`, `DROP_HEADER` or `""`. */
  readonly underscoresAction: string;
}

/** The mesh config entry's TLS block; absent fields are Consul's defaults. */
export interface MeshTls {
  readonly incoming: MeshTlsDirection;
  readonly outgoing: MeshTlsDirection;
}

export interface MeshTlsDirection {
  /** `TLS_AUTO`, `TLSv1_0` .. `TLSv1_3`, or `""`. */
  readonly minVersion: string;
  readonly maxVersion: string;
  /** IANA names. */
  readonly cipherSuites: readonly string[];
}
