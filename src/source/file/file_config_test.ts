import assert from "node:assert/strict";
import { test } from "node:test";
import { formatProblem, parseFileConfig } from "./file_config.ts";

const CREDENTIALS = { certFile: "a", keyFile: "b", rootsFile: "c" };
const DB = {
  name: "db",
  bind: "127.0.0.1:9191",
  addresses: ["10.0.0.7:20000"],
  identity: { service: "db" },
};
const BASE = {
  service: "web",
  trustDomain: "mesh.example",
  credentials: CREDENTIALS,
  upstreams: [DB],
};

const FILES = { source: "file", cert: "a", key: "b", ca: "c" };
const FILES_ONLY = { source: "file", cert: "a", key: "b" };
const NO_DOMAIN = {
  service: "web",
  credentials: FILES,
  inbound: { bind: ":20000", local: "127.0.0.1:8080" },
};
const { identity: _, ...NAMELESS_DB } = DB;
const OWN_DB = { ...NAMELESS_DB, tls: FILES };

const OPTIONS = { file: "/etc/postern/web.json", env: {} };

/** Problems as people see them, without their places. */
function problems(config: unknown): string[] {
  const parsed = parseFileConfig(JSON.stringify(config), OPTIONS);
  if (parsed.kind === "valid") return [];
  return parsed.problems.map(({ path, message }) => `${path || "the file"} ${message}`);
}

const withUpstream = (overrides: object) => ({ ...BASE, upstreams: [{ ...DB, ...overrides }] });
const inbound = (overrides: object) => ({
  ...BASE,
  inbound: { bind: ":20000", local: "127.0.0.1:8080", ...overrides },
});

