/** Which listeners and upstreams have credentials of their own. @module */

import { resolve } from "node:path";
import type {
  EdgeDeclaration,
  IngressRegistration,
  Registration,
  UpstreamDeclaration,
} from "../../consul/mod.ts";
import {
  type CredentialsPlan,
  type ParsedTls,
  parseTlsConfig,
  type TlsConfigContext,
} from "../../secrets/mod.ts";
import type { Refusal } from "../../snapshot/mod.ts";

/** Environment variables, such as SPIFFE_ENDPOINT_SOCKET. */
export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/** The fields of a registration that concern credentials. */
export interface CredentialFacts extends Pick<Registration, "id" | "service" | "tls"> {
  readonly ingress?: Pick<IngressRegistration, "clusters"> & {
    readonly edges: readonly Pick<EdgeDeclaration, "id" | "tls">[];
  };
  readonly upstreams: readonly Pick<
    UpstreamDeclaration,
    "id" | "name" | "tls" | "listenerTls" | "ingressTls"
  >[];
}

export interface CredentialPlans {
  /** By credentials key. */
  readonly plans: Readonly<Record<string, CredentialsPlan>>;
  /** Key of the public listener's; `null`: the proxy's own. */
  readonly inbound: string | null | "refused";
  /** By upstream id; absent: the proxy's own. */
  readonly upstreams: ReadonlyMap<string, string | "refused">;
  /** By upstream id: for TLS that its callers must speak; absent: they speak plainly. */
  readonly listeners: ReadonlyMap<string, string | "refused">;
  readonly refused: readonly Refusal[];
  /** Settings that are followed in another sense than they read, as sentences. */
  readonly warnings: readonly string[];
}

export const NO_PLANS: CredentialPlans = {
  plans: {},
  inbound: null,
  upstreams: new Map(),
  listeners: new Map(),
  refused: [],
  warnings: [],
};

/** The credentials of one listener or upstream. The mesh's own roots take no rules: such are refused. */
export function readPlan(value: unknown, context: TlsConfigContext): ParsedTls {
  const parsed = parseTlsConfig(value, context);
  if (parsed.kind === "invalid") return parsed;
  const { validation } = parsed.plan;
  if (validation?.secret.source.kind !== "consul" || !validation.defaults) return parsed;
  const message = "adds rules to the mesh's own roots, which have none but Consul's; " +
    "name the roots yourself, or leave the rules to intentions";
  return { kind: "invalid", problems: [{ path: [...context.path, "validation"], message }] };
}

/** `value` with absolute paths of its files: a relative path begins at `directory`. */
export function withPaths<T>(value: T, directory: string): T {
  if (Array.isArray(value)) return value.map((item) => withPaths(item, directory)) as T;
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, withPaths(item, directory)]);
  const copy = Object.fromEntries(entries);
  const isFile = copy.kind === "file" || copy.kind === "secret_file" || "watchModify" in copy;
  if (isFile && typeof copy.path === "string") copy.path = resolve(directory, copy.path);
  return copy as T;
}
