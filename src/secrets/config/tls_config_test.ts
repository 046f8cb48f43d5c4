import assert from "node:assert/strict";
import test from "node:test";
import { NO_RULES } from "../../identity/mod.ts";
import { DEFAULT_ON_DEMAND_RULES } from "../model/plan.ts";
import { LISTENER, problemsOf, SERVER, UPSTREAM } from "../../../test/kit/secrets/tls_config.ts";
import { parseTlsConfig } from "./tls_config.ts";

const file = (path: string) => ({ kind: "file", path });
const LEAF = {
  type: "certificate",
  name: "leaf",
  source: { kind: "consul" },
  initialFetchTimeoutMs: 0,
};
const ROOTS = { ...LEAF, type: "validation", name: "roots" };
const spec = (
  name: string,
  spec: { readonly type: string; readonly [field: string]: unknown },
) => ({
  type: spec.type,
  name,
  source: { kind: "spec", spec, watch: true },
  initialFetchTimeoutMs: 15_000,
});
const pair = (more: object = {}) =>
  spec("web.pem", {
    type: "certificate",
    chain: file("web.pem"),
    key: file("web.key"),
    ...more,
  });
const roots = (more: object = {}, rules: object = {}) =>
  spec("roots.pem", {
    type: "validation",
    trustedCa: file("roots.pem"),
    systemRoots: false,
    ...more,
    rules: { ...NO_RULES, ...rules },
  });
const sds = (type: string, name: string, api = "auto", initialFetchTimeoutMs = 15_000) => ({
  type,
  name,
  source: { kind: "sds", server: SERVER, api },
  initialFetchTimeoutMs,
});
const workload = (type: string, name: string, more: object = {}) => ({
  type,
  name,
  source: { kind: "workload", address: { kind: "unix", path: "/run/spire/agent.sock" }, ...more },
  initialFetchTimeoutMs: 15_000,
});
const plan = (fields: object) => ({
  certificates: [LEAF],
  validation: { secret: ROOTS },
  requireClientCertificate: true,
  onDemand: null,
  ...fields,
});
const PAIR = { source: "file", cert: "web.pem", key: "web.key" };

