import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { caValidation, upstreamsBy, withOwn } from "../../../test/kit/secrets/own_credentials.ts";
import {
  httpRules,
  snapshotOf,
  type SnapshotOptions,
  targetOf,
} from "../../../test/kit/engine/snapshots.ts";
import type { TargetPart } from "../../snapshot/mod.ts";
import { TICKET_LIFE_MS } from "../trust/tls_settings.ts";

const CA = createAuthority();
const DB = CA.issueLeaf({ service: "db" });
const OTHER = CA.issueLeaf({ service: "other" });
const PROVEN = presented(DB);

const dbAt = (ports: readonly number[], overrides: Partial<TargetPart> = {}) =>
  targetOf({ name: "db", uris: [DB.uri], ports, overrides });

const webTo = (
  targets: readonly TargetPart[],
  upstream: NonNullable<SnapshotOptions["upstreams"]>[number] = { name: "db" },
) => snapshotOf({ ca: CA, service: "web", upstreams: [upstream], targets });

const call = ({ engine, port }: MemoryPath) => engine.call(port("db"));

const portOf = ({ engine }: MemoryPath) => {
  const { address } = engine.lastDial.options;
  return address.kind === "tcp" ? address.port : 0;
};

test("an attempt tries three endpoints of each target, nine in all, while nothing was sent", async () => {
  const targets = ["db", "b", "c", "d"].map((key, index) =>
    dbAt([1, 2, 3, 4].map((port) => 10 * index + port), { key })
  );
  const keys = targets.map(({ key }) => key);
  await using path = await startMemoryPath(webTo(targets, { name: "db", targets: keys }));
  const caller = call(path);
  const tried: number[] = [];
  while (caller.over === "no") {
    tried.push(portOf(path));
    path.engine.lastDial.fail();
    await settle();
  }
  assert.deepEqual(tried.map((port) => Math.floor(port / 10)), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
  assert.equal(new Set(tried).size, 9);
  assert.equal(caller.over, "reset");
  assert.deepEqual(path.endings, ["endpoint_refused"]);
  assert.match(
    String(path.lastEnd.reason),
    /^Cannot dial "db" at 127\.0\.0\.1:2\d: connection ref/,
  );
});

test("an attempt without an endpoint frees its place in the dial window", async () => {
  await using path = await startMemoryPath(webTo([dbAt([])]));
  for (let count = 0; count < 129; count++) call(path);
  await path.set(webTo([dbAt([1])]));
  call(path);
  assert.equal(path.engine.dials.length, 1);
  assert.equal(new Set(path.endings).size, 1);
  assert.deepEqual(path.endings[0], "no_endpoint");
  assert.equal(path.lastEnd.stage, "endpoint");
  assert.equal(path.lastEnd.source, "web");
});

test("a failed attempt frees its pending place once", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1])], { name: "db", maxPending: 1 }));
  call(path);
  path.engine.lastDial.fail();
  assert.deepEqual(path.endings, ["endpoint_refused"]);
  call(path);
  call(path);
  assert.equal(path.engine.dials.length, 2);
  assert.equal(path.lastEnd.code, "limit_reached");
});

test("an attempt with missing secrets fails, and is counted", async () => {
  const missing = withOwn(webTo([dbAt([1])]), "own", { own: { missing: ["web.pem"] } });
  await using path = await startMemoryPath(upstreamsBy(missing, "own"));
  assert.equal(call(path).over, "no");
  await settle();
  assert.equal(path.lastEnd.code, "not_ready");
  const samples = path.path.stats.samples();
  assert.equal(samples.find(({ name }) => name === "secrets_not_ready_total")?.value, 1);
});

test("an attempt waits for its turn for half a minute at most", async () => {
  await using path = await startMemoryPath(
    webTo([dbAt([1], { connectTimeoutMs: 60_000 })]),
  );
  for (let count = 0; count < 129; count++) call(path);
  assert.equal(path.engine.dials.length, 128);
  await path.clock.advance(29_900);
  assert.deepEqual(path.endings, []);
  await path.clock.advance(300);
  assert.deepEqual(path.endings, ["endpoint_timed_out"]);
  assert.match(String(path.lastEnd.reason), /not dialled for 30000 ms/);
  // A waiting attempt dials when another dial is complete.
  call(path);
  path.engine.dials[0]?.connect(PROVEN);
  assert.equal(path.engine.dials.length, 129);
});

