import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";

const CA = createAuthority();
const SNAPSHOT = withInbound(
  snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [{
      ...intention("web", "permissions"),
      rule: "web => db (precedence 9, permissions)",
      permissions: [{ action: "allow", methods: ["PUT"], headers: [] }],
    }],
  }),
  { http: httpRules("http") },
);

function shown({ path }: MemoryPath) {
  const [connection] = path.view({ connections: true }).connections;
  assert.ok(connection?.http);
  assert.equal(connection.rule, "web => db (precedence 9, permissions)");
  return connection.http;
}

test("a connection shows its oldest requests, with their rule and progress", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const [listener] = path.path.listeners();
  assert.equal(listener?.protocol, "http");
  const port = Number(listener?.address.split(":").at(-1));
  const leaf = CA.issueLeaf({ service: "web" });
  const caller = path.engine.callSecurely(port).prove(presented(leaf));
  caller.send(
    "PUT /a?token=secret HTTP/1.1\r\nHost: db\r\nX-Request-Id: 7\r\nContent-Length: 9\r\n\r\nabc",
  );
  await settle();
  const app = path.engine.lastDial.connect();
  await settle();
  await path.clock.advance(2_000);
  assert.deepEqual(shown(path), {
    version: "HTTP/1.1",
    open: 1,
    total: 1,
    idleMs: 0,
    oldest: [{
      id: "7",
      method: "PUT",
      authority: "db",
      path: "/a",
      status: 0,
      endpoint: "127.0.0.1:8080",
      rule: "web => db (precedence 9, permission 1: allow PUT)",
      ageMs: 2_000,
      idleMs: 2_000,
      receivedBytes: 3,
      sentBytes: 0,
    }],
  });
  app.send("HTTP/1.1 202 Accepted\r\nContent-Length: 4\r\n\r\nok");
  await settle();
  const [request] = shown(path).oldest;
  assert.deepEqual([request?.status, request?.sentBytes, request?.idleMs], [202, 2, 0]);
  caller.send("defghi");
  app.send("ok");
  await settle();
  await path.clock.advance(3_000);
  const none = { version: "HTTP/1.1", open: 0, total: 1, idleMs: 3_000, oldest: [] };
  assert.deepEqual(shown(path), none);
  const [connection] = path.path.view({ connections: true }).connections;
  assert.equal(connection?.idleMs, 3_000);
});

test("texts of a caller are shown and logged shortened, and without the query", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const [listener] = path.path.listeners();
  const port = Number(listener?.address.split(":").at(-1));
  const caller = path.engine.callSecurely(port).prove(presented(CA.issueLeaf({ service: "web" })));
  const long = "x".repeat(10_000);
  const rest = `/${long}?token=secret HTTP/1.1\r\nHost: ${long}\r\nX-Request-Id: ${long}\r\n\r\n`;
  caller.send(`GET ${rest}PUT ${rest}`);
  await settle();
  const failed = path.lines.find(({ message }) => message === "request failed")?.fields ??
    assert.fail();
  const [{ id, authority, path: target } = assert.fail()] = shown(path).oldest;
  for (const text of [id, authority, target, String(failed.path)]) {
    assert.match(text, /^\/?x{499,500}\.\.\.$/);
  }
});