const ACCEPTED: readonly [name: string, value: unknown, plan: object][] = [
  ["reads no fields as the agent's credentials", {}, plan({})],
  ["reads the agent in one line", { source: "consul" }, plan({})],
  [
    "reads files in one line",
    { ...PAIR, ca: "roots.pem" },
    plan({ certificates: [pair()], validation: { secret: roots() } }),
  ],
  [
    "reads every field of files in one line",
    {
      ...PAIR,
      ca: "roots.pem",
      key_password_file: "pw",
      crl: "crl.pem",
      watchedDirectory: "/etc/tls",
      requireClientCertificate: false,
      minVersion: "1.3",
    },
    plan({
      certificates: [
        pair({ password: file("pw"), watchedDirectory: { path: "/etc/tls", watchModify: false } }),
      ],
      validation: {
        secret: roots({
          crl: file("crl.pem"),
          watchedDirectory: { path: "/etc/tls", watchModify: false },
        }),
      },
      requireClientCertificate: false,
      tls: { minVersion: "TLSv1.3", maxVersion: "TLSv1.3", cipherSuites: [] },
    }),
  ],
  ["uses the agent's validation by default", PAIR, plan({ certificates: [pair()] })],
  [
    "uses the agent's certificate by default",
    { source: "file", ca: "roots.pem" },
    plan({ validation: { secret: roots() } }),
  ],
  [
    "reads PKCS#12",
    { source: "file", pkcs12: "web.p12", keyPassword: "secret" },
    plan({
      certificates: [
        spec("web.p12", {
          type: "certificate",
          pkcs12: file("web.p12"),
          password: { kind: "inline", bytes: new TextEncoder().encode("secret") },
        }),
      ],
    }),
  ],
  [
    "reads the Workload API for everything",
    { source: "workload", id: "spiffe://example.org/web", withdrawalGrace: "500ms" },
    plan({
      certificates: [
        workload("certificate", "spiffe://example.org/web", {
          id: "spiffe://example.org/web",
          withdrawalGraceMs: 500,
        }),
      ],
      validation: {
        secret: workload("validation", "bundles", {
          id: "spiffe://example.org/web",
          withdrawalGraceMs: 500,
        }),
      },
    }),
  ],
  [
    "reads a mix of sources",
    {
      certificate: { ...PAIR, watched_directory: { path: "/etc", watch_modify: true } },
      validation: {
        source: "sds",
        cluster: "sds_cluster",
        name: "ROOTCA",
        api: "sotw",
        initialFetchTimeout: "3s",
        spkiPins: ["NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A="],
        sanMatchers: [
          { type: "uri", prefix: "spiffe://a/" },
          { type: "dns", regex: ".*\\.example", ignoreCase: true },
          { san_type: "IP_ADDRESS", matcher: { exact: "10.0.0.1" } },
        ],
        match_typed_subject_alt_names: [{ san_type: "EMAIL", matcher: { exact: "a@b" } }],
        maxDepth: 2,
        allowExpired: true,
      },
    },
    plan({
      certificates: [pair({ watchedDirectory: { path: "/etc", watchModify: true } })],
      validation: {
        secret: sds("validation", "ROOTCA", "sotw", 3_000),
        defaults: {
          type: "validation",
          systemRoots: false,
          rules: {
            ...NO_RULES,
            spkiPins: ["NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A="],
            matchers: [
              { type: "uri", matcher: { kind: "prefix", value: "spiffe://a/", ignoreCase: false } },
              { type: "dns", matcher: { kind: "regex", regex: ".*\\.example" } },
              { type: "ip", matcher: { kind: "exact", value: "10.0.0.1", ignoreCase: false } },
              { type: "email", matcher: { kind: "exact", value: "a@b", ignoreCase: false } },
            ],
            maxDepth: 2,
            allowExpired: true,
          },
        },
      },
    }),
  ],
  [
    "reads several certificates without a validation",
    {
      certificates: [
        PAIR,
        { source: "workload", socket: "tcp://127.0.0.1:8081", hint: "internal" },
        { source: "consul" },
      ],
      validation: { source: "none" },
    },
    plan({
      certificates: [
        pair(),
        {
          ...workload("certificate", "internal"),
          source: {
            kind: "workload",
            address: { kind: "tcp", host: "127.0.0.1", port: 8_081 },
            hint: "internal",
          },
        },
        LEAF,
      ],
      validation: null,
      requireClientCertificate: false,
    }),
  ],
  [
    "reads Envoy's secret files",
    {
      certificate: { source: "file", secretFile: "sds.yaml", name: "web" },
      validation: { source: "file", secretFile: "roots.json", crl: "crl.pem" },
    },
    plan({
      certificates: [{
        type: "certificate",
        name: "web",
        source: { kind: "secret_file", path: "sds.yaml" },
        initialFetchTimeoutMs: 15_000,
      }],
      validation: {
        secret: {
          type: "validation",
          name: "",
          source: { kind: "secret_file", path: "roots.json" },
          initialFetchTimeoutMs: 15_000,
        },
        defaults: {
          type: "validation",
          systemRoots: false,
          crl: file("crl.pem"),
          rules: NO_RULES,
        },
      },
    }),
  ],
  [
    "reads SPIFFE's bundles from a file",
    { validation: { source: "file", trust_bundles: "bundles.json" } },
    plan({
      validation: {
        secret: spec("bundles.json", {
          type: "validation",
          systemRoots: false,
          spiffe: { kind: "map", source: file("bundles.json") },
          rules: NO_RULES,
        }),
      },
    }),
  ],
  [
    "reads certificates on demand",
    {
      onDemand: {
        cluster: "sds_cluster",
        api: "delta",
        names: ["Shop.example"],
        suffixes: ["*.example.com", ".example.org"],
        prefetch: ["shop.example"],
        defaultName: "shop.example",
        maxEntries: 5,
        wait: "2s",
      },
    },
    plan({
      certificates: [],
      onDemand: {
        source: { kind: "sds", server: SERVER, api: "delta" },
        rules: {
          ...DEFAULT_ON_DEMAND_RULES,
          names: ["shop.example"],
          suffixes: [".example.com", ".example.org"],
          maxEntries: 5,
          waitMs: 2_000,
        },
        prefetch: ["shop.example"],
        defaultName: "shop.example",
      },
    }),
  ],
  [
    "reads versions and suites by either name",
    {
      min_version: "TLSv1_2",
      maxVersion: "1.2",
      cipherSuites: ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"],
    },
    plan({
      tls: {
        minVersion: "TLSv1.2",
        maxVersion: "TLSv1.2",
        cipherSuites: ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"],
      },
    }),
  ],
];

