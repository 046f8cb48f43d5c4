import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import type { StoredState } from "./stored_credentials.ts";
import { formatStored, parseStored } from "./store.ts";

/** With every member that may be absent. */
type Whole<T> = T extends object ? { readonly [K in keyof T]-?: Whole<T[K]> } : T;

const PLUGIN = {
  plugin: "./own.ts",
  as: "second",
  file: { code: "code", digest: "d1", isPinned: true, allow: ["node:crypto"] },
  config: { mark: "kept" },
  routes: { default: { mark: "kept" } },
  onFailure: "skip",
  isForAll: true,
  at: "inbound.plugins[0]",
} as const;
const HTTP = {
  protocol: "http",
  path: { normalize: true, mergeSlashes: false, escapedSlashes: "keep", underscores: "allow" },
  sanitizeForwardedClientCert: false,
  headBytes: 65_536,
  requestTimeoutMs: 0,
  streamIdleTimeoutMs: 300_000,
  showDenials: "code",
} as const;
const SAMPLING = [{ status: "5xx", path: "/", slowMs: 1, isDenied: true, every: 1 }];
const COLLECTOR = {
  format: "otlp_json",
  url: "http://collector/",
  headers: { key: "k" },
  files: { ca: "/ca", certificate: "/cert", key: "/key" },
} as const;
const LOCAL = { kind: "tcp", host: "127.0.0.1", port: 8080 } as const;
const LISTENER = { credentials: "own", handshakeTimeoutMs: 10_000 };
const MATCH = { name: "a", kind: "exact", value: "b", ignoreCase: true, invert: false } as const;
const TOKENS = [{ provider: "okta", claims: [{ path: ["role"], value: "admin" }] }];
const DIRECTION = {
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.3",
  cipherSuites: ["ECDHE-ECDSA-AES128-GCM-SHA256"],
} as const;
const RULES = {
  matchers: [
    {
      type: "other_name",
      oid: "1.2.3",
      matcher: { kind: "exact", value: "web", ignoreCase: false },
    },
    { type: "dns", oid: "", matcher: { kind: "regex", regex: "w.b" } },
  ],
  spkiPins: ["pin"],
  certificateHashes: ["hash"],
  crlPems: ["crl"],
  onlyLeafCrl: false,
  maxDepth: 100,
  allowExpired: false,
  acceptUntrusted: false,
} as const;
const HEADERS = { remove: ["a"], set: [["b", "1"]], add: [["c", "2"]] } as const;
const ENDPOINT = { id: "1", host: "10.0.0.1", port: 20_000, weight: 1 };
const INGRESS_TLS = { enabled: true, entry: { Kind: "ingress-gateway" }, path: ["x"], index: 0 };
const OUTLIER = {
  maxFailures: 5,
  enforcingPercent: 100,
  intervalMs: 10_000,
  baseEjectionMs: 30_000,
  maxEjectionMs: 300_000,
  maxEjectionPercent: 10,
};

/**
 * Each kind of part, each member and each alternative once: a new member of any type does not compile
 * here until this has it.
 */
