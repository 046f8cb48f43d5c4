import assert from "node:assert/strict";
import { test } from "node:test";
import {
  intention,
  policyOf,
  snapshotOf,
  targetOf,
  withInbound,
} from "../../test/kit/snapshots.ts";
import { createAuthority } from "../../test/kit/certificates.ts";
import type { Permission } from "../policy/mod.ts";
import { inboundHttp, unjudgedHttp } from "../source/http_rules.ts";
import { explain, type Question } from "./explain.ts";

const CA = createAuthority();
const local = { kind: "tcp", host: "127.0.0.1", port: 8080 } as const;
const permission = (action: Permission["action"], prefix: string, rest = {}): Permission => ({
  action,
  path: { kind: "prefix", value: prefix },
  methods: [],
  headers: [],
  ...rest,
});
const GUARDED = withInbound(
  snapshotOf({
    ca: CA,
    service: "db",
    local,
    upstreams: [{ name: "cache", http: unjudgedHttp("http2") }, { name: "plain" }],
    targets: [
      targetOf({ name: "cache", uris: [], ports: [1, 2] }),
      targetOf({ name: "plain", uris: [], ports: [], overrides: { lack: "nobody is there" } }),
    ],
  }),
  { http: inboundHttp("http") },
);
const SNAPSHOT = {
  ...GUARDED,
  policy: policyOf([
    {
      ...intention("web", "permissions"),
      rule: "default/web => default/db (precedence 9, permissions)",
      permissions: [
        permission("deny", "/admin"),
        permission("allow", "/", { methods: ["GET"] }),
        permission("allow", "/", {
          headers: [{
            name: "x-role",
            kind: "regex",
            value: "ad.*",
            ignoreCase: false,
            invert: false,
          }],
        }),
      ],
    },
    intention("batch", "allow"),
  ]),
  exposed: {
    "exposed:21500": {
      version: 1,
      bind: { kind: "tcp", host: "0.0.0.0", port: 21_500 },
      path: "/health",
      local,
      localConnectTimeoutMs: 1,
      http: inboundHttp("http") ?? assert.fail(),
    },
  },
} as const;

async function ask(question: Partial<Question>, snapshot = SNAPSHOT as typeof GUARDED) {
  const full = { source: "web", method: "GET", host: "", path: "/", headers: [], ...question };
  const result = await explain(snapshot, full);
  assert.ok(result.kind === "answer", JSON.stringify(result));
  return result.answer;
}

for (
  const [name, question, verdict, rule] of [
    ["a request that a permission allows", {}, "allow", /permission 2: allow GET \/\*\)$/],
    ["one by another method", { method: "PUT" }, "deny", /no permission: default deny\)$/],
    [
      "one with a field that allows it",
      { method: "PUT", headers: ["X-Role: admin"] },
      "allow",
      /permission 3: /,
    ],
    ["a path by its normal form", { path: "/x/%2e%2e/admin?a" }, "deny", /permission 1: deny/],
    ["a path that goes nowhere", { path: "/a%00" }, "deny", /rules for paths/],
    ["a service that an intention allows", { source: "batch", path: "/admin" }, "allow", /batch/],
    ["a service that nobody mentions", { source: "other" }, "deny", /^default deny$/],
    ["somebody who proved nothing", { source: "" }, "deny", /^default deny$/],
    ["a URI of another mesh", { source: "spiffe://else/web" }, "deny", /^default deny$/],
  ] as const
) {
  test(`explain() ${name}`, async () => {
    const answer = await ask(question);
    assert.equal(answer["verdict"], verdict, JSON.stringify(answer));
    assert.match(String(answer["rule"]), rule);
    assert.equal(answer["protocol"], "http");
  });
}

test("explain() shows the request as it is judged, and who asks", async () => {
  const { source, method, path } = await ask({ path: "/a/../b?c=/../d" });
  assert.match(String(source), /^spiffe:\/\/.*\/ns\/default\/dc\/dc1\/svc\/web$/);
  assert.deepEqual([method, path], ["GET", "/b?c=/../d"]);
});

test("explain() judges connections of a listener that carries bytes", async () => {
  const plain = withInbound(SNAPSHOT as typeof GUARDED, { http: null, authorize: "both" });
  const answer = await ask({}, plain);
  assert.deepEqual([answer["protocol"], answer["verdict"], answer["agent"]], [
    "tcp",
    "deny",
    "is asked, too",
  ]);
  assert.equal((await ask({ source: "batch" }, plain))["verdict"], "allow");
});

test("explain() knows the one path of an exposed listener", async () => {
  const listener = "exposed:21500";
  assert.equal((await ask({ listener, path: "/health?now" }))["verdict"], "allow");
  const other = await ask({ listener, path: "/healthy" });
  assert.deepEqual([other["verdict"], other["status"]], ["deny", 404]);
});

test("explain() finds the service that has a host", async () => {
  const listener = "ingress:8080";
  const edges = {
    [listener]: {
      version: 1,
      id: listener,
      bind: { kind: "tcp", host: "0.0.0.0", port: 8080 },
      http: inboundHttp("http") ?? assert.fail(),
      plugins: [],
      listener: null,
      hosts: [{ names: ["*.shop.example"], upstream: "service:default/default/cache" }],
    },
  } as const;
  const snapshot = { ...SNAPSHOT, edges } as typeof GUARDED;
  const found = await ask({ listener, host: "a.shop.example:8080", path: "/x/../y" }, snapshot);
  assert.deepEqual([found["destination"], found["path"]], ["cache", "/y"]);
  const other = await ask({ listener, host: "b.example" }, snapshot);
  assert.deepEqual([other["verdict"], other["status"]], ["deny", 404]);
});

test("explain() names the targets of an upstream, and why one has nobody", async () => {
  assert.deepEqual((await ask({ listener: "service:default/default/cache" }))["targets"], [
    { target: "cache", endpoints: 2 },
  ]);
  const plain = await ask({ listener: "service:default/default/plain" });
  assert.deepEqual([plain["protocol"], plain["method"], plain["targets"]], ["tcp", undefined, [
    { target: "plain", endpoints: 0, lack: "nobody is there" },
  ]]);
});

test("explain() names the listeners that there are where it is asked about another", async () => {
  const question = {
    listener: "nobody",
    source: "",
    method: "GET",
    host: "",
    path: "/",
    headers: [],
  };
  const result = await explain(SNAPSHOT, question);
  assert.ok(result.kind === "unknown");
  assert.match(result.reason, /"nobody"; there is: inbound exposed:21500 service:/);
});