for (const [behaviour, value, wanted] of ACCEPTED) {
  test(`parseTlsConfig() ${behaviour}`, () => {
    assert.deepEqual(parseTlsConfig(value, LISTENER), {
      kind: "valid",
      plan: wanted,
      warnings: [],
    });
  });
}

test("parseTlsConfig() accepts an upstream without certificate that explicitly accepts any server", () => {
  const parsed = parseTlsConfig({
    certificate: { source: "none" },
    validation: { source: "file", acceptUntrusted: true },
  }, UPSTREAM);
  assert.ok(parsed.kind === "valid");
  assert.deepEqual(parsed.plan.certificates, []);
  assert.ok(parsed.plan.validation?.secret.source.kind === "spec");
  assert.equal(parsed.plan.requireClientCertificate, true);
});

const REFUSED: readonly [name: string, value: unknown, problems: readonly string[]][] = [
  ["a text", "file", [" must be an object"]],
  ["another source", { source: "vault" }, [".source must be consul, file, workload"]],
  ["SDS for all", { source: "sds" }, [
    '.source holds one secret a name; say "certificate" and "validation" with a source each',
  ]],
  ["a missing source", { certificate: { cert: "a" } }, [
    ".certificate.source is missing; it must be consul, none, file, sds, workload",
  ]],
  ["files without files", { source: "file" }, [".cert is missing; or ca, or both"]],
  ["a certificate without a key", { source: "file", cert: "a" }, [".key is missing"]],
  ["an unknown field", { certificate: { ...PAIR, chain: "a" } }, [
    ".certificate.chain is not known here; known are cert, key, pkcs12, keyPassword, " +
    "keyPasswordFile, ocspStaple, secretFile, name, watchedDirectory, initialFetchTimeout",
  ]],
  ["both spellings", { min_version: "1.2", minVersion: "1.2" }, [
    '.minVersion is given as "min_version", too',
  ]],
  ["two passwords", { ...PAIR, keyPassword: "a", keyPasswordFile: "b" }, [
    ".keyPassword cannot be beside keyPasswordFile",
  ]],
  ["PKCS#12 beside a pair", { ...PAIR, pkcs12: "a" }, [
    ".cert cannot be beside pkcs12, which has one",
    ".key cannot be beside pkcs12, which has one",
  ]],
  ["a secret file beside files", { certificate: { ...PAIR, secretFile: "a.yaml" } }, [
    ".certificate.cert cannot be beside secretFile, which names the files itself",
    ".certificate.key cannot be beside secretFile, which names the files itself",
  ]],
  ["a validation that accepts no peer", { validation: { source: "file", sanMatchers: [] } }, [
    ".validation.ca is missing, and nothing else says whom to accept: trustBundles, systemRoots, " +
    "secretFile, spkiPins or certificateHashes; to accept anyone, say acceptUntrusted: true",
  ]],
  ["an unknown server", {
    certificate: { source: "sds", cluster: "other", name: "web" },
  }, ['.certificate.cluster names "other", which is no SDS server; known are sds_cluster']],
  ["an invalid socket", { source: "workload", socket: "/run/a.sock" }, [
    '.socket is of no use: Cannot use "/run/a.sock" as a Workload API socket: it begins with ' +
    "neither unix:// nor tcp://",
  ]],
  ["an id without a path", { source: "workload", id: "spiffe://a" }, [
    ".id must be a SPIFFE id such as spiffe://example.org/web",
  ]],
  ["a long grace", { source: "workload", withdrawal_grace: "2m" }, [
    ".withdrawal_grace must be at most 1m",
  ]],
  ["a matcher without a condition", {
    validation: {
      source: "consul",
      san_matchers: [{ type: "dns" }, { type: "x", exact: "a" }, { exact: "a" }, {
        type: "dns",
        exakt: "a",
      }, { san_type: "x", matcher: { exact: "a" } }],
    },
  }, [
    ".validation.san_matchers[0] needs one of exact, prefix, suffix, contains, regex",
    ".validation.san_matchers[1].type must be dns, uri, email, ip or other_name",
    ".validation.san_matchers[2].type is missing",
    '.validation.san_matchers[3].exakt is not known here; did you mean "exact"?',
    ".validation.san_matchers[4].san_type must be EMAIL, DNS, URI, IP_ADDRESS, OTHER_NAME",
  ]],
  ["no certificate at all", { certificate: { source: "none" } }, [
    ".certificates must not be empty: a listener shows a certificate",
  ]],
  ["a required client certificate without validation", {
    validation: { source: "none" },
    requireClientCertificate: true,
  }, [".requireClientCertificate cannot be true where validation is none"]],
  ["both certificate and certificates", { certificate: PAIR, certificates: [PAIR] }, [
    ".certificates cannot be beside certificate; put all of them here",
  ]],
  ["a minimum version above the maximum", { minVersion: "1.3", maxVersion: "1.2" }, [
    ".minVersion is above maxVersion",
  ]],
  ["all at once", { minVersion: "1.1", cipherSuites: ["RC4"], on_demand: { cluster: "x" } }, [
    '.on_demand.cluster names "x", which is no SDS server; known are sds_cluster',
    '.minVersion must be "1.2" or "1.3"',
    ".cipherSuites[0] is no cipher suite that is known here",
  ]],
  ["invalid names", {
    onDemand: { cluster: "sds_cluster", names: ["*.a"], suffixes: ["a"], source: "file" },
  }, [
    '.onDemand.source must be "sds": nothing else can be asked by name',
    ".onDemand.names[0] must be a DNS name without stars",
    '.onDemand.suffixes[0] must be a suffix of DNS names such as ".example.com"',
  ]],
];

