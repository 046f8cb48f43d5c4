import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import { describeListeners } from "./run_check.ts";

const MESH = snapshotOf({
  ca: createAuthority(),
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  inboundPort: 20_000,
  upstreams: [
    { name: "pay", http: httpRules("grpc"), bind: { kind: "tcp", host: "127.0.0.1", port: 9191 } },
  ],
  intentions: [{
    ...intention("web", "permissions"),
    permissions: [
      { action: "deny", methods: ["GET"], path: { kind: "prefix", value: "/admin" }, headers: [] },
      { action: "allow", methods: [], path: { kind: "regex", value: "(" }, headers: [] },
    ],
  }],
});

test("describeListeners() has the HTTP settings of each listener and the meaning of each permission", async () => {
  const rules = httpRules("http", { requestTimeoutMs: 1_500, streamIdleTimeoutMs: 300_000 });
  const path = { ...rules.path, normalize: true, mergeSlashes: true, escapedSlashes: "reject" };
  const http = { ...rules, path, showDenials: "rule" } as const;
  const [inbound, pay, first, second, ...more] = await describeListeners(
    withInbound(MESH, { http: http as typeof rules }),
  );
  assert.equal(
    inbound,
    "listener inbound on 127.0.0.1:20000 for 127.0.0.1:8080: http, paths normalized, slashes merged, " +
      "escaped slashes: reject, heads of at most 60 KB, time for a request: 1500ms, silence: 5m, " +
      "denied callers get the rule in x-postern-denied-by",
  );
  assert.match(pay ?? "", /^upstream pay on 127\.0\.0\.1:9191: grpc, /);
  assert.match(first ?? "", /^intention .*web.*, permission 1: deny GET \/admin\*$/);
  assert.match(second ?? "", /, permission 2: allow ~\(; denies, since /);
  assert.deepEqual(more, []);
});

test("describeListeners() of a TCP listener lists no permissions", async () => {
  const [inbound, , ...more] = await describeListeners(MESH);
  const where = "listener inbound on 127.0.0.1:20000 for 127.0.0.1:8080";
  assert.equal(inbound, `${where}: tcp, carried as it is`);
  assert.deepEqual(more, []);
});
