/**
 * Config entries that the agent is asked for itself, checked and in our own words: what is in no
 * registration, chain or intention.
 *
 * @module
 */

/** A service-defaults or proxy-defaults entry, as far as no registration has it. */
export interface Defaults {
  readonly extensions: readonly EnvoyExtension[];
  /** Of service-defaults, in Enterprise; absent: none. */
  readonly rateLimits?: InstanceRateLimits;
  /** `strict` or `permissive`; absent: the entry does not say. No registration has it. */
  readonly mutualTlsMode?: string;
  /** Keys of the entry that are not followed, as sentences for the log. */
  readonly warnings?: readonly string[];
}

export interface EnvoyExtension {
  /** `builtin/lua`. */
  readonly name: string;
  /** Without it nothing of the configuration is to be used. */
  readonly required: boolean;
  /** As they were written. */
  readonly arguments: unknown;
}

/** Of each instance of a service; 0 requests a second: no limit, a burst of 0: as many as a second's. */
export interface RequestRate {
  readonly requestsPerSecond: number;
  readonly burst: number;
}

export interface InstanceRateLimits extends RequestRate {
  /** In place of the above for paths; the first that matches. */
  readonly routes: readonly RouteRateLimit[];
}

/** One of the three is not `""`. */
export interface RouteRateLimit extends RequestRate {
  readonly exact: string;
  readonly prefix: string;
  readonly regex: string;
}

/** A jwt-provider entry. */
export type JwtProvider =
  | {
    readonly kind: "usable";
    readonly issuer: string;
    /** A token is for one of them; empty: for anybody. */
    readonly audiences: readonly string[];
    readonly keys: JwtKeys;
    /** Empty: where tokens usually are. */
    readonly locations: readonly JwtLocation[];
    readonly forwarding?: {
      readonly headerName: string;
      readonly padForwardPayloadHeader: boolean;
    };
    readonly clockSkewSeconds: number;
    /** Verified tokens that are remembered; absent: nothing is said. */
    readonly cacheSize?: number;
  }
  | {
    readonly kind: "refused";
    readonly reason: string;
    /** As `forwarding`'s: only the proxy may say anything there, whatever else is wrong. */
    readonly headerName?: string;
  };

/** Of `remote`, 0: nothing is said. */
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

/** The mesh config entry, as far as sidecars go by it; blocks that it has not are Consul's defaults. */
export interface Mesh {
  readonly tls?: MeshTls;
  readonly http?: MeshHttp;
  /** Keys of the entry that are not followed, as sentences for the log. */
  readonly warnings?: readonly string[];
}

/** Of requests that come in. */
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
