/**
 * The listeners and upstreams that use each secret of the snapshot in force. Pure.
 *
 * @module
 */

import { MESH_KEY, type Snapshot } from "../../snapshot/mod.ts";

/** A listener uses credentials towards callers, an upstream towards its instances. */
export interface CredentialsUser {
  readonly kind: "listener" | "upstream";
  /** The listener's name as in `/listeners`; an upstream's id is also the name of its listener. */
  readonly id: string;
  /** Display name. */
  readonly name: string;
  /** Key into `ownCredentials`; `null`: the proxy's own. */
  readonly credentials: string | null;
}

export interface SecretUses {
  /** Users by key of the certificate, `MESH_KEY` among them. */
  readonly certificates: ReadonlyMap<string, readonly CredentialsUser[]>;
  /** Users by key of the validation. */
  readonly validations: ReadonlyMap<string, readonly CredentialsUser[]>;
}

export function credentialsUsers(snapshot: Snapshot): readonly CredentialsUser[] {
  const users: CredentialsUser[] = [];
  for (const [id, { credentials }] of Object.entries(snapshot.inbound)) {
    users.push({ kind: "listener", id, name: id, credentials });
  }
  for (const { id, name, credentials, listener } of Object.values(snapshot.upstreams)) {
    users.push({ kind: "upstream", id, name, credentials });
    if (listener) users.push({ kind: "listener", id, name, credentials: listener.credentials });
  }
  return users;
}

/** Keys of the certificates and of the validation in these credentials. */
export function secretsOf(
  snapshot: Snapshot,
  credentials: string | null,
): { readonly certificates: readonly string[]; readonly validation: string | null } {
  if (credentials === null) return { certificates: [MESH_KEY], validation: MESH_KEY };
  return snapshot.ownCredentials[credentials] ?? { certificates: [], validation: null };
}

export function secretUses(snapshot: Snapshot): SecretUses {
  const certificates = new Map<string, CredentialsUser[]>();
  const validations = new Map<string, CredentialsUser[]>();
  for (const user of credentialsUsers(snapshot)) {
    const { certificates: keys, validation } = secretsOf(snapshot, user.credentials);
    for (const key of keys) add(certificates, key, user);
    if (validation !== null) add(validations, validation, user);
  }
  return { certificates, validations };
}

function add(map: Map<string, CredentialsUser[]>, key: string, user: CredentialsUser): void {
  const users = map.get(key);
  if (users) users.push(user);
  else map.set(key, [user]);
}
