import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certificates.ts";
import { settle } from "../../test/kit/clock.ts";
import { presented } from "../../test/kit/fake_tls_engine.ts";
import { startMemoryPath } from "../../test/kit/memory_path.ts";
import { snapshotOf, targetOf } from "../../test/kit/snapshots.ts";
import { diffSnapshots } from "../snapshot/mod.ts";

const CA = createAuthority();
const DB = CA.issueLeaf({ service: "db" });
const BASE = snapshotOf({ ca: CA, service: "web" });
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

const TARGETS = ["db", "api"].map((name, index) =>
  targetOf({ name, uris: [DB.uri], ports: [index + 1] })
);
const CALLING = snapshotOf({
  ca: CA,
  service: "web",
  upstreams: [{ name: "db" }, { name: "api" }],
  targets: TARGETS,
});

test("DataPath.close() ends what is open, of which the view has told", async () => {
  await using started = await startMemoryPath(CALLING);
  const { path, engine, port } = started;
  const caller = engine.call(port("db"));
  engine.lastDial.connect(presented(DB));
  await settle();
  const [connection] = path.view({ connections: true }).connections;
  assert.equal(connection?.tlsVersion, "TLSv1.3");
  path.close();
  await settle();
  assert.notEqual(caller.over, "no");
  assert.deepEqual(started.endings, ["closed"]);
});

test("DataPath counts failures of a target for as long as it is there", async () => {
  await using started = await startMemoryPath(CALLING);
  const { path, engine, port } = started;
  for (const name of ["db", "api"]) {
    engine.call(port(name));
    engine.lastDial.fail();
  }
  const counted = () =>
    path.stats.samples().flatMap(({ labels }) => "target" in labels ? [labels.target] : []);
  assert.deepEqual(new Set(counted()), new Set(["db", "api"]));
  const [, api] = TARGETS;
  assert.ok(api);
  await started.set({ ...CALLING, version: -1, targets: { api } });
  assert.deepEqual(new Set(counted()), new Set(["api"]));
});
