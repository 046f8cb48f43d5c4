import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  ChainPart,
  EdgePart,
  HttpRules,
  Snapshot,
  TargetPart,
  UpstreamPart,
} from "./snapshot.ts";
import { oneWay } from "./chains.ts";
import { diffSnapshots, keepSnapshot, patchSnapshot } from "./update.ts";

function upstream(id: string, version = 1): UpstreamPart {
  return {
    version,
    id,
    name: id,
    bind: { kind: "tcp", host: "127.0.0.1", port: 9_000 },
    chain: id,
    maxConnections: 1_024,
    maxPending: 1_024,
    maxRequests: 1_024,
    http: null,
    plugins: [],
    idleTimeoutMs: 0,
    lifetimeMs: 0,
    credentials: null,
    listener: null,
  };
}

function chain(id: string, version = 1): ChainPart {
  return {
    version,
    ...oneWay({
      targets: [`t-${id}`],
      balancing: { kind: "round_robin" },
      outlier: {
        maxFailures: 5,
        enforcingPercent: 100,
        intervalMs: 10_000,
        baseEjectionMs: 30_000,
        maxEjectionMs: 300_000,
        maxEjectionPercent: 10,
      },
    }, id),
  };
}

function target(key: string, version = 1): TargetPart {
  return {
    version,
    key,
    sni: `${key}.td.consul`,
    cluster: `${key}.td.consul`,
    spiffeUris: [`spiffe://td.consul/ns/default/dc/dc1/svc/${key}`],
    connectTimeoutMs: 5_000,
    endpoints: [{ id: "n/s", host: "10.0.0.1", port: 1, weight: version }],
    unhealthy: [],
    lastResort: [],
    lack: "",
  };
}

const HTTP: HttpRules = {
  protocol: "http",
  path: { normalize: false, mergeSlashes: false, escapedSlashes: "keep", underscores: "allow" },
  sanitizeForwardedClientCert: true,
  headBytes: 61_440,
  requestTimeoutMs: 0,
  streamIdleTimeoutMs: 300_000,
  showDenials: "code",
};

const EDGE: EdgePart = {
  version: 2,
  id: "ingress:8080",
  bind: { kind: "tcp", host: "0.0.0.0", port: 8_080 },
  http: HTTP,
  plugins: [],
  listener: null,
  hosts: [{ names: ["*"], upstream: "a" }],
};

const BASE: Snapshot = {
  version: 1,
  service: "web",
  proxyId: "web-sidecar-proxy",
  datacenter: "dc1",
  credentials: {
    version: 1,
    certPem: "cert",
    keyPem: "key",
    rootPems: ["root"],
    trustDomains: ["td.consul"],
    uri: "spiffe://td.consul/ns/default/dc/dc1/svc/web",
    serial: "01",
    notBeforeMs: 0,
    notAfterMs: 1,
  },
  certificates: {},
  validations: {},
  ownCredentials: {},
  policy: { version: 1, intentions: [], defaultAction: "deny" },
  tls: {
    version: 1,
    incoming: { minVersion: "TLSv1.2", maxVersion: "TLSv1.3", cipherSuites: [] },
    outgoing: { minVersion: "TLSv1.2", maxVersion: "TLSv1.3", cipherSuites: [] },
    strictSpiffeChain: false,
  },
  accessLog: null,
  tracing: null,
  telemetry: null,
  inbound: {
    inbound: {
      version: 1,
      bind: { kind: "tcp", host: "0.0.0.0", port: 20_000 },
      local: { kind: "tcp", host: "127.0.0.1", port: 8_080 },
      localConnectTimeoutMs: 5_000,
      handshakeTimeoutMs: 10_000,
      maxConnections: 0,
      authorize: "match",
      http: null,
      plugins: [],
      credentials: null,
    },
  },
  exposed: {
    "exposed:21500": {
      version: 1,
      bind: { kind: "tcp", host: "0.0.0.0", port: 21_500 },
      path: "/health",
      local: { kind: "tcp", host: "127.0.0.1", port: 8_080 },
      localConnectTimeoutMs: 5_000,
      http: HTTP,
    },
  },
  upstreams: { a: upstream("a"), b: upstream("b") },
  edges: {},
  pluginCode: {},
  chains: { a: chain("a"), b: chain("b") },
  targets: { "t-a": target("t-a"), "t-b": target("t-b") },
};

type Change = Partial<Snapshot>;