const EVERYTHING: Whole<StoredState> = {
  snapshot: {
    version: 3,
    service: "web",
    proxyId: "web-1-sidecar-proxy",
    datacenter: "dc1",
    credentials: {
      version: 1,
      certPem: "leaf",
      keyPem: "key",
      rootPems: ["root"],
      trustDomains: ["td.consul"],
      uri: "spiffe://td.consul/ns/default/dc/dc1/svc/web",
      serial: "01",
      notBeforeMs: 1,
      notAfterMs: 2,
    },
    certificates: {
      one: {
        version: 1,
        name: "one",
        source: "file /one.pem",
        certPem: "leaf",
        keyPem: "key",
        keyKind: "ecdsa",
        dnsNames: ["web.example"],
        uris: ["spiffe://td/web"],
        serial: "02",
        notBeforeMs: 1,
        notAfterMs: 2,
      },
    },
    validations: {
      mesh: {
        version: 1,
        name: "mesh",
        source: "consul",
        validation: { kind: "mesh", rootPems: ["root"], trustDomains: ["td"] },
      },
      ca: {
        version: 1,
        name: "ca",
        source: "file /ca.pem",
        validation: { kind: "ca", rootPems: ["root"], rules: RULES },
      },
      spiffe: {
        version: 1,
        name: "spiffe",
        source: "workload",
        validation: { kind: "spiffe", bundles: { td: ["root"] }, rules: RULES },
      },
    },
    ownCredentials: {
      own: {
        version: 1,
        certificates: ["one"],
        validation: "ca",
        missing: ["gone"],
        requireClientCertificate: true,
        onDemand: {
          names: ["a.example"],
          suffixes: [".example"],
          maxEntries: 1,
          negativeTtlMs: 1,
          perSourceRate: 1,
          maxPending: 1,
          waitMs: 1,
        },
        defaultName: "a.example",
        tls: DIRECTION,
        trustDomains: ["td"],
      },
    },
    policy: {
      version: 1,
      intentions: [{
        rule: "web",
        source: { name: "web", namespace: "default", partition: "default", peer: "", uri: "a" },
        action: "permissions",
        permissions: [{
          action: "allow",
          path: { kind: "prefix", value: "/a" },
          methods: ["GET"],
          headers: [MATCH],
          tokens: TOKENS,
          refused: "it cannot be judged",
        }],
        tokens: TOKENS,
        refused: "it cannot be judged",
        precedence: 9,
      }],
      defaultAction: "deny",
    },
    tls: { version: 1, incoming: DIRECTION, outgoing: DIRECTION, strictSpiffeChain: false },
    accessLog: {
      version: 1,
      to: { kind: "file", path: "/log" },
      format: { kind: "json", json: "{}" },
      listeners: true,
      sampling: SAMPLING,
    },
    tracing: {
      version: 1,
      sampling: { ratio: 1, atMost: 1, obeysCaller: true },
      propagation: { read: ["b3"], write: ["b3"], writesCarried: false },
      connections: false,
      collector: COLLECTOR,
      service: "web",
      resource: { zone: "a" },
    },
    telemetry: {
      version: 1,
      metrics: {
        collector: COLLECTOR,
        service: "web",
        resource: { zone: "a" },
        intervalMs: 60_000,
      },
      logs: {
        collector: COLLECTOR,
        service: "web",
        resource: { zone: "a" },
        access: true,
        sampling: SAMPLING,
      },
    },
    inbound: {
      inbound: {
        version: 1,
        bind: { kind: "tcp", host: "0.0.0.0", port: 20_000 },
        local: { kind: "unix", path: "/app.sock" },
        http: HTTP,
        tokens: PLUGIN,
        plugins: [PLUGIN],
        localConnectTimeoutMs: 5_000,
        handshakeTimeoutMs: 10_000,
        maxConnections: 0,
        authorize: "both",
        credentials: "own",
      },
    },
    exposed: {
      "exposed:21500": {
        version: 1,
        bind: { kind: "tcp", host: "0.0.0.0", port: 21_500 },
        path: "/metrics",
        onlyFrom: ["10.0.0.9"],
        local: LOCAL,
        localConnectTimeoutMs: 5_000,
        http: HTTP,
      },
    },
    upstreams: {
      db: {
        version: 1,
        id: "db",
        name: "db",
        bind: { kind: "unix", path: "/db.sock", mode: 0o600 },
        chain: "db",
        http: HTTP,
        plugins: [PLUGIN],
        maxConnections: 1_024,
        maxClientConnections: 10,
        maxPending: 1_024,
        maxRequests: 1_024,
        idleTimeoutMs: 1,
        lifetimeMs: 1,
        credentials: "own",
        listener: LISTENER,
      },
    },
    edges: {
      "ingress:8080": {
        version: 1,
        id: "ingress:8080",
        bind: { kind: "tcp", host: "0.0.0.0", port: 8080 },
        http: HTTP,
        plugins: [PLUGIN],
        listener: LISTENER,
        hosts: [{
          names: ["*"],
          upstream: "db",
          requestHeaders: HEADERS,
          responseHeaders: HEADERS,
        }],
      },
    },
    chains: {
      db: {
        version: 1,
        routes: [{
          name: "r",
          service: "db",
          match: {
            path: { kind: "regex", value: "/a.*" },
            ignoreCase: true,
            methods: ["GET"],
            headers: [MATCH],
            query: [MATCH],
          },
          splits: [{ weight: 1, resolver: "a", plugins: { header_rules: {} } }],
          hash: [
            { kind: "header", name: "x-user", terminal: true },
            { kind: "cookie", name: "c", made: { maxAgeSeconds: 9, path: "/" }, terminal: false },
            { kind: "source", terminal: false },
          ],
          plugins: { retry: {} },
        }],
        resolvers: {
          a: { targets: ["db"], balancing: { kind: "maglev" }, outlier: OUTLIER },
          b: {
            targets: ["db"],
            balancing: { kind: "least_request", choiceCount: 2 },
            outlier: OUTLIER,
          },
          c: {
            targets: ["db"],
            balancing: { kind: "ring_hash", minimumSize: 1, maximumSize: 2 },
            outlier: OUTLIER,
          },
        },
      },
    },
    targets: {
      db: {
        version: 1,
        key: "db",
        names: { id: "db.default.default.dc1", service: "db", subset: "", datacenter: "dc1" },
        sni: "db.default.dc1.internal.td.consul",
        cluster: "db",
        spiffeUris: ["spiffe://td.consul/ns/default/dc/dc1/svc/db"],
        connectTimeoutMs: 5_000,
        endpoints: [ENDPOINT],
        unhealthy: [{ ...ENDPOINT, checks: ["serfHealth"] }],
        lastResort: [ENDPOINT],
        lack: "",
      },
    },
    pluginCode: {
      code: { version: 1, text: "t", path: "/own.ts", map: "{}", libraries: ["valibot"] },
    },
  },
  credentials: {
    salt: "salt",
    registration: {
      id: "web-1-sidecar-proxy",
      service: "web",
      tls: { certificate: { source: "file" } },
      ingress: { clusters: [{}], edges: [{ id: "ingress:8080", tls: INGRESS_TLS }] },
      upstreams: [{
        id: "db",
        name: "db",
        tls: { certificate: { source: "file" } },
        listenerTls: { certificate: { source: "file" } },
        ingressTls: INGRESS_TLS,
      }],
    },
  },
};

