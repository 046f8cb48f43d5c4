import assert from "node:assert/strict";
import { test } from "node:test";
import { mount, status } from "../../src/kit/mod.ts";
import auditLog from "./audit_log.ts";

test("audit_log logs caller and change, and redacts secrets", async () => {
  const config = { show: ["x-team"] };
  await using it = await mount(auditLog, { config, source: "shop", upstream: [status(204)] });
  const headers = { "x-team": "red", "authorization": "Bearer s3cret", "x-other": "s3cret" };
  const path = "/items/7?key=s3cret&s3cret&b=";
  await it.request({ method: "DELETE", path, headers });
  await it.request({ method: "GET", path, headers });
  const { id, source, plugin: _plugin, listener: _listener, ...facts } = it.logs[0]?.fields ?? {};
  assert.match(String(source), /^spiffe:.*\/shop$/);
  assert.deepEqual(facts, {
    method: "DELETE",
    path: "/items/7?key=[redacted]&[redacted]&b=[redacted]",
    "x-team": "red",
    "authorization": "[redacted]",
    "status": 204,
    "code": "",
  });
  assert.deepEqual([id, it.logs.length], ["request-1", 1]);
});

test("audit_log logs the address of a caller without an identity", async () => {
  await using it = await mount(auditLog, { source: null, upstream: [status(500)] });
  await it.request({ method: "POST" });
  const { source, status: logged } = it.logs[0]?.fields ?? {};
  assert.deepEqual([source, logged], ["10.0.1.1:40000", 500]);
});
