/**
 * Credentials of listeners' and upstreams' own after a restart without the agent: the stored state says
 * where they come from, so that they are followed at once. The agent's registration replaces all of it.
 *
 * @module
 */

import type { Registration } from "../../consul/mod.ts";
import {
  type CredentialsPlan,
  type HeldSecrets,
  keySalt,
  type SecretRef,
  type StoredSecrets,
} from "../../secrets/mod.ts";
import {
  type CredentialFacts,
  type CredentialPlans,
  type EnvironmentVariables,
  NO_PLANS,
  planRegistration,
} from "../consul/credential_plans.ts";
import { ownCredentials } from "../own_credentials.ts";
import { keepSnapshot, type Snapshot } from "../../snapshot/mod.ts";

/** What a restart can go on with. */
export interface StoredState {
  readonly snapshot: Snapshot;
  /** Absent: nothing has credentials of its own. */
  readonly credentials?: StoredCredentials;
}

/** May hold passwords, keys and tokens, as the registration does. */
export interface StoredCredentials {
  /** What the snapshot's keys of certificates and validations were made with. */
  readonly salt: string;
  readonly registration: CredentialFacts;
}

/** What a registration says about credentials, as it says it; `undefined`: nothing. */
export function storedCredentials(registration: Registration): StoredCredentials | undefined {
  const { id, service, tls, ingress } = registration;
  const edges = (ingress?.edges ?? []).map(({ id, tls }) => ({ id, tls }));
  const saysNothing = tls === undefined && edges.length === 0 &&
    registration.upstreams.every((upstream) =>
      upstream.tls === undefined && upstream.listenerTls === undefined && !upstream.ingressTls
    );
  if (saysNothing) return undefined;
  // All of them: the proxy's own `tls` may speak of those that say nothing.
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
 * What stored facts mean now. Nobody waits for a limited time: until a source has answered, what was
 * stored serves, as long as it is valid.
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

/** What the stored snapshot holds, for the sources' store. */
export function storedSecrets({ snapshot, credentials }: StoredState): StoredSecrets {
  const { certificates, validations, ownCredentials: own } = snapshot;
  return {
    // Without one no key fits.
    salt: credentials?.salt ?? "",
    certificates: mapValues(certificates, ({ version: _, source: __, name, ...value }) => ({
      name,
      value: { type: "certificate", ...value },
    })),
    validations: mapValues(validations, ({ validation }) => ({ type: "validation", validation })),
    credentials: mapValues(own, ({ certificates }) => certificates),
  };
}

/** The stored snapshot with what sources have said since: `snapshot` itself where that is nothing. */
export function withNews(
  snapshot: Snapshot,
  { plans, held }: { readonly plans: CredentialPlans; readonly held: HeldSecrets },
): Snapshot {
  const version = snapshot.version + 1;
  // Those that nothing is known about stay what they were.
  const keys = new Set([...Object.keys(snapshot.ownCredentials), ...Object.keys(plans.plans)]);
  const { warming: _, ...own } = ownCredentials({
    held,
    wanted: [...keys],
    trustDomains: snapshot.credentials?.trustDomains ?? [],
    previous: snapshot,
    version,
  });
  return keepSnapshot(snapshot, { ...snapshot, ...own, version });
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

function mapValues<T, U>(
  record: Readonly<Record<string, T>>,
  of: (value: T) => U,
): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, of(value)]));
}
