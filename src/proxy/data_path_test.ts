import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certificates.ts";
import { startMemoryPath } from "../../test/kit/memory_path.ts";
import { snapshotOf } from "../../test/kit/snapshots.ts";
import { diffSnapshots } from "../snapshot/mod.ts";

const BASE = snapshotOf({ ca: createAuthority(), service: "web" });
const NEXT = { ...BASE, version: BASE.version + 1 };
const UPDATE = diffSnapshots(BASE, NEXT);

test("DataPath publishes what it prepared last, once, and says what it goes by", async () => {
  await using started = await startMemoryPath(BASE);
  const { path } = started;
  const version = () => path.view({ connections: false }).snapshotVersion;
  await path.prepare(UPDATE);
  assert.equal(version(), BASE.version);
  await path.publish({});
  assert.equal(version(), NEXT.version);
  await assert.rejects(path.publish({}), /nothing is prepared/);
});

test("DataPath publishes nothing of before when it could not prepare", async () => {
  await using started = await startMemoryPath(BASE);
  const { path } = started;
  await path.prepare(UPDATE);
  const { credentials } = BASE;
  const bad = { ...NEXT, credentials: { ...credentials, version: -1, keyPem: "refused" } };
  await assert.rejects(path.prepare(diffSnapshots(BASE, bad)), /Cannot use the credentials/);
  await assert.rejects(path.publish({}), /nothing is prepared/);
  assert.equal(path.view({ connections: false }).snapshotVersion, BASE.version);
});
