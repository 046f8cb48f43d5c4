/**
 * The surroundings in which the configuration of credentials is read.
 *
 * @module
 */

import type { ConfigPath, Problem } from "../../base/schema.ts";
import type { XdsNode } from "../../xds/mod.ts";
import type { CredentialsPlan, SdsServer } from "../model/plan.ts";

export interface TlsConfigContext {
  readonly kind: "listener" | "upstream";
  /** The place of the value, for problems: `["upstreams", 0, "tls"]`. */
  readonly path: ConfigPath;
  /** By name, from `parseSdsServers`. */
  readonly sdsServers: Readonly<Record<string, SdsServer>>;
  /** Our node at SDS servers that the value describes itself (`google_grpc`). */
  readonly node: XdsNode;
  /** For `SPIFFE_ENDPOINT_SOCKET`. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The result of one form. */
export interface TlsForm {
  readonly plan: CredentialsPlan;
  /** An `UpstreamTlsContext`'s. */
  readonly sni?: string;
}

export type ParsedTls =
  | TlsForm & {
    readonly kind: "valid";
    /** Settings without effect or with another one; whole sentences. */
    readonly warnings: readonly string[];
  }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

/** For the configuration of an SDS server. */
export interface ServerReading {
  /** Our node, unless the server's configuration has its own. */
  readonly node: XdsNode;
  warn(message: string): void;
}

export interface TlsReading extends TlsConfigContext, ServerReading {
  /** Why no SDS server may be named at all. */
  readonly noServers?: string;
}
