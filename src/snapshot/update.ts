/**
 * The difference between two snapshots, and a snapshot patched by one: what crosses to a worker.
 *
 * @module
 */

import type { Part, Snapshot, SnapshotUpdate } from "./snapshot.ts";

/** Everything in `next` that `previous` (if any) does not have in that version. */
export function diffSnapshots(previous: Snapshot | undefined, next: Snapshot): SnapshotUpdate {
  const { version, service, proxyId, datacenter, credentials, policy, tls, inbound, refused } =
    next;
  return {
    version,
    service,
    proxyId,
    datacenter,
    refused,
    ...((!previous || differs(previous.credentials, credentials)) && { credentials }),
    certificates: diffKeyed(previous?.certificates ?? {}, next.certificates),
    validations: diffKeyed(previous?.validations ?? {}, next.validations),
    ownCredentials: diffKeyed(previous?.ownCredentials ?? {}, next.ownCredentials),
    ...(differs(previous?.policy, policy) && { policy }),
    ...(differs(previous?.tls, tls) && { tls }),
    ...((!previous || differs(previous.inbound, inbound)) && { inbound }),
    upstreams: diffKeyed(previous?.upstreams ?? {}, next.upstreams),
    targets: diffKeyed(previous?.targets ?? {}, next.targets),
  };
}

/**
 * `previous` with `update` applied. Without `previous` the update must be whole; one that is not gives
 * `undefined`, and nothing may be served from it.
 */
export function patchSnapshot(
  previous: Snapshot | undefined,
  update: SnapshotUpdate,
): Snapshot | undefined {
  const credentials = update.credentials !== undefined ? update.credentials : previous?.credentials;
  const policy = update.policy ?? previous?.policy;
  const tls = update.tls ?? previous?.tls;
  const inbound = update.inbound !== undefined ? update.inbound : previous?.inbound;
  if (credentials === undefined || !policy || !tls || inbound === undefined) return undefined;
  const { version, service, proxyId, datacenter, refused } = update;
  return {
    version,
    service,
    proxyId,
    datacenter,
    credentials,
    policy,
    tls,
    inbound,
    refused,
    certificates: patchKeyed(previous?.certificates ?? {}, update.certificates),
    validations: patchKeyed(previous?.validations ?? {}, update.validations),
    ownCredentials: patchKeyed(previous?.ownCredentials ?? {}, update.ownCredentials),
    upstreams: patchKeyed(previous?.upstreams ?? {}, update.upstreams),
    targets: patchKeyed(previous?.targets ?? {}, update.targets),
  };
}

function differs(a: Part | null | undefined, b: Part | null): boolean {
  return a?.version !== b?.version;
}

type Keyed<T> = Readonly<Record<string, T>>;

function diffKeyed<T extends Part>(previous: Keyed<T>, next: Keyed<T>): Record<string, T | null> {
  const changed: Record<string, T | null> = {};
  for (const [key, part] of Object.entries(next)) {
    if (differs(previous[key], part)) changed[key] = part;
  }
  for (const key of Object.keys(previous)) if (!Object.hasOwn(next, key)) changed[key] = null;
  return changed;
}

function patchKeyed<T>(previous: Keyed<T>, changes: Keyed<T | null>): Record<string, T> {
  const patched: Record<string, T> = { ...previous };
  for (const [key, part] of Object.entries(changes)) {
    if (part === null) delete patched[key];
    else patched[key] = part;
  }
  return patched;
}
