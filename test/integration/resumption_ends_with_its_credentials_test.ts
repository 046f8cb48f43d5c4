/**
 * A short handshake rests on an earlier full one, and must not outlive what that one rested on: a
 * rotation, a removed root or a changed trust domain, on either side. An engine that never resumes is
 * held to that, and the refusals below hold for it all the same.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";

import { runtimeEngine } from "../../src/net/mod.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { openClient } from "../kit/engine/data_path.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import type { MeshSnapshot } from "../kit/engine/snapshots.ts";

/** The engine on `node:tls` keeps no tickets. */
const RESUMES = runtimeEngine().name.startsWith("bun");

let version = 1_000_000;

async function exchange(pair: PathPair): Promise<void> {
  await using client = await openClient(pair.port);
  client.send("hello");
  assert.equal(String(await client.read(5)), "hello");
}

async function refused(pair: PathPair): Promise<void> {
  await using client = await openClient(pair.port);
  client.send("hello");
  await assert.rejects(client.read(5));
}

/** Short handshakes so far, as the side that accepts them counts them. */
function resumed(pair: PathPair): number {
  const { samples } = pair.db.path.view({ connections: false });
  const sample = samples.find(({ name }) => name === "tls_resumed_total");
  assert.ok(sample, "short handshakes are counted");
  return sample.value;
}

function withCredentials(
  snapshot: MeshSnapshot,
  changes: Partial<MeshSnapshot["credentials"]>,
): MeshSnapshot {
  return { ...snapshot, credentials: { ...snapshot.credentials, ...changes, version: ++version } };
}

async function warmPair() {
  const echo = await startEcho();
  const pair = await startPathPair({ localPort: echo.port });
  await exchange(pair);
  await exchange(pair);
  const before = resumed(pair);
  assert.equal(before, RESUMES ? 1 : 0);
  return {
    pair,
    before,
    async [Symbol.asyncDispose]() {
      await pair[Symbol.asyncDispose]();
      await echo[Symbol.asyncDispose]();
    },
  };
}

const shown = RESUMES
  ? "later connections use the ticket of the first"
  : "an engine that keeps no tickets makes a full handshake each time";

test(shown, async () => {
  await using warm = await warmPair();
  await exchange(warm.pair);
  assert.equal(resumed(warm.pair), RESUMES ? 2 : 0);
});

for (const side of ["web", "db"] as const) {
  test(`a rotated leaf of ${side} ends every older ticket`, async () => {
    await using warm = await warmPair();
    const { pair, before } = warm;
    const { certPem, keyPem } = pair.ca.issueLeaf({ service: side });
    await pair[side].set(withCredentials(pair[`${side}Snapshot`], { certPem, keyPem }));
    await exchange(pair);
    assert.equal(resumed(pair), before, "the first handshake after a rotation must be a full one");
  });

  test(`a root that ${side} no longer trusts ends every older ticket`, async () => {
    await using warm = await warmPair();
    const { pair, before } = warm;
    const rootPems = [createAuthority().rootPem];
    await pair[side].set(withCredentials(pair[`${side}Snapshot`], { rootPems }));
    await refused(pair);
    assert.equal(resumed(pair), before);
  });

  test(`a trust domain that ${side} no longer trusts ends every older ticket`, async () => {
    await using warm = await warmPair();
    const { pair, before } = warm;
    const trustDomains = ["other.consul"];
    await pair[side].set(withCredentials(pair[`${side}Snapshot`], { trustDomains }));
    await refused(pair);
    assert.equal(resumed(pair), before);
  });
}

test("credentials that come back do not bring their tickets back", async () => {
  await using warm = await warmPair();
  const { pair } = warm;
  const rootPems = [createAuthority().rootPem];
  await pair.web.set(withCredentials(pair.webSnapshot, { rootPems }));
  await refused(pair);
  await pair.web.set(withCredentials(pair.webSnapshot, {}));
  const before = resumed(pair);
  await exchange(pair);
  assert.equal(resumed(pair), before);
});
