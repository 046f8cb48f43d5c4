/**
 * Which listeners and upstreams have credentials of their own, as their configuration says. What cannot
 * be understood is refused by name, and its listener does not open with others in their place.
 *
 * @module
 */

import { cwd } from "node:process";
import type {
  EdgeDeclaration,
  IngressRegistration,
  IngressTlsDeclaration,
  Registration,
  UpstreamDeclaration,
} from "../../consul/mod.ts";
import {
  type CredentialsPlan,
  type ParsedTls,
  parseSdsServers,
  parseTlsConfig,
  type TlsConfigContext,
} from "../../secrets/mod.ts";
import { type XdsNode } from "../../xds/mod.ts";
import { type ConfigPath, formatPath, type Problem } from "../../base/schema.ts";
import { fromHcl } from "./hcl_shape.ts";
import { ingressServers, readIngressTls } from "./ingress_plans.ts";
import { withPaths } from "../plan_paths.ts";
import type { Refusal } from "../../snapshot/mod.ts";

/** Environment variables, such as SPIFFE_ENDPOINT_SOCKET. */
export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/** What of a registration is about credentials. */
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
  /** What was taken otherwise than it reads. */
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

/** Key of what an upstream's callers must speak. */
export function listenerKey(upstreamId: string): string {
  return `${upstreamId} listener`;
}

/** What a refusal calls the credentials of that key. */
export function refusedOf(key: string): string {
  return `credentials of ${key}`;
}

/** What a registration's `postern_tls` says; of `previous` stays what is new and cannot be used. */
export function planRegistration(
  registration: CredentialFacts,
  previous: CredentialPlans,
  env: EnvironmentVariables,
): CredentialPlans {
  const read = reads.get(registration);
  if (read) return read;
  const { id, service } = registration;
  const raw = registration.tls === undefined ? undefined : fromHcl(registration.tls);
  const node: XdsNode = { id, cluster: service, metadata: {} };
  const plans: Record<string, CredentialsPlan> = {};
  const refused: Refusal[] = [];
  const upstreams = new Map<string, string | "refused">();
  const listeners = new Map<string, string | "refused">();
  const { sds_clusters: clusters, upstreams: forUpstreams, ...listener } = sectionOf(raw);
  const servers = parseSdsServers(clusters ?? {}, {
    path: ["postern_tls", "sds_clusters"],
    node,
  });
  const warnings = servers.kind === "valid" ? [...servers.warnings] : [];
  const take = (key: string, parsed: ParsedTls): string | "refused" => {
    if (parsed.kind === "valid") {
      // As for any program: a registration lies in no directory.
      plans[key] = withPaths(parsed.plan, cwd());
      warnings.push(...parsed.warnings);
      return key;
    }
    refused.push({ what: refusedOf(key), reason: formatProblems(parsed.problems) });
    const old = previous.plans[key];
    if (old) plans[key] = old;
    return old ? key : "refused";
  };
  const plan = (
    key: string,
    { value, kind, path }: {
      readonly value: unknown;
      readonly kind: TlsConfigContext["kind"];
      readonly path: ConfigPath;
    },
  ): string | "refused" => {
    const parsed = servers.kind === "invalid" ? servers : readPlan(fromHcl(value), {
      ...{ kind, path, node, env },
      sdsServers: servers.servers,
    });
    return take(key, parsed);
  };
  const path = ["postern_tls"];
  const { ingress } = registration;
  const ingressSds = ingress && ingressServers(ingress.clusters, { own: servers, node });
  warnings.push(...ingressSds?.warnings ?? []);
  if (ingress && Object.keys(listener).length > 0) {
    const reason = `${Object.keys(listener).join(", ")} of postern_tls has no effect: the config ` +
      "entry says which TLS an ingress gateway's listeners speak";
    refused.push({ what: "credentials of inbound", reason });
  }
  const inbound = !ingress && Object.keys(listener).length > 0 || isOdd(raw)
    ? plan("inbound", { value: isOdd(raw) ? raw : listener, kind: "listener", path })
    : null;
  const planIngress = (of: string, declared: IngressTlsDeclaration | undefined) => {
    const parsed = declared && ingressSds && readIngressTls(declared, ingressSds);
    if (parsed && parsed.kind !== "plain") listeners.set(of, take(listenerKey(of), parsed));
  };
  for (const { id: edge, tls } of ingress?.edges ?? []) planIngress(edge, tls);
  for (const { id: upstream, name, tls, listenerTls, ingressTls } of registration.upstreams) {
    planIngress(upstream, ingressTls);
    if (listenerTls !== undefined) {
      const where = [`upstream ${name}`, "postern_listener_tls"];
      const key = listenerKey(upstream);
      listeners.set(upstream, plan(key, { value: listenerTls, kind: "listener", path: where }));
    }
    const value = tls ?? forUpstreams;
    if (value === undefined) continue;
    const where = tls === undefined
      ? ["postern_tls", "upstreams"]
      : [`upstream ${name}`, "postern_tls"];
    upstreams.set(upstream, plan(upstream, { value, kind: "upstream", path: where }));
  }
  if (servers.kind === "invalid" && refused.length === 0) {
    refused.push({ what: "SDS servers", reason: formatProblems(servers.problems) });
  }
  const next = { plans, inbound, upstreams, listeners, refused, warnings };
  reads.set(registration, next);
  return next;
}

/** The credentials of one listener or upstream; rules that the mesh's own validation has no place for are refused. */
export function readPlan(value: unknown, context: TlsConfigContext): ParsedTls {
  const parsed = parseTlsConfig(value, context);
  if (parsed.kind === "invalid") return parsed;
  const { validation } = parsed.plan;
  if (validation?.secret.source.kind !== "consul" || !validation.defaults) return parsed;
  const message = "adds rules to the mesh's own roots, which have none but Consul's; " +
    "name the roots yourself, or leave the rules to intentions";
  return { kind: "invalid", problems: [{ path: [...context.path, "validation"], message }] };
}

/** A registration is read once; the same object says the same. */
const reads = new WeakMap<CredentialFacts, CredentialPlans>();

function isOdd(raw: unknown): boolean {
  return raw !== undefined && (typeof raw !== "object" || raw === null || Array.isArray(raw));
}

function sectionOf(raw: unknown): Readonly<Record<string, unknown>> {
  return raw === undefined || isOdd(raw) ? {} : raw as Record<string, unknown>;
}

function formatProblems(problems: readonly Problem[]): string {
  return problems.map(({ path, message }) => `${formatPath(path)} ${message}`).join("; ");
}
