/**
 * Which listeners and upstreams have credentials of their own, from a registration. A form that is not
 * understood is refused by name, and its listener does not open with other credentials in its place.
 *
 * @module
 */

import { cwd } from "node:process";
import type { IngressTlsDeclaration, Registration } from "../../consul/mod.ts";
import {
  type CredentialsPlan,
  keySalt,
  type ParsedTls,
  parseSdsServers,
  type SecretRef,
  type TlsConfigContext,
} from "../../secrets/mod.ts";
import { type ConfigPath, formatPath, isRecord, type Problem } from "../../base/schema.ts";
import {
  type CredentialFacts,
  type CredentialPlans,
  type EnvironmentVariables,
  NO_PLANS,
  readPlan,
  withPaths,
} from "../parts/credential_plans.ts";
import { INBOUND_KEY, type Refusal, type Snapshot } from "../../snapshot/mod.ts";
import type { StoredCredentials, StoredState } from "../state/stored_credentials.ts";
import type { XdsNode } from "../../xds/mod.ts";
import { fromHcl } from "./hcl_shape.ts";
import { ingressServers, readIngressTls } from "./ingress_plans.ts";

/** Key of what an upstream's callers must speak. */
export function listenerKey(upstreamId: string): string {
  return `${upstreamId} listener`;
}

function refusedOf(key: string): string {
  return `credentials of ${key}`;
}

/** Plans of a registration's `postern_tls`. A plan that is new and cannot be used stays as in `previous`. */
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
  const { sds_clusters: clusters, upstreams: forUpstreams, ...listener } = isRecord(raw) ? raw : {};
  const path = ["postern_tls"];
  const servers = parseSdsServers(clusters ?? {}, { path: [...path, "sds_clusters"], node });
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
      kind,
      path,
      node,
      env,
      sdsServers: servers.servers,
    });
    return take(key, parsed);
  };
  const { ingress } = registration;
  const ingressSds = ingress && ingressServers(ingress.clusters, { own: servers, node });
  warnings.push(...ingressSds?.warnings ?? []);
  if (ingress && Object.keys(listener).length > 0) {
    const reason = `${Object.keys(listener).join(", ")} of postern_tls has no effect: the config ` +
      "entry says which TLS an ingress gateway's listeners speak";
    refused.push({ what: "credentials of inbound", reason });
  }
  const isOdd = raw !== undefined && !isRecord(raw);
  const inbound = !ingress && Object.keys(listener).length > 0 || isOdd
    ? plan("inbound", { value: isOdd ? raw : listener, kind: "listener", path })
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
    const where = tls === undefined ? [...path, "upstreams"] : [`upstream ${name}`, ...path];
    upstreams.set(upstream, plan(upstream, { value, kind: "upstream", path: where }));
  }
  if (servers.kind === "invalid" && refused.length === 0) {
    refused.push({ what: "SDS servers", reason: formatProblems(servers.problems) });
  }
  const next = { plans, inbound, upstreams, listeners, refused, warnings };
  reads.set(registration, next);
  return next;
}

/** A registration is read once. */
const reads = new WeakMap<CredentialFacts, CredentialPlans>();

function formatProblems(problems: readonly Problem[]): string {
  return problems.map(({ path, message }) => `${formatPath(path)} ${message}`).join("; ");
}

/**
 * A line with the reason for each closed listener. Those of an ingress gateway are left out: its config
 * entry is shared by many teams, and the other listeners serve.
 */
export function closedByRefusal(
  plans: CredentialPlans,
  registration: Registration,
  snapshot: Snapshot,
): readonly string[] {
  const keys = [...plans.upstreams, ...registration.ingress ? [] : plans.listeners]
    .filter(([id, key]) => key === "refused" && !snapshot.upstreams[id]).map(([id]) => id);
  if (plans.inbound === "refused" && !snapshot.inbound[INBOUND_KEY]) keys.push(INBOUND_KEY);
  return plans.refused
    .filter(({ what }) =>
      keys.some((key) => what === refusedOf(key) || what === refusedOf(listenerKey(key)))
    )
    .map(({ what, reason }) => `${what} that can be used: ${reason}`);
}

/** The fields of a registration that concern credentials, unparsed; `undefined`: it has none. */
export function storedCredentials(registration: Registration): StoredCredentials | undefined {
  const { id, service, tls, ingress } = registration;
  const edges = (ingress?.edges ?? []).map(({ id, tls }) => ({ id, tls }));
  const saysNothing = tls === undefined && edges.length === 0 &&
    registration.upstreams.every((upstream) =>
      upstream.tls === undefined && upstream.listenerTls === undefined && !upstream.ingressTls
    );
  if (saysNothing) return undefined;
  // All upstreams: the proxy's own `tls` may have settings for those without any.
  const upstreams = registration.upstreams.map(({ id, name, tls, listenerTls, ingressTls }) => ({
    id,
    name,
    ...(tls !== undefined && { tls }),
    ...(listenerTls !== undefined && { listenerTls }),
    ...(ingressTls && { ingressTls }),
  }));
  const facts: CredentialFacts = {
    id,
    service,
    ...(tls !== undefined && { tls }),
    ...(ingress && { ingress: { clusters: ingress.clusters, edges } }),
    upstreams,
  };
  return { salt: keySalt(), registration: facts };
}

/**
 * Plans of stored facts, without timeouts: until a source has answered, the stored secrets serve for as
 * long as they are valid.
 */
export function planStored(
  { credentials }: StoredState,
  env: EnvironmentVariables,
): CredentialPlans {
  if (!credentials) return NO_PLANS;
  const plans = planRegistration(credentials.registration, NO_PLANS, env);
  const patient = Object.entries(plans.plans).map(([key, plan]) => [key, patientPlan(plan)]);
  return { ...plans, plans: Object.fromEntries(patient) };
}

function patientPlan(plan: CredentialsPlan): CredentialsPlan {
  const { certificates, validation } = plan;
  return {
    ...plan,
    certificates: certificates.map(patient),
    validation: validation && { ...validation, secret: patient(validation.secret) },
  };
}

function patient(ref: SecretRef): SecretRef {
  return { ...ref, initialFetchTimeoutMs: 0 };
}
