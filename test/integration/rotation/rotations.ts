/**
 * Rotates files again and again and measures how long it takes until every role of the proxy shows the
 * new certificate: its listeners, and its upstreams towards servers.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { IssuedLeaf } from "../../kit/certs/authority.ts";
import { openFiles, residentBytes } from "../../kit/process/memory.ts";
import { inTime } from "../../kit/clock/long.ts";
import { deadline, eventually, pause } from "../../kit/process/process.ts";
import { probeTls, serialOf } from "../../kit/wire/tls_probe.ts";
import { percentile } from "../../kit/wire/tls_session.ts";
import { type Client, issue, RotatingMesh } from "./rotating_mesh.ts";
import { shownSerial } from "./serial_server.ts";

/** Between two probes of the certificate shown. */
const LOOK_MS = 20;
/** A proxy that takes longer than this has missed the rotation. */
const MISSED_MS = 30_000;
/** A change that the system does not report is found after this time. */
export const POLL_MS = 10_000;
/** So often the numbers may seem to grow. */
const RUNS = 3;
/** A connection that is still open after this is a leak. */
const RESTS_MS = 20_000;

export interface Shown {
  /** From the last write until everything showed it. */
  readonly tookMs: number;
}

/** Rotates the files with that index, and waits until all that has them shows the new certificate. */
export async function rotateAndWait(
  mesh: RotatingMesh,
  client: Client,
  options: { readonly index?: number; readonly leaf?: IssuedLeaf; readonly caPem?: string } = {},
): Promise<Shown> {
  const { index = 0, leaf = issue(mesh.authority), caPem = mesh.authority.rootPem } = options;
  const written = await mesh.files[index]?.rotate({ ...leaf, caPem });
  if (written === undefined) throw new Error(`There are no files ${index}`);
  await shows(mesh, client, { index, leaf });
  return { tookMs: performance.now() - written };
}

/** Resolves when everything that uses the files with that index shows `leaf`. */
export async function shows(
  mesh: RotatingMesh,
  client: Client,
  options: { readonly index: number; readonly leaf: { readonly certPem: string } },
): Promise<void> {
  const { index, leaf } = options;
  const wanted = serialOf(leaf.certPem);
  const upstream = mesh.upstreams[index];
  const outward = mesh.outward[index];
  const roles: Record<string, () => Promise<string | undefined>> = {
    ...(upstream && { listener: () => serialAt(upstream, client) }),
    ...(outward && { outward: () => shownSerial(outward) }),
    ...(index === 0 && { inbound: () => serialAt(mesh.inbound, client) }),
  };
  await Promise.all(
    Object.entries(roles).map(([role, look]) =>
      eventually(`${role} shows ${wanted}`, async () => await look() === wanted, {
        timeoutMs: MISSED_MS,
        everyMs: LOOK_MS,
      })
    ),
  );
}

export interface Held {
  readonly residentBytes: number;
  readonly descriptors: number;
}

/**
 * The proxy's numbers, once nothing is open through it and they rest. `before`: the numbers it should
 * have come back to; connections that are no leak are closed within a while.
 */
export async function held({ postern }: RotatingMesh, before?: Held): Promise<Held> {
  await eventually("no connection is open", async () => {
    return (await postern.metric("postern_connections_active")) === 0;
  });
  // Files that are read just now, and the last connection to the admin server.
  let least = await openFiles(postern.pid);
  const started = performance.now();
  const lasts = (ms: number) => performance.now() - started < ms;
  while (lasts(300) || (before && least > before.descriptors && lasts(RESTS_MS))) {
    least = Math.min(least, await openFiles(postern.pid));
    await pause(10);
  }
  return { residentBytes: await residentBytes(postern.pid), descriptors: least };
}

/**
 * The numbers before and after `rotate`. When collectors run is theirs to choose: numbers that seem to
 * have grown are read again after as many rotations more, as a leak goes on growing.
 */
export async function heldOver(
  mesh: RotatingMesh,
  options: { readonly limitBytes: number },
  rotate: () => Promise<void>,
): Promise<{ readonly before: Held; readonly after: Held }> {
  let before = await held(mesh);
  const { descriptors } = before;
  for (let tries = 1;; tries++) {
    await rotate();
    const after = await held(mesh, before);
    const isGrown = after.residentBytes - before.residentBytes >= options.limitBytes;
    if (!isGrown || tries === RUNS) return { before, after };
    before = { residentBytes: after.residentBytes, descriptors };
  }
}

/** The report of a run. */
export function figures(name: string, shown: readonly Shown[]): string {
  const ms = (share: number) => percentile(shown.map(({ tookMs }) => tookMs), share).toFixed(0);
  return `${name}: ${shown.length} rotations, shown after ${ms(0.5)} ms (median), ` +
    `${ms(0.99)} ms (p99), ${ms(1)} ms (most)`;
}

/**
 * Fails when nothing but a poll found them: after the first rotation, which may come at any time between
 * two polls, each then takes as long as a poll.
 */
export function assertPrompt(name: string, shown: readonly Shown[]): void {
  const took = shown.map(({ tookMs }) => tookMs);
  assert.ok(Math.min(...took.slice(1)) < POLL_MS / 2, figures(name, shown));
  inTime("most rotations are shown", percentile(took, 0.5), 1_000);
  inTime("each rotation is shown", percentile(took, 1), POLL_MS);
}

async function serialAt(
  place: RotatingMesh["inbound"],
  client: Client,
): Promise<string | undefined> {
  const outcome = await deadline(probeTls(place, client), 6_000);
  return outcome?.accepted ? outcome.serial : undefined;
}
