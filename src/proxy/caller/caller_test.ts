import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import type { SecureCaller } from "../../../test/kit/engine/memory_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { caValidation, inboundBy, withOwn } from "../../../test/kit/secrets/own_credentials.ts";
import {
  intention,
  policyOf,
  snapshotOf,
  targetOf,
  upstreamOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { DataPathOptions } from "../data_path.ts";

const MINUTE_MS = 60_000;
const CA = createAuthority();
const WORLD = createAuthority({ trustDomain: "world.test" });
const WEB = CA.issueLeaf({ service: "web" });
const DB = CA.issueLeaf({ service: "db" });
const PARTNER = WORLD.issueLeaf({ service: "partner" });

const PUBLIC = snapshotOf({
  ca: CA,
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  intentions: [intention("web", "allow")],
});

/** An upstream whose callers must speak TLS with a certificate of `WORLD`. */
const EDGE = withOwn(
  snapshotOf({
    ca: CA,
    service: "edge",
    upstreams: [{ name: "db", listener: { credentials: "edge", handshakeTimeoutMs: 2_000 } }],
    targets: [targetOf({ name: "db", uris: [DB.uri], ports: [1] })],
  }),
  "edge",
  { validation: caValidation([WORLD]) },
);

const EDGE_UPSTREAM = Object.values(EDGE.upstreams)[0] ?? upstreamOf({ name: "db" });

type Listening = "the public listener" | "an upstream's TLS listener";

/** Both TLS listeners, each with a caller that it admits. */
const LISTENERS = [
  ["the public listener", PUBLIC, WEB],
  ["an upstream's TLS listener", EDGE, PARTNER],
] as const;

const callerOf = (path: MemoryPath, listening: Listening, remote?: string): SecureCaller =>
  path.engine.callSecurely(path.port(listening === "the public listener" ? "" : "db"), remote);

/** Connects a caller to the other side. */
async function open(path: MemoryPath, listening: Listening, leaf = WEB) {
  const caller = callerOf(path, listening).prove(presented(leaf));
  const server = path.engine.lastDial.connect(
    listening === "the public listener" ? undefined : presented(DB),
  );
  await settle();
  return { caller, server };
}

for (const [listening, snapshot, leaf] of LISTENERS) {
  const start = (options?: Partial<DataPathOptions>) => startMemoryPath(snapshot, options);

  test(`${listening} serves a verified caller, and frees its places at the end`, async () => {
    await using path = await start();
    const { caller, server } = await open(path, listening, leaf);
    caller.send("hello");
    server.send("you");
    await settle();
    assert.deepEqual([server.received, caller.received, path.taken], ["hello", "you", 1]);
    caller.connection.end();
    server.connection.end();
    await settle();
    assert.deepEqual(path.endings, ["completed"]);
    assert.equal(path.lastEnd.source, leaf.uri);
    assert.equal(path.taken, 0);
    assert.equal(path.path.listeners()[0]?.connections, 0);
  });

  test(`${listening} ends a handshake at its deadline`, async () => {
    await using path = await start();
    const caller = callerOf(path, listening);
    await path.clock.advance(11_000);
    assert.ok(caller.gone);
    assert.deepEqual(path.endings, ["handshake_timed_out"]);
    assert.equal(path.lastEnd.stage, "handshake");
  });

  test(`${listening} distinguishes a caller that left from a failed handshake`, async () => {
    await using path = await start();
    callerOf(path, listening).fail("gone", true);
    callerOf(path, listening).fail("no shared cipher", false);
    assert.deepEqual(path.endings, ["closed_early", "handshake_failed"]);
    // The deadline of a completed handshake has no effect.
    const { caller } = await open(path, listening, leaf);
    await path.clock.advance(20_000);
    assert.equal(caller.over, "no");
  });

  test(`${listening} refuses an untrusted certificate without a dial`, async () => {
    await using path = await start();
    const stranger = createAuthority().issueLeaf({ service: "web" });
    callerOf(path, listening).prove(presented(stranger));
    await settle();
    assert.equal(path.lastEnd.stage, "identity");
    assert.equal(path.engine.dials.length, 0);
    assert.equal(path.taken, 0);
  });

  test(`${listening} closes an open connection when its CA is withdrawn`, async () => {
    await using path = await start();
    const { caller, server } = await open(path, listening, leaf);
    const others = [createAuthority()];
    await path.set(
      listening === "the public listener"
        ? {
          ...snapshot,
          credentials: {
            ...snapshot.credentials,
            version: -1,
            rootPems: [others[0]?.rootPem ?? ""],
          },
        }
        : withOwn(snapshot, "edge", { validation: caValidation(others) }),
    );
    assert.notEqual(caller.over, "no");
    assert.notEqual(server.over, "no");
    assert.equal(path.lastEnd.ended_by, "proxy");
    assert.match(String(path.lastEnd.code), /chain_untrusted|identity_invalid/);
  });

  test(`${listening} judges open connections again when it refers to other credentials`, async () => {
    const validation = caValidation([createAuthority()]);
    const both = withOwn(snapshot, "others", { validation });
    await using path = await startMemoryPath(both);
    const { caller } = await open(path, listening, leaf);
    await path.set(
      listening === "the public listener" ? inboundBy(both, "others") : {
        ...both,
        upstreams: {
          "service:default/default/db": {
            ...EDGE_UPSTREAM,
            version: -1,
            listener: { credentials: "others", handshakeTimeoutMs: 2_000 },
          },
        },
      },
    );
    assert.notEqual(caller.over, "no");
  });

  test(`${listening} keeps an open connection after its certificate expired`, async () => {
    await using path = await start();
    const soon = listening === "the public listener" ? CA : WORLD;
    const brief = soon.issueLeaf({ service: "web", ttlMs: 10 * MINUTE_MS });
    const { caller } = await open(path, listening, brief);
    path.clock.advanceNow(20 * MINUTE_MS);
    await path.set({ ...snapshot, policy: policyOf([intention("*", "allow")]) });
    assert.equal(caller.over, "no");
    // A new connection with it is refused.
    callerOf(path, listening).prove(presented(brief));
    await settle();
    assert.match(String(path.lastEnd.reason), /expired/);
  });

  test(`${listening} refuses callers at once while its own certificate is expired`, async () => {
    await using path = await start();
    path.clock.jump(120 * MINUTE_MS);
    assert.ok(callerOf(path, listening).gone);
    assert.equal(path.lastEnd.code, "not_ready");
  });

  test(`${listening} counts no handshakes as connections; the first verified callers get the places`, async () => {
    const limited: Snapshot = listening === "the public listener"
      ? withInbound(snapshot, { maxConnections: 1 })
      : {
        ...snapshot,
        upstreams: Object.fromEntries(
          Object.values(snapshot.upstreams).map((
            part,
          ) => [part.id, { ...part, maxConnections: 1 }]),
        ),
      };
    await using path = await startMemoryPath(limited);
    const callers = [1, 2, 3].map(() => callerOf(path, listening));
    const ends = callers.map((caller) => caller.prove(presented(leaf)));
    await settle();
    assert.deepEqual(ends.map(({ over }) => over !== "no"), [false, true, true]);
    // Refused callers do not count for the process either.
    assert.equal(path.taken, 1);
    assert.ok(callerOf(path, listening).gone, "refused before its handshake");
    const code = listening === "the public listener" ? "overloaded" : "limit_reached";
    // Logged once; the next one of the second is only counted.
    assert.deepEqual(path.endings, [code]);
    assert.match(String(path.lastEnd.reason), /max_(inbound_)?connections is 1/);
  });
}

test("callers are refused at the limit of the process, even below that of their listener", async () => {
  await using path = await startMemoryPath({ ...PUBLIC, upstreams: {}, targets: {} }, {
    maxConnections: 1,
  });
  const { caller } = await open(path, "the public listener");
  assert.ok(callerOf(path, "the public listener").gone);
  assert.equal(path.lastEnd.code, "overloaded");
  assert.equal(caller.over, "no");
});

test("a caller refused for missing secrets is counted, and the log names the secrets", async () => {
  const missing = { missing: ["web.pem"] };
  await using path = await startMemoryPath(withOwn(EDGE, "edge", { own: missing }));
  assert.ok(callerOf(path, "an upstream's TLS listener").gone);
  assert.equal(path.lastEnd.code, "not_ready");
  assert.match(String(path.lastEnd.reason), /missing: web\.pem/);
  const counted = () =>
    path.path.stats.samples().find(({ name }) => name === "secrets_not_ready_total")?.value;
  assert.equal(counted(), 1);
  // An expired certificate is not missing.
  await path.set(EDGE);
  path.clock.jump(120 * MINUTE_MS);
  assert.ok(callerOf(path, "an upstream's TLS listener").gone);
  assert.equal(counted(), 1);
});

test("changed limits apply to the next caller", async () => {
  await using path = await startMemoryPath(PUBLIC);
  await open(path, "the public listener");
  await path.set(withInbound(PUBLIC, { maxConnections: 1 }));
  assert.ok(callerOf(path, "the public listener").gone);
  await path.set(withInbound(PUBLIC, { maxConnections: 2 }));
  await open(path, "the public listener");
  assert.equal(path.taken, 2);
  await using edge = await startMemoryPath(EDGE);
  await open(edge, "an upstream's TLS listener", PARTNER);
  const one = { ...EDGE_UPSTREAM, version: -1, maxConnections: 1 };
  await edge.set({ ...EDGE, upstreams: { [one.id]: one } });
  assert.ok(callerOf(edge, "an upstream's TLS listener").gone);
});

test("a handshake with a removed upstream ends without a place", async () => {
  await using path = await startMemoryPath(EDGE);
  const onItsWay = callerOf(path, "an upstream's TLS listener");
  await path.set({ ...EDGE, upstreams: {} });
  const caller = onItsWay.prove(presented(PARTNER));
  await settle();
  assert.equal(caller.over, "reset");
  assert.deepEqual(path.endings, ["limit_reached"]);
});

test("some places of the process are reserved for upstreams, and the log says so", async () => {
  const upstream = upstreamOf({ name: "db" });
  await using path = await startMemoryPath(
    { ...PUBLIC, upstreams: { [upstream.id]: upstream } },
    { maxConnections: 16 },
  );
  for (let count = 0; count < 14; count++) await open(path, "the public listener");
  assert.deepEqual(path.endings, []);
  assert.ok(callerOf(path, "the public listener").gone);
  assert.match(String(path.lastEnd.reason), /^14 of 16 connections are inbound; the rest is kept/);
  path.engine.call(path.port("db"));
  assert.equal(path.taken, 14, "its attempt has nowhere to go, but there was a place");
  assert.equal(path.lastEnd.code, "no_endpoint");
});

test("the oldest handshake ends at the limit of handshakes", async () => {
  await using path = await startMemoryPath(PUBLIC, { maxConnections: 10_000, workers: 1_000 });
  // Ended handshakes do not count.
  for (let count = 0; count < 3; count++) callerOf(path, "the public listener");
  await path.clock.advance(11_000);
  const callers = [];
  for (let count = 0; count < 4; count++) {
    callers.push(callerOf(path, "the public listener", `10.0.${count}.1:1`));
    await path.clock.advance(2_000);
  }
  assert.deepEqual(callers.map(({ gone }) => gone), [true, false, false, false]);
  assert.deepEqual(path.endings, ["handshake_timed_out", "handshake_crowded_out"]);
});

test("a plaintext connection ends once its listener requires TLS at the same address", async () => {
  const bind = { kind: "tcp", host: "127.0.0.1", port: 2_000 } as const;
  const { id } = EDGE_UPSTREAM;
  const secure = { ...EDGE, upstreams: { [id]: { ...EDGE_UPSTREAM, bind } } };
  const plain = { ...EDGE, upstreams: { [id]: upstreamOf({ name: "db", bind }) } };
  await using path = await startMemoryPath(plain);
  const caller = path.engine.call(path.port("db"));
  path.engine.lastDial.connect(presented(DB));
  await settle();
  await path.set(secure);
  assert.notEqual(caller.over, "no");
  assert.equal(path.lastEnd.code, "identity_invalid");
  assert.equal(path.path.listeners()[0]?.state, "listening");
  await open(path, "an upstream's TLS listener", PARTNER);
  await path.set(plain);
  path.engine.call(path.port("db"));
});

test("a listener that requires TLS refuses plaintext at its old address while the new one is in use", async () => {
  const at = (port: number) => ({ kind: "tcp", host: "127.0.0.1", port }) as const;
  const other = upstreamOf({ name: "other", bind: at(3_000) });
  const plain = upstreamOf({ name: "db", bind: at(2_000) });
  const secure = { ...EDGE_UPSTREAM, version: -1, bind: at(3_000) };
  const upstreams = { [plain.id]: plain, [other.id]: other };
  await using path = await startMemoryPath({ ...EDGE, upstreams });
  await path.set({ ...EDGE, upstreams: { [secure.id]: secure, [other.id]: other } });
  const caller = path.engine.call(2_000);
  await settle();
  assert.equal(caller.over, "reset");
  assert.equal(path.lastEnd.code, "identity_invalid");
  assert.equal(path.engine.dials.length, 0);
});

test("bytes and the end of a caller that come before the other side is connected are passed on", async () => {
  await using path = await startMemoryPath(PUBLIC);
  const caller = callerOf(path, "the public listener").prove(presented(WEB));
  caller.send("hello");
  caller.connection.end();
  await settle();
  const app = path.engine.lastDial.connect();
  await settle();
  assert.deepEqual([app.received, app.over], ["hello", "end"]);
  app.send("you");
  await settle();
  assert.equal(caller.received, "you");
});

for (const drained of [false, true]) {
  test(`a listener that cannot be bound is ${drained ? "not retried while draining" : "retried"}`, async () => {
    const bind = { kind: "tcp", host: "127.0.0.1", port: 2_000 } as const;
    const upstream = upstreamOf({ name: "second", bind });
    await using path = await startMemoryPath({ ...EDGE, upstreams: {} });
    const before = path.engine.listening;
    const other = await path.engine.listen({ address: bind, reusePort: false }, () => {});
    await path.set({ ...EDGE, upstreams: { [upstream.id]: upstream } });
    assert.equal(path.path.listeners().at(-1)?.state, "failed");
    assert.equal(await path.path.retryFailed(), false);
    other.close();
    if (drained) await path.path.drain(1_000);
    assert.equal(await path.path.retryFailed(), !drained);
    assert.equal(path.engine.listening, drained ? 0 : before + 1);
  });
}

test("up to 64 KiB of a caller are kept until the other side is connected; then the caller is paused", async () => {
  await using path = await startMemoryPath(EDGE);
  const caller = callerOf(path, "an upstream's TLS listener").prove(presented(PARTNER));
  const chunk = "x".repeat(16 * 1024);
  for (let count = 0; count < 20; count++) {
    assert.equal(caller.heldBack, count >= 4, `after ${count} chunks of 16 KiB`);
    caller.send(chunk);
    await settle();
  }
  caller.connection.end();
  const server = path.engine.lastDial.connect(presented(DB));
  await settle();
  assert.equal(server.received.length, 20 * chunk.length);
  assert.equal(server.over, "end");
});
