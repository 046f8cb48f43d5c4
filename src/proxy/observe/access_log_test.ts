/** Lines of the access log about connections that carry no requests. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  policyOf,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { AccessLogPart, Snapshot } from "../../snapshot/mod.ts";

const CA = createAuthority();
const WEB = CA.issueLeaf({ service: "web" });
const LOG: AccessLogPart = {
  version: 1,
  to: { kind: "stdout" },
  format: { kind: "default" },
  listeners: true,
};
const DB = snapshotOf({
  ca: CA,
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  intentions: [intention("web", "allow")],
  overrides: { accessLog: LOG },
});

async function rig(snapshot: Snapshot = DB) {
  const lines: string[] = [];
  const path = await startMemoryPath(snapshot, { takeLine: (line) => void lines.push(line) });
  return {
    path,
    lines,
    get last() {
      return JSON.parse(lines.at(-1) ?? "null");
    },
    call: () => path.engine.callSecurely(path.port("")),
    [Symbol.asyncDispose]: () => path[Symbol.asyncDispose](),
  };
}

test("a TCP connection writes one line, like Envoy's TCP proxy", async () => {
  await using db = await rig();
  const caller = db.call().prove(presented(WEB, { serverName: "db.test.consul" }));
  const server = db.path.engine.lastDial.connect();
  await settle();
  caller.send("hello");
  server.send("you");
  await db.path.clock.advance(1_500);
  assert.deepEqual(db.lines, []);
  caller.connection.end();
  server.connection.end();
  await settle();
  assert.equal(db.lines.length, 1);
  const { start_time, ...line } = db.last;
  assert.equal(Date.parse(start_time), db.path.clock.now() - 1_500);
  const ends = [line.downstream_remote_address, line.downstream_local_address];
  assert.deepEqual([...ends, line.upstream_local_address].map((end) => typeof end), [
    "string",
    "string",
    "string",
  ]);
  assert.deepEqual(
    Object.fromEntries(
      Object.entries(line).filter(([key, value]) =>
        value !== null && !/(remote|local)_address$/.test(key)
      ),
    ),
    {
      response_code: 0,
      response_flags: "-",
      bytes_received: 5,
      bytes_sent: 3,
      duration: 1_500,
      upstream_host: "127.0.0.1:8080",
      upstream_cluster: "local_app",
      requested_server_name: "db.test.consul",
    },
  );
});

test("the access log shows denied connections and failed dials", async () => {
  await using db = await rig({ ...DB, policy: policyOf([]) });
  db.call().prove(presented(WEB));
  await settle();
  assert.equal(db.last.connection_termination_details, "rbac_access_denied_matched_policy[none]");
  await db.path.set(DB);
  db.call().prove(presented(WEB));
  db.path.engine.lastDial.fail("connection refused");
  await settle();
  assert.equal(db.last.response_flags, "UF");
  assert.equal(db.last.connection_termination_details, "local_refused");
  assert.match(db.last.upstream_transport_failure_reason, /connection refused/);
  assert.equal(db.lines.length, 2);
});

for (
  const [what, listeners, want] of [
    ["has one line", true, ["handshake_failed"]],
    ["has no line with DisableListenerLogs", false, []],
  ] as const
) {
  test(`a failed handshake of an HTTP listener ${what}`, async () => {
    const http = httpRules("http");
    await using db = await rig({
      ...withInbound(DB, { http }),
      accessLog: { ...LOG, listeners },
    });
    db.call().fail("no shared cipher", false);
    // Health checks connect and leave.
    db.call().fail("gone", true);
    assert.deepEqual(
      db.lines.map((line) => JSON.parse(line).connection_termination_details),
      want,
    );
  });
}

test("lines follow changes of the format, and end when the log is turned off", async () => {
  await using db = await rig();
  const fail = () => db.call().fail("no shared cipher", false);
  fail();
  await db.path.set({
    ...DB,
    accessLog: { ...LOG, version: 2, format: { kind: "text", text: "%RESPONSE_FLAGS% over" } },
  });
  fail();
  await db.path.set({ ...DB, accessLog: null });
  fail();
  assert.deepEqual(db.lines.slice(1), ["- over\n"]);
});

test("rules of sampling keep one of N lines of connections, and each that was denied", async () => {
  const sampling = [{ isDenied: true, every: 1 }, { every: 3 }];
  await using db = await rig({ ...DB, accessLog: { ...LOG, version: 2, sampling } });
  const serve = async () => {
    const caller = db.call().prove(presented(WEB, { serverName: "db.test.consul" }));
    const server = db.path.engine.lastDial.connect();
    await settle();
    caller.connection.end();
    server.connection.end();
    await settle();
  };
  for (let count = 0; count < 4; count++) await serve();
  assert.deepEqual(db.lines.map((line) => JSON.parse(line).sampled), ["1/3", "1/3"]);
  await db.path.set({ ...DB, accessLog: { ...LOG, version: 2, sampling }, policy: policyOf([]) });
  db.call().prove(presented(WEB, { serverName: "db.test.consul" }));
  await settle();
  assert.equal(db.lines.length, 3);
  assert.equal(db.last.sampled, undefined);
});