for (const [behaviour, value, wanted] of REFUSED) {
  test(`parseTlsConfig() refuses ${behaviour}`, () =>
    assert.deepEqual(
      problemsOf(value, LISTENER),
      wanted.map((problem) => `inbound.tls${problem}`),
    ));
}

for (
  const [behaviour, value, wanted] of [
    ["without validation", { validation: { source: "none" } }, [
      ".validation cannot be none for an upstream; to accept any server, say " +
      '{ "source": "file", "acceptUntrusted": true }',
    ]],
    ["with settings of a listener", {
      certificates: [PAIR, PAIR],
      requireClientCertificate: true,
      onDemand: { cluster: "sds_cluster" },
    }, [
      ".certificates has several; an upstream is shown one",
      ".requireClientCertificate is for listeners only",
      ".onDemand is for listeners only",
    ]],
  ] as const
) {
  test(`parseTlsConfig() refuses an upstream ${behaviour}`, () =>
    assert.deepEqual(
      problemsOf(value, UPSTREAM),
      wanted.map((problem) => `upstreams[0].tls${problem}`),
    ));
}

for (
  const [behaviour, env, wanted] of [
    ["no socket in the environment", {}, "is missing, and SPIFFE_ENDPOINT_SOCKET is not set"],
    [
      "an invalid socket in the environment",
      { SPIFFE_ENDPOINT_SOCKET: "x" },
      "SPIFFE_ENDPOINT_SOCKET is of no use",
    ],
  ] as const
) {
  test(`parseTlsConfig() refuses ${behaviour}`, () => {
    const [problem, ...more] = problemsOf({ source: "workload" }, { ...LISTENER, env });
    assert.match(problem ?? "", new RegExp(`^inbound\\.tls\\.socket .*${wanted}`));
    assert.deepEqual(more, []);
  });
}