test("a dial is cancelled at the connect timeout, and the next endpoint is tried", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1, 2], { connectTimeoutMs: 1_000 })]));
  const caller = call(path);
  const first = path.engine.lastDial;
  await path.clock.advance(1_200);
  assert.ok(first.cancelled);
  path.engine.lastDial.connect(PROVEN);
  await settle();
  assert.equal(caller.over, "no");
  await path.clock.advance(10_000);
  assert.deepEqual(path.endings, []);
});

test("a caller that leaves cancels its dial and frees its places", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1])], { name: "db", maxPending: 1 }));
  call(path).connection.reset();
  await settle();
  assert.ok(path.engine.lastDial.cancelled);
  assert.deepEqual(path.endings, ["downstream_reset"]);
  assert.equal(path.taken, 0);
  // The cancelled dial does not time out later.
  await path.clock.advance(10_000);
  const [endpoint] = path.path.view({ connections: false }).endpoints;
  assert.deepEqual([endpoint?.active, endpoint?.failures, path.engine.dials.length], [0, 0, 1]);
  call(path);
  assert.equal(path.engine.dials.length, 2);
  call(path);
  assert.equal(path.lastEnd.code, "limit_reached");
});

test("an endpoint counts as active from its dial to the end of its connection", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1])]));
  const active = () => path.path.view({ connections: false }).endpoints[0]?.active;
  const caller = call(path);
  assert.equal(active(), 1);
  const server = path.engine.lastDial.connect(PROVEN);
  await settle();
  assert.equal(active(), 1);
  server.connection.close();
  caller.connection.close();
  await settle();
  assert.equal(active(), 0);
});

test("a full handshake is made half a minute after the last one, despite resumptions in between", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1])]));
  const ticket = new Uint8Array([1]);
  const dial = (resumed: boolean) => {
    call(path);
    const { options } = path.engine.lastDial;
    path.engine.lastDial.connect(presented(DB, { resumed }));
    path.engine.lastDial.ticket(ticket);
    return options.ticket !== undefined;
  };
  assert.equal(dial(false), false);
  await path.clock.advance(TICKET_LIFE_MS / 2);
  assert.equal(dial(true), true);
  await path.clock.advance(TICKET_LIFE_MS / 2);
  assert.equal(dial(true), true);
  await path.clock.advance(1);
  assert.equal(dial(false), false);
});

test("a handshake that the server did not resume counts as a full handshake", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1])]));
  for (const resumed of [false, false]) {
    call(path);
    path.engine.lastDial.connect(presented(DB, { resumed }));
    path.engine.lastDial.ticket(new Uint8Array([1]));
    await path.clock.advance(TICKET_LIFE_MS - 1_000);
  }
  call(path);
  assert.ok(path.engine.lastDial.options.ticket);
});

test("a failed dial drops the ticket of its endpoint", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1])]));
  call(path);
  path.engine.lastDial.connect(PROVEN);
  path.engine.lastDial.ticket(new Uint8Array([1]));
  call(path);
  assert.ok(path.engine.lastDial.options.ticket);
  path.engine.lastDial.fail();
  call(path);
  assert.equal(path.engine.lastDial.options.ticket, undefined);
});

test("no bytes are sent to a server without an identity of its target", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1])]));
  const caller = call(path);
  caller.send("secret");
  await settle();
  const server = path.engine.lastDial.connect(presented(OTHER));
  await settle();
  assert.equal(server.received, "");
  assert.equal(server.over, "end");
  assert.equal(caller.over, "reset");
  assert.equal(path.lastEnd.code, "endpoint_untrusted");
  assert.match(String(path.lastEnd.reason), /svc\/other, not spiffe:.*svc\/db/);
});