test("parseStored() gives back what was stored, with and without credentials", () => {
  for (const state of [EVERYTHING, { snapshot: EVERYTHING.snapshot }]) {
    assert.deepEqual(parseStored(formatStored(state)), { kind: "valid", state });
  }
});

/** Where there is something, and of which type. */
function shapeOf(value: unknown, at = ""): readonly string[] {
  if (typeof value !== "object" || value === null) return [`${at}: ${typeof value}`];
  return Object.entries(value).flatMap(([key, inner]) => shapeOf(inner, `${at}.${key}`));
}

test("the format of a stored state rises whenever the types of what is stored change", () => {
  const shape = createHash("sha256").update(shapeOf(EVERYTHING).toSorted().join("\n")).digest(
    "hex",
  );
  const [, format] = /"schema":(\d+)/.exec(formatStored(EVERYTHING)) ?? [];
  assert.equal(
    `${format} ${shape.slice(0, 16)}`,
    "14 0766f66e5da9911f",
    "what is stored has changed: raise FORMAT in store.ts, and write both here",
  );
});

const TEXT = formatStored(EVERYTHING);
const DIGEST = /"sha256":"([0-9a-f]+)"/.exec(TEXT)?.[1] ?? "";

for (
  const [name, text, shown] of [
    ["an older version", '{"schema":13,"savedAtMs":0,"snapshot":{}}', "13"],
    ["a newer version", TEXT.replace('"schema":14', '"schema":15'), "15"],
    ["a version without a number", '{"snapshot":"password"}', "unknown"],
    ["another program", "password", "unknown"],
    ["nobody", "", "unknown"],
  ] as const
) {
  test(`parseStored() refuses what ${name} wrote, whatever else is in it`, () => {
    assert.deepEqual(parseStored(text), {
      kind: "invalid",
      reason: `another version wrote it: its format is ${shown}, and this one reads 14`,
    });
  });
}

for (
  const [name, text] of [
    ["is cut short", TEXT.slice(0, TEXT.length / 2)],
    ["lacks its last character", TEXT.slice(0, -1)],
    ["ends before its digest", '{"schema":14,"sha256":"0123'],
    ["has no digest", TEXT.replace(`"sha256":"${DIGEST}",`, "")],
    ["has another digest", TEXT.replace(DIGEST, "0".repeat(64))],
    ["has a longer digest", TEXT.replace(DIGEST, `${DIGEST}00`)],
    ["has something added", `${TEXT}{}`],
    ["allows what it denied", TEXT.replace('"defaultAction":"deny"', '"defaultAction":"allow"')],
    ["lacks a part", TEXT.replace(/"policy":\{.*?\]\}\],/, "")],
    ["was written anew with the same content", `${JSON.stringify(JSON.parse(TEXT), null, 1)}\n`],
  ] as const
) {
  test(`parseStored() refuses a state that ${name}`, () => {
    assert.notEqual(text, TEXT);
    const parsed = parseStored(text);
    assert.ok(parsed.kind === "invalid");
    assert.doesNotMatch(parsed.reason, /password|leaf|key/);
  });
}