for (
  const [name, change, parts] of [
    ["nothing but the version", {}, []],
    ["the credentials", { credentials: { ...BASE.credentials, version: 2, serial: "02" } }, [
      "credentials",
    ]],
    ["the policy", { policy: { version: 2, intentions: [], defaultAction: "allow" } }, ["policy"]],
    ["the TLS settings", { tls: { ...BASE.tls, version: 2, strictSpiffeChain: true } }, ["tls"]],
    ["a new access log", {
      accessLog: {
        version: 2,
        to: { kind: "stdout" },
        format: { kind: "default" },
        listeners: true,
      },
    }, ["accessLog"]],
    ["a removed inbound listener", { inbound: {} }, ["inbound.inbound=null"]],
    ["a removed exposed path", { exposed: {} }, ["exposed.exposed:21500=null"]],
    ["a chain", { chains: { ...BASE.chains, b: chain("b", 2) } }, ["chains.b"]],
    ["a target", { targets: { ...BASE.targets, "t-a": target("t-a", 2) } }, ["targets.t-a"]],
    [
      "a new upstream",
      { upstreams: { ...BASE.upstreams, c: upstream("c", 2) } },
      ["upstreams.c"],
    ],
    [
      "a removed upstream with its target",
      {
        upstreams: { a: upstream("a") },
        chains: { a: chain("a") },
        targets: { "t-a": target("t-a") },
      },
      ["upstreams.b=null", "chains.b=null", "targets.t-b=null"],
    ],
    ["a new edge", { edges: { "ingress:8080": EDGE } }, ["edges.ingress:8080"]],
    ["the proxy's identity", { service: "api", proxyId: "api-proxy", datacenter: "dc2" }, []],
  ] as [string, Change, string[]][]
) {
  test(`diffSnapshots() sends ${name} and no other part; patchSnapshot() applies it`, () => {
    const next: Snapshot = { ...BASE, ...change, version: 2 };
    const update = diffSnapshots(BASE, next);
    const sent = [
      ...(["credentials", "policy", "tls", "accessLog"] as const).filter((part) => part in update),
      ...(["inbound", "exposed", "edges", "upstreams", "chains", "targets"] as const).flatMap((
        map,
      ) =>
        Object.entries(update[map]).map(([key, part]) =>
          `${map}.${key}${part === null ? "=null" : ""}`
        )
      ),
    ];
    assert.deepEqual(sent, parts);
    assert.deepEqual(patchSnapshot(BASE, structuredClone(update)), next);
    assert.equal(keepSnapshot(BASE, next) === next, name !== "nothing but the version");
  });
}

test("diffSnapshots() without a previous snapshot is the whole snapshot", () => {
  for (const snapshot of [BASE, { ...BASE, inbound: {} }]) {
    assert.deepEqual(patchSnapshot(undefined, diffSnapshots(undefined, snapshot)), snapshot);
  }
});

test("diffSnapshots() has a first inbound listener", () => {
  const without = { ...BASE, inbound: {} };
  assert.deepEqual(patchSnapshot(without, diffSnapshots(without, BASE)), BASE);
});

test("patchSnapshot() leaves unchanged parts the same objects", () => {
  const next = { ...BASE, version: 2, targets: { ...BASE.targets, "t-a": target("t-a", 2) } };
  const patched = patchSnapshot(BASE, diffSnapshots(BASE, next));
  assert.equal(patched?.credentials, BASE.credentials);
  assert.equal(patched?.upstreams["a"], BASE.upstreams["a"]);
  assert.equal(patched?.targets["t-b"], BASE.targets["t-b"]);
  assert.deepEqual(BASE.targets["t-a"], target("t-a"));
});

for (const part of ["credentials", "policy", "tls"] as const) {
  test(`patchSnapshot() returns undefined for a first update without ${part}`, () => {
    const { [part]: _, ...update } = diffSnapshots(undefined, BASE);
    assert.equal(patchSnapshot(undefined, update), undefined);
  });
}

test("diffSnapshots() has the removal of a key named constructor", () => {
  const before = { ...BASE, targets: { constructor: target("constructor") } };
  const update = diffSnapshots(before, { ...BASE, version: 2, targets: {} });
  assert.deepEqual(update.targets, { constructor: null });
  assert.deepEqual(patchSnapshot(before, update)?.targets, {});
});

test("diffSnapshots() and patchSnapshot() reproduce a series of snapshots", () => {
  let held: Snapshot | undefined;
  let previous: Snapshot | undefined;
  for (let version = 1; version <= 60; version++) {
    // Each key appears and disappears at its own interval; a part's version is that of its last change.
    const keys = ["a", "b", "c", "d"].filter((_, index) => version % (index + 2) !== 0);
    const next: Snapshot = {
      ...BASE,
      version,
      upstreams: Object.fromEntries(keys.map((key) => [key, upstream(key, version - version % 3)])),
      targets: Object.fromEntries(keys.map((key) => [key, target(key, version - version % 5)])),
      inbound: version % 4 === 0 ? {} : BASE.inbound,
    };
    held = patchSnapshot(held, structuredClone(diffSnapshots(previous, next)));
    assert.deepEqual(held, next);
    previous = next;
  }
});