test("acceptUntrusted accepts any server only if the target has no known identity", async () => {
  const ANYBODY = caValidation([], { acceptUntrusted: true });
  for (
    const [uris, validation, leaf, want] of [
      [[DB.uri], ANYBODY, OTHER, "reset"],
      [[], ANYBODY, OTHER, "no"],
      [[], caValidation([CA]), OTHER, "reset"],
      [[], undefined, OTHER, "reset"],
    ] as const
  ) {
    const snapshot = webTo([{ ...dbAt([1]), spiffeUris: uris }]);
    const place = validation ? { validation } : {};
    await using path = await startMemoryPath(
      upstreamsBy(withOwn(snapshot, "own", place), "own"),
    );
    const caller = call(path);
    path.engine.lastDial.connect(presented(leaf));
    await settle();
    assert.equal(caller.over, want, `${uris}`);
  }
});

for (
  const [name, lateMs, says, failures] of [
    ["at once without a byte, while another answers, counts against its endpoint", 999, "", 1],
    ["later does not count", 1_001, "", 0],
    ["after it sent bytes does not count", 0, "hello", 0],
  ] as const
) {
  test(`a server that ends a connection ${name}`, async () => {
    await using path = await startMemoryPath(webTo([dbAt([1, 2])]));
    const end = async (says: string, lateMs: number) => {
      let caller = call(path);
      while (portOf(path) !== (says === "well" ? 2 : 1)) {
        path.engine.lastDial.connect(PROVEN);
        caller = call(path);
      }
      const server = path.engine.lastDial.connect(PROVEN);
      if (says) server.send(says);
      await settle();
      await path.clock.advance(lateMs);
      server.connection.close();
      caller.connection.close();
      await settle();
    };
    await end("", 0);
    await end("well", 0);
    await end(says, lateMs);
    const { endpoints } = path.path.view({ connections: false });
    assert.equal(endpoints.find(({ address }) => address.endsWith(":1"))?.failures, failures);
  });
}

test("an endpoint with a slow handshake is avoided while others answer", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1, 2])]));
  call(path);
  const first = path.engine.lastDial;
  const slow = portOf(path);
  const dialledNext = () => new Set([1, 2, 3, 4].map(() => (call(path), portOf(path))));
  assert.equal(dialledNext().size, 2, "its handshake is not slow yet");
  for (const dial of path.engine.dials.slice(1)) dial.connect(PROVEN);
  await path.clock.advance(1_100);
  assert.deepEqual([...dialledNext()], [3 - slow]);
  assert.equal(path.path.view({ connections: false }).endpoints[0]?.ejectedForMs, 0);
  first.connect(PROVEN);
  await settle();
  assert.equal(dialledNext().size, 2);
});

test("instances that all refuse us are not ejected, since failover would not help", async () => {
  await using path = await startMemoryPath(
    webTo([dbAt([1, 2]), dbAt([3], { key: "b" })], { name: "db", targets: ["db", "b"] }),
  );
  for (let count = 0; count < 30; count++) {
    const caller = call(path);
    assert.notEqual(portOf(path), 3);
    path.engine.lastDial.connect(PROVEN).connection.close();
    caller.connection.close();
    await settle();
  }
  const { endpoints } = path.path.view({ connections: false });
  assert.deepEqual(endpoints.map(({ ejectedForMs }) => ejectedForMs), [0, 0, 0]);
});

test("an instance that refuses us while another answers is ejected, and the log says why", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1, 2])]));
  const line = () => path.lines.find(({ message }) => message === "endpoint ejected");
  for (let count = 0; !line() && count < 100; count++) {
    const caller = call(path);
    const server = path.engine.lastDial.connect(PROVEN);
    if (portOf(path) === 2) server.send("hello");
    await settle();
    server.connection.close();
    caller.connection.close();
    await settle();
  }
  const { endpoint, reason, until, for_ms } = line()?.fields ?? {};
  assert.deepEqual([endpoint, for_ms], ["127.0.0.1:1", 30_000]);
  assert.match(String(reason), /^refused_by_peer: /);
  assert.equal(until, new Date(path.clock.now() + 30_000).toISOString());
});

