/**
 * What the configuration of one listener's or upstream's credentials is read against.
 *
 * @module
 */

import type { ConfigPath, Problem } from "../../base/schema.ts";
import type { NamedSpec } from "../envoy/mod.ts";
import type { CredentialsPlan, SdsNode, SdsServer } from "../plan.ts";

export interface TlsConfigContext {
  readonly kind: "listener" | "upstream";
  /** Where the value is, for problems: `["upstreams", 0, "tls"]`. */
  readonly path: ConfigPath;
  /** By name, from `parseSdsServers`. */
  readonly sdsServers: Readonly<Record<string, SdsServer>>;
  /** Named by an `SdsSecretConfig` that has no `sds_config`. */
  readonly staticSecrets: readonly NamedSpec[];
  /** Who we are to SDS servers that the value describes itself (`google_grpc`). */
  readonly node: SdsNode;
  /** `SPIFFE_ENDPOINT_SOCKET` is looked up here. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

export type ParsedTls =
  | {
    readonly kind: "valid";
    readonly plan: CredentialsPlan;
    /** What an `UpstreamTlsContext` says. */
    readonly sni?: string;
    /** What was taken otherwise than it reads; whole sentences. */
    readonly warnings: readonly string[];
  }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

/** Where warnings go. */
export interface Warnings {
  warn(message: string): void;
}

export interface TlsReading extends TlsConfigContext, Warnings {
  /** Why no SDS server may be named at all. */
  readonly noServers?: string;
}

/** Fields of a plan that a form gives. */
export interface TlsForm {
  readonly plan: CredentialsPlan;
  readonly sni?: string;
}

/** What the configuration of an SDS server is read against. */
export interface ServerReading extends Warnings {
  /** Who we are, unless a server's configuration says otherwise. */
  readonly node: SdsNode;
}
