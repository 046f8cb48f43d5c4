/**
 * Credentials of single listeners and upstreams after a restart without the agent: the stored state has
 * their sources, so that they are followed at once. The agent's registration replaces all of it.
 *
 * @module
 */

import type { HeldSecrets, StoredSecrets } from "../../secrets/mod.ts";
import { keepSnapshot, type Snapshot } from "../../snapshot/mod.ts";
import type { CredentialFacts, CredentialPlans } from "../parts/credential_plans.ts";
import { ownCredentials } from "../parts/own_credentials.ts";

/** State that a restarted proxy serves. */
export interface StoredState {
  readonly snapshot: Snapshot;
  /** Absent: nothing has credentials of its own. */
  readonly credentials?: StoredCredentials;
}

/** May hold passwords, keys and tokens, as the registration does. */
export interface StoredCredentials {
  /** Salt of the snapshot's keys of certificates and validations. */
  readonly salt: string;
  readonly registration: CredentialFacts;
}

export function storedSecrets({ snapshot, credentials }: StoredState): StoredSecrets {
  const { certificates, validations, ownCredentials: own } = snapshot;
  return {
    // Without a salt no key matches.
    salt: credentials?.salt ?? "",
    certificates: mapValues(certificates, ({ version: _, source: __, name, ...value }) => ({
      name,
      value: { type: "certificate", ...value },
    })),
    validations: mapValues(validations, ({ validation }) => ({ type: "validation", validation })),
    credentials: mapValues(own, ({ certificates }) => certificates),
  };
}

/** The stored snapshot with newer secrets from their sources: `snapshot` itself if there are none. */
export function withNews(
  snapshot: Snapshot,
  { plans, held }: { readonly plans: CredentialPlans; readonly held: HeldSecrets },
): Snapshot {
  const version = snapshot.version + 1;
  // Credentials without news stay as they are.
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

function mapValues<T, U>(
  record: Readonly<Record<string, T>>,
  of: (value: T) => U,
): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, of(value)]));
}