test("an endpoint that fails too often is ejected, and log and events say so", async () => {
  const told: string[] = [];
  await using path = await startMemoryPath(webTo([dbAt([1, 2])]), {
    takeConditions(changes) {
      const ejections = changes.filter(({ key }) => key.startsWith("ejected "));
      told.push(...ejections.map(({ event }) => `${event?.text} | ${event?.effect ?? ""}`));
      return Promise.resolve();
    },
  });
  const ejected = () => path.lines.filter(({ message }) => message === "endpoint ejected");
  for (let count = 0; ejected().length === 0 && count < 100; count++) {
    const caller = call(path);
    if (portOf(path) === 1) path.engine.lastDial.fail();
    path.engine.lastDial.connect(PROVEN).send("x");
    await settle();
    caller.connection.reset();
    await settle();
  }
  assert.equal(ejected()[0]?.fields.endpoint, "127.0.0.1:1");
  assert.match(String(ejected()[0]?.fields.reason), /^endpoint_refused: /);
  const failed = path.lines.find(({ message }) => message === "endpoint failed");
  assert.equal(failed?.fields.code, "endpoint_refused");
  const dialled = new Set([1, 2, 3, 4].map(() => (call(path), portOf(path))));
  assert.deepEqual([...dialled], [2]);
  await path.clock.advance(40_000);
  assert.match(
    told[0] ?? "",
    /^\S+ ejected for 30s: 5 failures in a row, the last: endpoint_refused: .* \| 1 of 2 instances left in balancing$/,
  );
  assert.match(told[1] ?? "", /^\S+ back in balancing \| $/);
  assert.equal(told.length, 2);
});

test("a successful connection resets the failures of an endpoint", async () => {
  await using path = await startMemoryPath(webTo([dbAt([1])]));
  const failures = () => path.path.view({ connections: false }).endpoints[0]?.failures;
  call(path);
  path.engine.lastDial.fail();
  assert.equal(failures(), 1);
  const caller = call(path);
  const server = path.engine.lastDial.connect(PROVEN);
  server.send("hello");
  await settle();
  caller.connection.close();
  server.connection.close();
  await settle();
  assert.equal(failures(), 0);
});

test("an open upstream connection is judged again when the upstream refers to other credentials", async () => {
  const snapshot = withOwn(webTo([dbAt([1])]), "others", {
    validation: caValidation([createAuthority()]),
  });
  await using path = await startMemoryPath(snapshot);
  const caller = call(path);
  path.engine.lastDial.connect(PROVEN);
  await settle();
  await path.set(upstreamsBy(snapshot, "others"));
  assert.equal(caller.over, "end");
  assert.equal(path.lastEnd.code, "endpoint_untrusted");
});

test("an open upstream connection ends when the target's name or CA changes", async () => {
  const snapshot = webTo([dbAt([1])]);
  for (
    const [code, next] of [
      ["endpoint_untrusted", {
        ...snapshot,
        credentials: {
          ...snapshot.credentials,
          version: -1,
          rootPems: [createAuthority().rootPem],
        },
      }],
      [undefined, {
        ...snapshot,
        credentials: {
          ...snapshot.credentials,
          version: -1,
          rootPems: [CA.rootPem, createAuthority().rootPem],
        },
      }],
    ] as const
  ) {
    await using path = await startMemoryPath(snapshot);
    call(path);
    path.engine.lastDial.connect(PROVEN);
    await settle();
    await path.set(next);
    assert.equal(path.endings[0], code);
  }
});

test("a request uses the connection that was dialled for it before the next one has its turn", async () => {
  const upstream = { name: "db", http: httpRules("http") };
  await using path = await startMemoryPath(webTo([dbAt([1])], upstream));
  const callers = Array.from({ length: 131 }, () => call(path));
  for (const caller of callers) caller.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  await settle();
  assert.equal(path.engine.dials.length, 128);
  const instance = path.engine.dials[0]?.connect(PROVEN);
  await settle();
  assert.equal(instance?.received.match(/GET/g)?.length, 1);
  // The next one dials: the connection has no room.
  assert.equal(path.engine.dials.length, 129);
});
