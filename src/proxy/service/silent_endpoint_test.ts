import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import type { End } from "../../../test/kit/engine/memory_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { httpRules, snapshotOf, targetOf } from "../../../test/kit/engine/snapshots.ts";
import { seededRandom } from "../../base/mod.ts";

const CA = createAuthority();
const DB = CA.issueLeaf({ service: "db" });
const PROVEN = presented(DB);

/** web, and instances of db on these ports; each has a connection that carried a request. */
async function start(
  ports: readonly number[],
): Promise<{ readonly path: MemoryPath; readonly kept: ReadonlyMap<number, End> }> {
  const snapshot = snapshotOf({
    ca: CA,
    service: "web",
    upstreams: [{
      name: "db",
      http: httpRules("http"),
      targets: ["db"],
      balancing: { kind: "round_robin" },
    }],
    targets: [targetOf({ name: "db", uris: [DB.uri], ports })],
  });
  const path = await startMemoryPath(snapshot, { random: seededRandom(7) });
  const kept = new Map<number, End>();
  for (const _ of ports) {
    const caller = ask(path);
    await settle();
    const { address } = path.engine.lastDial.options;
    const server = path.engine.lastDial.connect(PROVEN);
    kept.set(address.kind === "tcp" ? address.port : 0, server);
    await settle();
    answer(server);
    await settle();
    assert.match(caller.received, /200/);
  }
  return { path, kept };
}

function ask(path: MemoryPath, method = "GET"): End {
  const caller = path.engine.call(path.port("db"));
  caller.send(`${method} / HTTP/1.1\r\nHost: db\r\nContent-Length: 0\r\n\r\n`);
  return caller;
}

function answer(server: End): void {
  server.received = "";
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

const ejected = (path: MemoryPath) =>
  path.lines.find(({ message }) => message === "endpoint ejected")?.fields;

/** Two requests: one on each kept connection. The first caller waits for port 1. */
async function askBoth({ path, kept }: Awaited<ReturnType<typeof start>>, method: string) {
  const callers = [ask(path, method), ask(path, method)] as const;
  await settle();
  const other = kept.get(2);
  assert.ok(other && kept.get(1)?.received && other.received);
  answer(other);
  await settle();
  const waiting = callers.find(({ received }) => received === "");
  assert.ok(waiting);
  return { waiting, other };
}

for (const [method, want] of [["GET", "200"], ["POST", "503"]] as const) {
  test(`an instance that hangs is ejected within 7 s: its ${method} gets a ${want}`, async () => {
    const rig = await start([1, 2]);
    await using path = rig.path;
    const { waiting, other } = await askBoth(rig, method);
    const dials = path.engine.dials.length;
    await path.clock.advance(1_900);
    assert.equal(path.engine.dials.length, dials, "not probed yet: it may be slow");
    for (let ms = 0; ms < 5_100; ms += 100) await path.clock.advance(100);
    assert.equal(path.engine.dials.length, dials + 1, "probed once, by a handshake");
    const { endpoint, reason } = ejected(path) ?? {};
    assert.equal(endpoint, "127.0.0.1:1");
    assert.match(String(reason), /^it hangs: requests and a handshake were not answered/);
    await settle();
    if (other.received) answer(other);
    await settle();
    assert.match(waiting.received, new RegExp(`^HTTP/1.1 ${want}`));
  });
}

test("a slow instance that answers a handshake is not ejected, and not probed again soon", async () => {
  const rig = await start([1, 2]);
  await using path = rig.path;
  const { waiting } = await askBoth(rig, "GET");
  const dials = path.engine.dials.length;
  for (let ms = 0; ms < 25_000; ms += 500) {
    await path.clock.advance(500);
    if (path.engine.dials.length > dials && ms < 5_000) path.engine.lastDial.connect(PROVEN);
  }
  assert.equal(path.engine.dials.length, dials + 1);
  assert.equal(ejected(path), undefined);
  const server = rig.kept.get(1);
  assert.ok(server);
  answer(server);
  await settle();
  assert.match(waiting.received, /^HTTP\/1.1 200/);
});

test("the only instance keeps its requests when it is ejected for hanging", async () => {
  const { path: held, kept } = await start([1]);
  await using path = held;
  const waiting = ask(path);
  for (let ms = 0; ms < 10_000; ms += 500) await path.clock.advance(500);
  assert.ok(ejected(path));
  const server = kept.get(1);
  assert.ok(server);
  answer(server);
  await settle();
  assert.match(waiting.received, /^HTTP\/1.1 200/);
});
