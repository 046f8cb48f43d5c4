import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { settle } from "../../test/kit/clock/clock.ts";
import { presented } from "../../test/kit/engine/fake_tls_engine.ts";
import { startMemoryPath } from "../../test/kit/engine/memory_path.ts";
import { caValidation, withOwn } from "../../test/kit/secrets/own_credentials.ts";
import { snapshotOf, targetOf } from "../../test/kit/engine/snapshots.ts";
import { SharedCounts } from "./core/admission.ts";
import { diffSnapshots } from "../snapshot/mod.ts";

const CA = createAuthority();
const DB = CA.issueLeaf({ service: "db" });
const BASE = snapshotOf({ ca: CA, service: "web" });
const NEXT = { ...BASE, version: BASE.version + 1 };
const UPDATE = diffSnapshots(BASE, NEXT);

test("DataPath publishes the last prepared snapshot once, and shows its version", async () => {
  await using started = await startMemoryPath(BASE);
  const { path } = started;
  const version = () => path.view({ connections: false }).snapshotVersion;
  await path.prepare(UPDATE);
  assert.equal(version(), BASE.version);
  await path.publish({});
  assert.equal(version(), NEXT.version);
  await assert.rejects(path.publish({}), /nothing is prepared/);
});

test("DataPath drops an earlier prepared snapshot when a later one cannot be prepared", async () => {
  await using started = await startMemoryPath(BASE);
  const { path } = started;
  await path.prepare(UPDATE);
  const { credentials } = BASE;
  const bad = { ...NEXT, credentials: { ...credentials, version: -1, keyPem: "refused" } };
  await assert.rejects(path.prepare(diffSnapshots(BASE, bad)), /Cannot use the credentials/);
  await assert.rejects(path.publish({}), /nothing is prepared/);
  assert.equal(path.view({ connections: false }).snapshotVersion, BASE.version);
});

test("DataPath.prepare() has a deadline of ten seconds, and leaves no timer", async () => {
  await using started = await startMemoryPath(BASE);
  const { path, clock } = started;
  const before = clock.pending;
  await path.prepare(UPDATE);
  assert.equal(clock.pending, before);
  // One of two rules has a regex, and loading its library takes time.
  const matcher = { type: "uri", matcher: { kind: "regex", regex: "a" } } as const;
  const slow = withOwn(NEXT, "own", { validation: caValidation([CA], { matchers: [matcher] }) });
  const late = path.prepare(diffSnapshots(undefined, slow));
  clock.advanceNow(10_000);
  await assert.rejects(late, /Cannot prepare the snapshot: not done after 10 s/);
  await assert.rejects(path.publish({}), /nothing is prepared/);
});

test("DataPath that drains or is closed binds no listener again, and logs its pending counts", async () => {
  for (const end of ["drain", "close"] as const) {
    await using started = await startMemoryPath(snapshotOf({
      ca: CA,
      service: "web",
      local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
      intentions: [],
    }));
    const { path, engine, port, lines } = started;
    for (let count = 0; count < 3; count++) engine.callSecurely(port()).fail("no", false);
    assert.deepEqual(started.endings, ["handshake_failed"]);
    assert.equal(await path.retryFailed(), true);
    assert.equal(engine.listening, 1);
    await path[end](1_000);
    assert.equal(engine.listening, 0);
    const summed = lines.find(({ message }) => message === "more connections failed");
    assert.equal(summed?.fields.count, 2);
    assert.equal(summed?.fields.code, "handshake_failed");
    await path.retryFailed();
    assert.equal(engine.listening, 0);
    assert.deepEqual(path.listeners().map(({ state }) => state), ["draining"]);
  }
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

test("DataPath reports the first use of an idle upstream, and lists it while it is in use", async () => {
  const first: string[] = [];
  const onFirstUse = (upstreamId: string) => void first.push(upstreamId);
  await using started = await startMemoryPath(CALLING, { onFirstUse });
  const { path, engine, port } = started;
  const [db = ""] = Object.keys(CALLING.upstreams);
  const call = async () => {
    const caller = engine.call(port("db"));
    engine.lastDial.connect(presented(DB));
    await settle();
    return caller;
  };
  assert.deepEqual(path.used(), []);
  const callers = [await call(), await call()];
  assert.deepEqual(first, [db], "once");
  assert.deepEqual([path.used(), path.used()], [[db], [db]], "while it has connections");
  callers.push(await call());
  assert.deepEqual(first, [db], "it was in use");
  for (const caller of callers) caller.connection.reset();
  await settle();
  assert.deepEqual([path.used(), path.used()], [[db], []]);
  (await call()).connection.reset();
  assert.deepEqual(first, [db, db]);
});

test("DataPath.close() ends the open connections that its view shows", async () => {
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

test("a connection has one complete line in the log", async () => {
  await using started = await startMemoryPath(CALLING);
  const { engine, port, clock, lines } = started;
  const caller = engine.call(port("db"));
  const server = engine.lastDial.connect(presented(DB, { resumed: true }));
  caller.send("hello");
  server.send("hi");
  await settle();
  clock.advanceNow(250);
  server.connection.close();
  caller.connection.close();
  await settle();
  const ended = {
    direction: "outbound",
    listener: "service:default/default/db",
    source: "web",
    destination: "db",
    remote: "other",
    endpoint: "127.0.0.1:1",
    received_bytes: 5,
    sent_bytes: 2,
    duration_ms: 250,
    ended_by: "upstream",
    stage: "relay",
    code: undefined,
    reason: undefined,
    rule: undefined,
    resumed: true,
  };
  const ends = () => lines.filter(({ message }) => message.startsWith("connection "));
  assert.deepEqual(ends().map(({ level, message }) => [level, message]), [
    ["info", "connection ended"],
  ]);
  assert.deepEqual(started.lastEnd, ended);
  engine.call(port("api"));
  engine.lastDial.fail("no route");
  assert.equal(ends().length, 2);
  assert.deepEqual(started.lastEnd, {
    ...ended,
    listener: "service:default/default/api",
    destination: "api",
    endpoint: "127.0.0.1:2",
    received_bytes: 0,
    sent_bytes: 0,
    duration_ms: 0,
    stage: "endpoint",
    resumed: undefined,
    code: "endpoint_refused",
    reason: `Cannot dial "api" at 127.0.0.1:2: no route`,
  });
});

test("DataPath of a further worker listens on ports as well", async () => {
  const counts = SharedCounts.create(2);
  await using started = await startMemoryPath(CALLING, { worker: 1, workers: 2, counts });
  started.engine.call(started.port("db"));
  assert.equal(started.engine.dials.length, 1);
});

test("DataPath counts failures of a target while it exists", async () => {
  await using started = await startMemoryPath(CALLING);
  const { path, engine, port } = started;
  // Enough failures for an ejection, which is counted as well.
  for (const name of ["db", "db", "db", "db", "db", "api", "api", "api", "api", "api"]) {
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