for (
  const [name, config, want] of [
    ["a text", "x", [/^the file must be an object, not a text$/]],
    ["a list", [], [/^the file must be an object$/]],
    ["an empty object", {}, [
      /^service is missing$/,
    ]],
    ["nobody's credentials", { ...BASE, credentials: undefined }, [
      /^credentials is missing; it may only be where everything has "tls" of its own$/,
    ]],
    ["files of no trust domain", { ...BASE, trustDomain: undefined }, [
      /^upstreams\[0\]\.identity needs "trustDomain"/,
      /^trustDomain is missing: certFile, keyFile and rootsFile are those of a mesh$/,
    ]],
    ["nothing to serve", { ...BASE, upstreams: [] }, [/neither "inbound" nor "upstreams"/]],
    ["an unknown key", { ...BASE, upstream: [] }, [
      /^upstream is not known here; did you mean "upstreams"\?$/,
    ]],
    ["an unknown key inside", withUpstream({ adresses: [] }), [
      /^upstreams\[0\]\.adresses is not known here; did you mean "addresses"\?$/,
    ]],
    ["an odd key", { ...BASE, "a b": 1 }, [/^\["a b"\] is not known here/]],
    ["__proto__", JSON.parse(`{"__proto__": {}, ${JSON.stringify(BASE).slice(1)}`), [
      /^__proto__ is not known here/,
    ]],
    ["an empty service", { ...BASE, service: "" }, [/^service must not be empty$/]],
    ["a service with a slash", { ...BASE, service: "a/b" }, [/^service must be a name without/]],
    ["a star as service", { ...BASE, service: "*" }, [/^service must be a name without/]],
    ["a number as service", { ...BASE, service: 1 }, [/^service must be a text, not 1$/]],
    ["a bad trust domain", { ...BASE, trustDomain: "a b" }, [
      /^trustDomain is not a trust domain$/,
    ]],
    ["a missing key file", { ...BASE, credentials: { ...CREDENTIALS, keyFile: undefined } }, [
      /^credentials\.keyFile is missing$/,
    ]],
    ["a path with NUL", { ...BASE, credentials: { ...CREDENTIALS, keyFile: "a\u0000" } }, [
      /^credentials\.keyFile has a control character$/,
    ]],
    ["a port of 0", withUpstream({ bind: "127.0.0.1:0" }), [
      /^upstreams\[0\]\.bind must be host:port/,
    ]],
    ["a port too high", withUpstream({ bind: "127.0.0.1:65536" }), [
      /^upstreams\[0\]\.bind must be/,
    ]],
    ["a bare port", withUpstream({ bind: "9191" }), [/^upstreams\[0\]\.bind must be host:port/]],
    ["a bare IPv6 address", withUpstream({ bind: "::1:80" }), [/^upstreams\[0\]\.bind must be/]],
    ["a relative socket", withUpstream({ bind: "unix://a" }), [/^upstreams\[0\]\.bind must be/]],
    ["a long socket path", withUpstream({ bind: `unix:///${"a".repeat(107)}` }), [/bind must be/]],
    ["a public listener on a socket", inbound({ bind: "unix:///a" }), [
      /^inbound\.bind must be host:port,/,
    ]],
    ["a mode for a port", withUpstream({ socketMode: "0600" }), [/socketMode is for unix sockets/]],
    ["a mode that is no mode", withUpstream({ bind: "unix:///a", socketMode: "rw" }), [
      /socketMode must be an octal text/,
    ]],
    ["an address without port", withUpstream({ addresses: ["a:1", "b"] }), [
      /^upstreams\[0\]\.addresses\[1\] must be host:port/,
    ]],
    ["an IPv4 address that is none", withUpstream({ addresses: ["10.0.0.300:20000"] }), [
      /^upstreams\[0\]\.addresses\[0\] names "10\.0\.0\.300", which is no IPv4 address$/,
    ]],
    ["a host that is no address", withUpstream({ addresses: [{ host: "10.0.0", port: 1 }] }), [
      /^upstreams\[0\]\.addresses\[0\]\.host names "10\.0\.0", which is no IPv4 address$/,
    ]],
    ["an IPv6 address that is none", inbound({ bind: "[1:2:3]:80" }), [
      /^inbound\.bind names "1:2:3", which is no IPv6 address$/,
    ]],
    ["an object of upstreams", { ...BASE, upstreams: { db: DB } }, [
      /^upstreams must be a list, not an object$/,
    ]],
    ["a number as an address", withUpstream({ addresses: [7] }), [
      /^upstreams\[0\]\.addresses\[0\] must be host:port, not 7$/,
    ]],
    ["a weight of 0", withUpstream({ addresses: [{ host: "a", port: 1, weight: 0 }] }), [
      /^upstreams\[0\]\.addresses\[0\]\.weight must be a whole number from 1 to 128, not 0$/,
    ]],
    ["an address twice", withUpstream({ addresses: ["a:1", { host: "a", port: 1 }] }), [
      /^upstreams\[0\]\.addresses\[1\] is given twice$/,
    ]],
    ["no identity", withUpstream({ identity: undefined }), [/^upstreams\[0\]\.identity is needed/]],
    [
      "two kinds of identity",
      withUpstream({ spiffeIds: ["spiffe://mesh.example/ns/a/dc/b/svc/c"] }),
      [
        /^upstreams\[0\]\.identity is needed, or "spiffeIds"; one of the two/,
      ],
    ],
    ["a bad SPIFFE id", withUpstream({ identity: undefined, spiffeIds: ["spiffe://x"] }), [
      /^upstreams\[0\]\.spiffeIds\[0\] is no SPIFFE id$/,
    ]],
    [
      "a stranger's SPIFFE id",
      withUpstream({
        identity: undefined,
        spiffeIds: ["spiffe://other/ns/a/dc/b/svc/c"],
      }),
      [/spiffeIds has "spiffe:\/\/other.*not in trust domain "mesh\.example"$/],
    ],
    ["a number as duration", withUpstream({ connectTimeout: 5 }), [
      /^upstreams\[0\]\.connectTimeout must be a duration such as/,
    ]],
    ["a duration without unit", withUpstream({ connectTimeout: "5" }), [
      /must be a duration such as/,
    ]],
    ["a negative duration", withUpstream({ idleTimeout: "-1s" }), [/must be from 0ms to 24 days/]],
    ["no time to connect", withUpstream({ connectTimeout: "0" }), [/must be from 1ms/]],
    ["an unknown balancer", withUpstream({ balancing: "fair" }), [
      /^upstreams\[0\]\.balancing must be round_robin, random,/,
    ]],
    [
      "a ring upside down",
      withUpstream({
        balancing: { kind: "ring_hash", minimumSize: 9, maximumSize: 8 },
      }),
      [/balancing has a minimumSize above its maximumSize/],
    ],
    ["a bad outlier share", withUpstream({ outlier: { maxEjectionPercent: 101 } }), [
      /outlier\.maxEjectionPercent must be a whole number from 0 to 100/,
    ]],
    ["two upstreams of one name", { ...BASE, upstreams: [DB, { ...DB, bind: ":9192" }] }, [
      /^upstreams\[1\]\.name "db" is used by an earlier upstream$/,
    ]],
    ["two upstreams on one port", { ...BASE, upstreams: [DB, { ...DB, name: "db2" }] }, [
      /^upstreams\[1\]\.bind 127\.0\.0\.1:9191 is taken by an earlier listener$/,
    ]],
    ["an unknown action", { ...BASE, intentions: [{ source: "a", action: "log" }] }, [
      /^intentions\[0\]\.action must be "allow" or "deny"$/,
    ]],
    ["two intentions for a source", {
      ...BASE,
      intentions: [{ source: "a", action: "allow" }, { source: "A", action: "deny" }],
    }, [/^intentions\[1\]\.source "A" has an intention already$/]],
    ["a wildcard inside a name", { ...BASE, intentions: [{ source: "a*", action: "deny" }] }, [
      /^intentions\[0\]\.source must be a service name, /,
    ]],
    ["a service's intention in no trust domain", {
      ...NO_DOMAIN,
      intentions: [{ source: "shop", action: "deny" }, { source: "spiffe://a/*", action: "allow" }],
    }, [/^intentions\[0\]\.source needs "trustDomain" at the top of the file, /]],
    ["every service's intention in no trust domain", {
      ...NO_DOMAIN,
      intentions: [{ source: "*", action: "deny" }],
      defaultAction: "allow",
    }, [/^intentions\[0\]\.source needs "trustDomain" at the top of the file, /]],
    ["an upstream of which anybody of a CA could answer", { ...BASE, upstreams: [OWN_DB] }, [
      /^upstreams\[0\]\.identity is needed, or "spiffeIds", or sanMatchers in "tls"; nothing says/,
    ]],
    ["an upstream of which anybody of the proxy's own CA could answer", {
      ...NO_DOMAIN,
      upstreams: [{ ...OWN_DB, tls: { certificate: { source: "none" } } }],
    }, [/^upstreams\[0\]\.identity is needed, or "spiffeIds", or sanMatchers in "tls"; /]],
    ["an unknown default", { ...BASE, defaultAction: "maybe" }, [/^defaultAction must be "allow"/]],
    ["an old TLS version", { ...BASE, tls: { incoming: { minVersion: "1.1" } } }, [
      /^tls\.incoming\.minVersion must be "1\.2" or "1\.3"$/,
    ]],
    ["TLS versions upside down", {
      ...BASE,
      tls: {
        incoming: { minVersion: "1.3", maxVersion: "1.2" },
        outgoing: { cipherSuites: ["X"] },
      },
    }, [
      /^tls\.incoming allows no version: its minVersion is above its maxVersion$/,
      /^tls\.outgoing\.cipherSuites\[0\] is no cipher suite that is known here$/,
    ]],
    ["several problems", { ...BASE, service: 1, defaultAction: 2, x: 3 }, [
      /^service/,
      /^defaultAction/,
      /^x is not known/,
    ]],
  ] as const satisfies readonly (readonly [string, unknown, readonly RegExp[]])[]
) {
  test(`parseFileConfig() refuses ${name}`, () => {
    const found = problems(config);
    assert.equal(found.length, want.length, found.join("\n"));
    want.forEach((pattern, index) => assert.match(found[index] ?? "", pattern));
  });
}

test("parseFileConfig() takes the shortest configuration and fills in the rest", () => {
  const parsed = parseFileConfig(JSON.stringify(BASE), OPTIONS);
  assert.ok(parsed.kind === "valid");
  const { config } = parsed;
  assert.equal(config.defaultAction, "deny");
  assert.deepEqual(config.intentions, []);
  const [upstream] = config.upstreams;
  assert.deepEqual(upstream?.bind, { kind: "tcp", host: "127.0.0.1", port: 9191 });
  assert.deepEqual(upstream?.balancing, { kind: "round_robin" });
  assert.equal(upstream?.connectTimeout, 5_000);
  assert.equal(upstream?.maxConnections, 1_024);
});

test("parseFileConfig() takes every key", () => {
  const whole = {
    ...BASE,
    datacenter: "dc2",
    inbound: {
      bind: "[::]:20000",
      local: "unix:///run/web.sock",
      localConnectTimeout: "1s",
      handshakeTimeout: "1m30s",
      maxConnections: 5,
      protocol: "http2",
      http: {
        requestTimeout: "30s",
        streamIdleTimeout: "0",
        headBytes: 16_384,
        paths: {
          normalize: true,
          mergeSlashes: true,
          escapedSlashes: "reject",
          underscores: "drop",
        },
        sanitizeForwardedClientCert: true,
        showDenials: "rule",
      },
    },
    upstreams: [{
      name: "db",
      bind: "unix:///run/db.sock",
      socketMode: "0660",
      addresses: ["[fd00::1]:20000", { host: "db.example", port: 1, weight: 3 }],
      spiffeIds: ["spiffe://mesh.example/ns/default/dc/dc1/svc/db"],
      sni: "db.example",
      balancing: { kind: "least_request" },
      outlier: { maxFailures: 1, interval: "1s", baseEjection: "2s", maxEjection: "3s" },
      connectTimeout: "250ms",
      idleTimeout: "0",
      lifetime: "24h",
      maxConnections: 0,
      maxPending: 0,
      maxRequests: 0,
      protocol: "grpc",
      http: { requestTimeout: "1s", streamIdleTimeout: "2s", headBytes: 1_024, paths: {} },
    }],
    intentions: [{ source: "*", namespace: "*", partition: "*", action: "deny" }],
    defaultAction: "allow",
    tls: {
      incoming: { minVersion: "1.3", maxVersion: "1.3", cipherSuites: [] },
      outgoing: {},
      strictSpiffeChain: true,
    },
  };
  assert.deepEqual(problems(whole), []);
  const parsed = parseFileConfig(JSON.stringify(whole), OPTIONS);
  assert.ok(parsed.kind === "valid");
  const [upstream] = parsed.config.upstreams;
  assert.equal(upstream?.socketMode, 0o660);
  assert.deepEqual(upstream?.balancing, { kind: "least_request", choiceCount: 2 });
  assert.deepEqual(upstream?.addresses[0], { kind: "tcp", host: "fd00::1", port: 20_000 });
});

for (
  const [name, fields] of [
    ["by SPIFFE ids", { spiffeIds: ["spiffe://other/db"] }],
    ["by its names", { tls: { ...FILES, sanMatchers: [{ type: "dns", exact: "db.example" }] } }],
    ["by the hash of its certificate", { tls: { ...FILES, certificateHashes: ["ab".repeat(32)] } }],
    ["as anybody, said so", { tls: { ...FILES, acceptUntrusted: true } }],
    ["by what an SDS server says", {
      tls: {
        certificate: { source: "none" },
        validation: { source: "sds", cluster: "sds", name: "db" },
      },
    }],
  ] as const
) {
  test(`parseFileConfig() takes an upstream whose server is known ${name}`, () => {
    const sds = { sds: { address: "unix:///run/sds.sock" } };
    assert.deepEqual(problems({ ...BASE, sds, upstreams: [{ ...OWN_DB, ...fields }] }), []);
  });
}

test("parseFileConfig() warns of a listener that no caller can use", () => {
  const tls = { certificate: FILES_ONLY, validation: { source: "none" } };
  const warningsOf = (fields: object) => {
    const config = { ...NO_DOMAIN, inbound: { ...NO_DOMAIN.inbound, tls }, ...fields };
    const parsed = parseFileConfig(JSON.stringify(config), OPTIONS);
    assert.ok(parsed.kind === "valid");
    return parsed.config.credentials.plans.warnings;
  };
  assert.deepEqual(warningsOf({}), [
    "inbound.tls asks nobody for a certificate, and intentions are about those who show one: " +
    'with defaultAction "deny" nobody gets in',
  ]);
  assert.deepEqual(warningsOf({ defaultAction: "allow" }), []);
});

for (const kind of ["round_robin", "random", "maglev", "least_request", "ring_hash"]) {
  test(`parseFileConfig() takes balancing ${kind} by its name`, () => {
    assert.deepEqual(problems(withUpstream({ balancing: kind })), []);
  });
}

test("parseFileConfig() reports the path of a problem", () => {
  const parsed = parseFileConfig('\ufeff{\n  "service": "web",\n  "servce": 1\n}', OPTIONS);
  assert.ok(parsed.kind === "invalid");
  assert.deepEqual(parsed.problems.map(formatProblem), [
    'line 3, column 3: servce is not known here; did you mean "service"?',
  ]);
});

test("parseFileConfig() reports line and column of a JSON error", () => {
  const parsed = parseFileConfig('{\n  "service": "web"\n  "x": 1\n}', OPTIONS);
  assert.ok(parsed.kind === "invalid");
  assert.deepEqual(parsed.problems.map(formatProblem), [
    'line 3, column 3: the file is not JSON: expected "," or "}"',
  ]);
});

test("parseFileConfig() refuses a key given twice", () => {
  const text = JSON.stringify(BASE).replace("{", '{"intentions": [], "intentions": [],');
  const parsed = parseFileConfig(text, OPTIONS);
  assert.ok(parsed.kind === "invalid");
  assert.deepEqual(parsed.problems.map(({ path, message }) => `${path} ${message}`), [
    "intentions is given twice",
  ]);
});

test("parseFileConfig() reports a hundred problems, and the number of others", () => {
  const upstreams = Array.from({ length: 150 }, () => ({ ...DB, bnd: 1 }));
  const reported = problems({ ...BASE, upstreams });
  assert.equal(reported.length, 101);
  assert.match(reported[99] ?? "", /^upstreams\[99\]\.bnd is not known here/);
  assert.equal(reported[100], "the file has 50 more problems");
});
