/**
 * A connection that is open when its intention is revoked, its root removed or the default turned is
 * closed at once; those of others live on.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { openClient } from "../kit/engine/data_path.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { intention, policyOf } from "../kit/engine/snapshots.ts";

async function openThrough(port: number) {
  const client = await openClient(port);
  client.send("hello");
  await client.read(5);
  return client;
}

test("a revoked intention closes the open connection and names the rule", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await openThrough(pair.port);
  await pair.db.set({
    ...pair.dbSnapshot,
    policy: policyOf([intention("web", "deny"), intention("*", "allow")]),
  });
  assert.equal(await client.gone, "end");
  const { fields } = await pair.line(({ fields }) => fields.code === "intention_denied");
  assert.equal(fields.rule, "default/web => test (deny)");
  assert.equal(fields.direction, "inbound");
  assert.equal(fields.ended_by, "proxy");
  assert.equal(fields.received_bytes, 5);
});

test("a new connection after the revocation is refused", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await pair.db.set({ ...pair.dbSnapshot, policy: policyOf([intention("web", "deny")]) });
  await using client = await openClient(pair.port);
  client.send("hello");
  assert.equal(await client.gone, "end");
  assert.equal(echo.accepted, 0, "the application must not see a denied connection");
});

test("an intention for another caller leaves the open connection alone", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await openThrough(pair.port);
  await pair.db.set({
    ...pair.dbSnapshot,
    policy: policyOf([intention("batch", "deny"), intention("web", "allow")]),
  });
  client.send("again");
  assert.equal(String(await client.read(5)), "again");
});

test("permissions at L4 deny", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await openThrough(pair.port);
  await pair.db.set({ ...pair.dbSnapshot, policy: policyOf([intention("web", "permissions")]) });
  assert.equal(await client.gone, "end");
});

test("a changed default closes connections that only the default allowed", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await pair.db.set({ ...pair.dbSnapshot, policy: policyOf([], "allow") });
  await using client = await openThrough(pair.port);
  await pair.db.set({ ...pair.dbSnapshot, policy: policyOf([], "deny") });
  assert.equal(await client.gone, "end");
  const { fields } = await pair.line(({ fields }) => fields.code === "intention_denied");
  assert.equal(fields.rule, "default deny");
});

test("a removed root closes the connections whose certificates it signed, on both sides", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await openThrough(pair.port);
  const other = createAuthority();
  await pair.web.set({
    ...pair.webSnapshot,
    credentials: {
      ...pair.webSnapshot.credentials,
      version: -1,
      rootPems: [other.rootPem],
    },
  });
  assert.equal(await client.gone, "end");
  const { fields } = await pair.line(({ fields }) =>
    fields.code === "chain_untrusted" || fields.code === "endpoint_untrusted"
  );
  assert.equal(fields.direction, "outbound");
  assert.equal(fields.ended_by, "proxy");
});

test("a rotated leaf leaves open connections alone", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await openThrough(pair.port);
  const fresh = pair.ca.issueLeaf({ service: "db" });
  await pair.db.set({
    ...pair.dbSnapshot,
    credentials: {
      ...pair.dbSnapshot.credentials,
      version: -1,
      certPem: fresh.certPem,
      keyPem: fresh.keyPem,
    },
  });
  client.send("again");
  assert.equal(String(await client.read(5)), "again");
  await using second = await openThrough(pair.port);
  second.send("fresh");
  assert.equal(String(await second.read(5)), "fresh");
});
