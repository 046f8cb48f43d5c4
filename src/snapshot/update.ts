/** Differences of snapshots. A part without a change stays the same object and version. @module */

import type {
  Keyed,
  KeyedParts,
  SingleParts,
  Snapshot,
  SnapshotFacts,
  SnapshotPart,
} from "./snapshot.ts";

/** Every kind of part. A kind that is missing here, or is in the wrong list, does not compile. */
const KINDS: {
  readonly single: Readonly<Record<keyof SingleParts, true>>;
  readonly keyed: Readonly<Record<keyof KeyedParts, true>>;
} = {
  single: {
    credentials: true,
    policy: true,
    tls: true,
    accessLog: true,
    tracing: true,
    telemetry: true,
  },
  keyed: {
    certificates: true,
    validations: true,
    ownCredentials: true,
    inbound: true,
    exposed: true,
    upstreams: true,
    edges: true,
    chains: true,
    targets: true,
    pluginCode: true,
  },
};

const SINGLE = Object.keys(KINDS.single) as readonly (keyof SingleParts)[];
const KEYED = Object.keys(KINDS.keyed) as readonly (keyof KeyedParts)[];

/** The difference between two snapshots: new parts, parts with another version, `null` for removed keys. */
export type SnapshotUpdate =
  & SnapshotFacts
  & Partial<SingleParts>
  & { readonly [Kind in keyof KeyedParts]: Keyed<KeyedParts[Kind] | null> };

/** Everything in `next` that `previous` (if any) does not have in that version. */
export function diffSnapshots(previous: Snapshot | undefined, next: Snapshot): SnapshotUpdate {
  const single = SINGLE.filter((kind) => !previous || differs(previous[kind], next[kind]))
    .map((kind) => [kind, next[kind]]);
  const keyed = KEYED.map((kind) => [kind, diffKeyed(previous?.[kind] ?? {}, next[kind])]);
  return { ...factsOf(next), ...Object.fromEntries([...single, ...keyed]) };
}

/** `previous` with `update` applied. `undefined`: without `previous` the update is not whole. */
export function patchSnapshot(
  previous: Snapshot | undefined,
  update: SnapshotUpdate,
): Snapshot | undefined {
  const single = SINGLE.map((kind) => [kind, kind in update ? update[kind] : previous?.[kind]]);
  if (single.some(([, part]) => part === undefined)) return undefined;
  const keyed = KEYED.map((kind) => [kind, patchKeyed(previous?.[kind] ?? {}, update[kind])]);
  return { ...factsOf(update), ...Object.fromEntries([...single, ...keyed]) };
}

/** `previous` itself where `next` has the same facts and parts, so that "nothing changed" is `===`. */
export function keepSnapshot(previous: Snapshot | undefined, next: Snapshot): Snapshot {
  const isSame = previous?.service === next.service && previous.proxyId === next.proxyId &&
    previous.datacenter === next.datacenter &&
    SINGLE.every((kind) => !differs(previous[kind], next[kind])) &&
    KEYED.every((kind) => Object.keys(diffKeyed(previous[kind], next[kind])).length === 0);
  return isSame ? previous : next;
}

function factsOf({ version, service, proxyId, datacenter }: SnapshotFacts): SnapshotFacts {
  return { version, service, proxyId, datacenter };
}

function differs(a: SnapshotPart | null | undefined, b: SnapshotPart | null): boolean {
  return a?.version !== b?.version;
}

function diffKeyed(
  previous: Keyed<SnapshotPart>,
  next: Keyed<SnapshotPart>,
): Keyed<SnapshotPart | null> {
  const changed: Record<string, SnapshotPart | null> = {};
  for (const [key, part] of Object.entries(next)) {
    if (differs(previous[key], part)) changed[key] = part;
  }
  for (const key of Object.keys(previous)) if (!Object.hasOwn(next, key)) changed[key] = null;
  return changed;
}

function patchKeyed(
  previous: Keyed<SnapshotPart>,
  changes: Keyed<SnapshotPart | null>,
): Keyed<SnapshotPart> {
  const patched: Record<string, SnapshotPart> = { ...previous };
  for (const [key, part] of Object.entries(changes)) {
    if (part === null) delete patched[key];
    else patched[key] = part;
  }
  return patched;
}

/** Content of a part, before it has a version. */
export type Content<T extends SnapshotPart> = Omit<T, "version">;

/** `previous` when its content equals `content`, else a new part of that `version`. */
export function keepPart<T extends SnapshotPart>(
  previous: T | null | undefined,
  content: Content<T>,
  version: number,
): T {
  if (previous) {
    const { version: _, ...old } = previous;
    if (sameContent(old, content)) return previous;
  }
  // The spread of an Omit and the omitted key make T again; the compiler cannot see that for a generic.
  return { ...content, version } as unknown as T;
}

/** Deep equality of plain data. Absent and `undefined` members are the same. */
export function sameContent(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((value, index) => sameContent(value, b[index]));
  }
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  for (const key of Object.keys(left)) if (!sameContent(left[key], right[key])) return false;
  for (const key of Object.keys(right)) {
    if (right[key] !== undefined && left[key] === undefined) return false;
  }
  return true;
}
