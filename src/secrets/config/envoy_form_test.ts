import assert from "node:assert/strict";
import test from "node:test";
import { NO_RULES } from "../../identity/mod.ts";
import { DEFAULT_ON_DEMAND_RULES } from "../plan.ts";
import { LISTENER, NODE, problemsOf, SERVER, UPSTREAM } from "../../../test/kit/tls_config.ts";
import { parseTlsConfig } from "./tls.ts";

const TYPES = "type.googleapis.com/envoy.extensions.transport_sockets.tls";
const file = (path: string) => ({ kind: "file", path });
const ref = (type: string, name: string, source: object, initialFetchTimeoutMs = 15_000) => ({
  type,
  name,
  source,
  initialFetchTimeoutMs,
});
const certificate = (path: string, watched?: string) =>
  ref("certificate", path, {
    kind: "spec",
    spec: {
      type: "certificate",
      chain: file(path),
      key: file(path.replace("pem", "key")),
      ...(watched && { watchedDirectory: { path: watched, watchModify: false } }),
    },
    watch: watched !== undefined,
  });
const roots = (rules: object = {}) =>
  ref("validation", "ca.pem", {
    kind: "spec",
    spec: {
      type: "validation",
      trustedCa: file("ca.pem"),
      systemRoots: false,
      rules: { ...NO_RULES, ...rules },
    },
    watch: false,
  });
const plan = (fields: object) => ({
  certificates: [certificate("web.pem")],
  validation: null,
  requireClientCertificate: false,
  onDemand: null,
  ...fields,
});

const PAIR = { certificate_chain: { filename: "web.pem" }, private_key: { filename: "web.key" } };
const TRUST = { trusted_ca: { filename: "ca.pem" } };
const GRPC = {
  api_config_source: {
    api_type: "GRPC",
    transport_api_version: "V3",
    grpc_services: [{ envoy_grpc: { cluster_name: "sds_cluster" } }],
  },
  resource_api_version: "V3",
};
const DELTA = {
  api_config_source: { ...GRPC.api_config_source, api_type: "DELTA_GRPC" },
};
const onDemand = (mapper: object, fields: object = {}) => ({
  name: "on-demand-config",
  typed_config: {
    "@type": `${TYPES}.cert_selectors.on_demand_secret.v3.Config`,
    config_source: DELTA,
    certificate_mapper: { name: "mapper", typed_config: mapper },
    ...fields,
  },
});
const SNI = { "@type": `${TYPES}.cert_mappers.sni.v3.SNI`, default_value: "fallback.example" };
const STATIC = { "@type": `${TYPES}.cert_mappers.static_name.v3.StaticName`, name: "web" };
const listener = (common: object, fields: object = {}) => ({
  common_tls_context: common,
  ...fields,
});
const withPair = (common: object, fields: object = {}) =>
  listener({ tls_certificates: [PAIR], ...common }, fields);

const ACCEPTED: readonly [string, value: unknown, plan: object, warnings?: readonly string[]][] = [
  [
    "a static certificate, and asks nobody for one",
    listener({ tls_certificates: [PAIR] }),
    plan({}),
  ],
  [
    "a whole transport socket with SDS over gRPC",
    {
      transport_socket: {
        name: "envoy.transport_sockets.tls",
        typed_config: {
          "@type": `${TYPES}.v3.DownstreamTlsContext`,
          common_tls_context: {
            tls_certificate_sds_secret_configs: [
              { name: "web", sds_config: GRPC },
              { name: "shop", sds_config: { ...DELTA, initial_fetch_timeout: "0s" } },
            ],
            validation_context_sds_secret_config: {
              name: "ROOTCA",
              sds_config: { path_config_source: { path: "/etc/envoy/roots.yaml" } },
            },
          },
          require_client_certificate: true,
        },
      },
    },
    plan({
      certificates: [
        ref("certificate", "web", { kind: "sds", server: SERVER, api: "sotw" }),
        ref("certificate", "shop", { kind: "sds", server: SERVER, api: "delta" }, 0),
      ],
      validation: {
        secret: ref("validation", "ROOTCA", {
          kind: "secret_file",
          path: "/etc/envoy/roots.yaml",
        }),
      },
      requireClientCertificate: true,
    }),
  ],
  [
    "the socket without what is around it",
    {
      name: "envoy.transport_sockets.tls",
      typedConfig: {
        "@type": `${TYPES}.v3.DownstreamTlsContext`,
        commonTlsContext: { tlsCertificates: [PAIR] },
      },
    },
    plan({}),
  ],
  [
    "the context with its type",
    { "@type": `${TYPES}.v3.DownstreamTlsContext`, ...withPair({}) },
    plan({}),
  ],
  [
    "files with a watched directory, deprecated paths, static secrets",
    listener({
      tls_certificate_sds_secret_configs: [
        {
          name: "a",
          sds_config: {
            path_config_source: {
              path: "/etc/sds/a.yaml",
              watched_directory: { path: "/etc/sds" },
            },
          },
        },
        { name: "b", sds_config: { path: "/etc/sds/b.json" } },
        { name: "server_cert" },
      ],
    }),
    plan({
      certificates: [
        ref("certificate", "a", {
          kind: "secret_file",
          path: "/etc/sds/a.yaml",
          watchedDirectory: { path: "/etc/sds", watchModify: false },
        }),
        ref("certificate", "b", { kind: "secret_file", path: "/etc/sds/b.json" }),
        { ...certificate("static.pem"), name: "server_cert" },
      ],
    }),
  ],
  [
    "a watched directory of a static certificate",
    listener({ tls_certificates: [{ ...PAIR, watched_directory: { path: "/certs" } }] }),
    plan({ certificates: [certificate("web.pem", "/certs")] }),
  ],
  [
    "static roots, and clients without a certificate",
    withPair({ validation_context: TRUST }),
    plan({ validation: { secret: roots() } }),
  ],
  [
    "pins, which demand a certificate",
    withPair({ validation_context: { ...TRUST, verify_certificate_hash: ["ab".repeat(32)] } }),
    plan({
      validation: { secret: roots({ certificateHashes: ["ab".repeat(32)] }) },
      requireClientCertificate: true,
    }),
  ],
  [
    "a combined context",
    withPair({
      combined_validation_context: {
        default_validation_context: {
          match_typed_subject_alt_names: [{ san_type: "URI", matcher: { exact: "spiffe://a/b" } }],
        },
        validation_context_sds_secret_config: { name: "spiffe://a", sds_config: GRPC },
      },
    }),
    plan({
      validation: {
        secret: ref("validation", "spiffe://a", { kind: "sds", server: SERVER, api: "sotw" }),
        defaults: {
          type: "validation",
          systemRoots: false,
          rules: {
            ...NO_RULES,
            matchers: [{
              type: "uri",
              matcher: { kind: "exact", value: "spiffe://a/b", ignoreCase: false },
            }],
          },
        },
      },
      requireClientCertificate: true,
    }),
  ],
  ["an empty context as none", withPair({ validation_context: {} }), plan({})],
  [
    "versions and suites",
    withPair({
      tls_params: {
        tls_minimum_protocol_version: "TLSv1_1",
        tls_maximum_protocol_version: 3,
        cipher_suites: [
          "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-CHACHA20-POLY1305]",
          "ECDHE-RSA-AES128-GCM-SHA256",
        ],
      },
    }),
    plan({
      tls: {
        minVersion: "TLSv1.2",
        maxVersion: "TLSv1.2",
        cipherSuites: [
          "ECDHE-ECDSA-AES128-GCM-SHA256",
          "ECDHE-ECDSA-CHACHA20-POLY1305",
          "ECDHE-RSA-AES128-GCM-SHA256",
        ],
      },
    }),
    ["tls_minimum_protocol_version was raised to TLS 1.2"],
  ],
  [
    "no versions as the proxy's own",
    withPair({ tls_params: { tls_maximum_protocol_version: "TLS_AUTO" } }),
    plan({}),
  ],
  [
    "static certificates before those of SDS",
    withPair({ tls_certificate_sds_secret_configs: [{ name: "a", sds_config: GRPC }] }),
    plan({}),
    ["tls_certificate_sds_secret_configs are not used beside tls_certificates"],
  ],
  [
    "certificates on demand",
    listener({
      custom_tls_certificate_selector: onDemand(SNI, { prefetch_secret_names: ["a.example"] }),
    }, {
      disable_stateless_session_resumption: true,
      disable_stateful_session_resumption: true,
    }),
    plan({
      certificates: [],
      onDemand: {
        source: { kind: "sds", server: SERVER, api: "delta" },
        rules: DEFAULT_ON_DEMAND_RULES,
        prefetch: ["a.example"],
        defaultName: "fallback.example",
      },
    }),
    ["resumption stays enabled: a resumed session's client is judged again"],
  ],
  [
    "one fixed name on demand as a certificate",
    listener({ custom_tls_certificate_selector: onDemand(STATIC) }),
    plan({
      certificates: [ref("certificate", "web", { kind: "sds", server: SERVER, api: "delta" })],
    }),
  ],
  [
    "a server by its address",
    listener({
      tls_certificate_sds_secret_configs: [{
        name: "web",
        sds_config: {
          api_config_source: {
            api_type: "GRPC",
            grpc_services: [{
              google_grpc: { target_uri: "unix:/var/run/sds/uds_path", stat_prefix: "sds" },
              initial_metadata: [{ key: "X-Token", value: "t" }],
              retry_policy: { retry_back_off: { base_interval: "1s" } },
            }],
          },
        },
      }],
    }),
    plan({
      certificates: [ref("certificate", "web", {
        kind: "sds",
        api: "sotw",
        server: {
          ...SERVER,
          name: "sds",
          addresses: [{ kind: "unix", path: "/var/run/sds/uds_path" }],
          metadata: { "x-token": "t" },
          backoffBaseMs: 1_000,
          backoffMaxMs: 10_000,
          node: NODE,
        },
      })],
    }),
  ],
];

for (const [behaviour, value, wanted, warnings = []] of ACCEPTED) {
  test(`parseTlsConfig() takes of Envoy ${behaviour}`, () => {
    assert.deepEqual(parseTlsConfig(value, LISTENER), { kind: "valid", plan: wanted, warnings });
  });
}

test("parseTlsConfig() takes an upstream of Envoy's with its SNI", () => {
  const value = {
    name: "envoy.transport_sockets.tls",
    typed_config: {
      "@type": `${TYPES}.v3.UpstreamTlsContext`,
      sni: "db.example",
      max_session_keys: 1,
      common_tls_context: { tls_certificates: [PAIR], validation_context: TRUST },
    },
  };
  assert.deepEqual(parseTlsConfig(value, UPSTREAM), {
    kind: "valid",
    plan: plan({ validation: { secret: roots() }, requireClientCertificate: true }),
    sni: "db.example",
    warnings: [],
  });
});

test("parseTlsConfig() takes an upstream of Envoy's that accepts anyone, said so", () => {
  const value = listener({ validation_context: { trust_chain_verification: "ACCEPT_UNTRUSTED" } });
  const parsed = parseTlsConfig(value, UPSTREAM);
  assert.ok(parsed.kind === "valid" && parsed.plan.certificates.length === 0);
  const source = parsed.plan.validation?.secret.source;
  assert.ok(source?.kind === "spec" && source.spec.type === "validation");
  assert.equal(source.spec.rules.acceptUntrusted, true);
});

const COMMON = ".common_tls_context";
const one = (sds_config: object) => ({
  tls_certificate_sds_secret_configs: [{ name: "a", sds_config }],
});
const api = (fields: object) =>
  one({ api_config_source: { ...GRPC.api_config_source, ...fields } });
const CONFIG = `${COMMON}.tls_certificate_sds_secret_configs[0].sds_config`;
const service = (fields: object) => api({ grpc_services: [fields] });
const SERVICE = `${CONFIG}.api_config_source.grpc_services[0]`;

const REFUSED: readonly [name: string, value: unknown, problems: readonly string[]][] = [
  ["no certificate", listener({}), [`${COMMON} has no certificate, and a listener shows one`]],
  ["no common context", { "@type": `${TYPES}.v3.DownstreamTlsContext` }, [
    `${COMMON} is missing`,
  ]],
  ["the other direction's type", { "@type": `${TYPES}.v3.UpstreamTlsContext` }, [
    `["@type"] must be ${TYPES}.v3.DownstreamTlsContext`,
  ]],
  ["another transport socket", { name: "envoy.transport_sockets.alts", typed_config: {} }, [
    ".name must be envoy.transport_sockets.tls",
    `.typed_config["@type"] is missing; it must be ${TYPES}.v3.DownstreamTlsContext`,
  ]],
  ["ALPN", withPair({ alpn_protocols: ["h2"] }), [
    `${COMMON}.alpn_protocols cannot be honoured: no protocol is negotiated`,
  ]],
  ["what is not known", withPair({ certificates: 1 }, { foo: 1 }), [
    ".foo is not known here; known are common_tls_context, require_client_certificate, " +
    "disable_stateless_session_resumption, disable_stateful_session_resumption, ocsp_staple_policy",
    `${COMMON}.certificates is not known here; known are tls_params, tls_certificates, ` +
    "tls_certificate_sds_secret_configs, validation_context, " +
    "validation_context_sds_secret_config, combined_validation_context, " +
    "custom_tls_certificate_selector",
  ]],
  [
    "session ticket keys",
    withPair({}, { session_ticket_keys: { keys: [] }, sessionTimeout: "1s" }),
    [
      ".session_ticket_keys cannot be honoured: the TLS library makes its own keys for session tickets",
      ".sessionTimeout cannot be honoured: the TLS library makes its own keys for session tickets",
    ],
  ],
  ["a staple as a must", withPair({}, { ocsp_staple_policy: "MUST_STAPLE" }), [
    ".ocsp_staple_policy cannot be honoured: only LENIENT_STAPLING is known",
  ]],
  ["to require what nobody judges", withPair({}, { require_client_certificate: true }), [
    ".require_client_certificate needs a validation context that says whom to accept; to accept " +
    "anyone, say trust_chain_verification: ACCEPT_UNTRUSTED",
  ]],
  [
    "names that nobody vouches for",
    withPair({
      validation_context: {
        match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { exact: "a" } }],
      },
    }),
    [`${COMMON}.validation_context has no trusted_ca, without which its rules check nothing`],
  ],
  [
    "two validations",
    withPair({
      validation_context: TRUST,
      validation_context_sds_secret_config: { name: "a", sds_config: GRPC },
    }),
    [
      `${COMMON} has validation_context and validation_context_sds_secret_config, ` +
      "of which only one may be",
    ],
  ],
  [
    "a combined context without its secret",
    withPair({
      combined_validation_context: { default_validation_context: TRUST },
    }),
    [
      `${COMMON}.combined_validation_context.validation_context_sds_secret_config is missing`,
    ],
  ],
  ["curves", withPair({ tls_params: { ecdh_curves: ["X25519"] } }), [
    `${COMMON}.tls_params.ecdh_curves cannot be honoured: the TLS library's own choice is used`,
  ]],
  [
    "TLS 1.1 at most",
    withPair({
      tls_params: { tls_maximum_protocol_version: "TLSv1_1" },
    }),
    [
      `${COMMON}.tls_params.tls_maximum_protocol_version is below TLS 1.2, the least that is spoken`,
    ],
  ],
  ["suites of nobody", withPair({ tls_params: { cipher_suites: ["[AES128-SHA|RC4]"] } }), [
    `${COMMON}.tls_params.cipher_suites[0] names "RC4", which is not known here`,
  ]],
  ["a secret of nobody", listener({ tls_certificate_sds_secret_configs: [{ name: "x" }] }), [
    `${COMMON}.tls_certificate_sds_secret_configs[0].name names "x", which is no static secret, ` +
    "and has no sds_config",
  ]],
  [
    "a static secret of another type",
    withPair({
      validation_context_sds_secret_config: { name: "server_cert" },
    }),
    [
      `${COMMON}.validation_context_sds_secret_config.name names "server_cert", ` +
      "which is no validation",
    ],
  ],
  [
    "a secret without a name",
    listener({
      tls_certificate_sds_secret_configs: [{ sds_config: GRPC }],
    }),
    [`${COMMON}.tls_certificate_sds_secret_configs[0].name is missing`],
  ],
  ["ADS", listener(one({ ads: {}, resource_api_version: "V3" })), [
    `${CONFIG}.ads cannot be honoured: there is no aggregated stream here; use api_config_source`,
  ]],
  ["REST", listener(api({ api_type: "REST" })), [
    `${CONFIG}.api_config_source.api_type must be GRPC or DELTA_GRPC: secrets come over gRPC only`,
  ]],
  ["V2", listener(api({ transport_api_version: "V2" })), [
    `${CONFIG}.api_config_source.transport_api_version must be V3: V2 is gone`,
  ]],
  ["a source of two kinds", listener(one({ ...GRPC, path: "a" })), [
    `${CONFIG} has api_config_source and path, of which only one may be`,
  ]],
  ["no service", listener(api({ grpc_services: [] })), [
    `${CONFIG}.api_config_source.grpc_services must not be empty`,
  ]],
  ["a cluster of nobody", listener(service({ envoy_grpc: { cluster_name: "x" } })), [
    `${SERVICE}.envoy_grpc.cluster_name names "x", which is no SDS server; known are sds_cluster`,
  ]],
  [
    "secrets in clear over the network",
    listener(
      service({ google_grpc: { target_uri: "dns:///sds.example:443" } }),
    ),
    [
      `${SERVICE}.google_grpc.channel_credentials is missing: secrets would cross the network in clear`,
    ],
  ],
  [
    "a header of gRPC's own",
    listener(
      service({
        envoy_grpc: { cluster_name: "sds_cluster" },
        initial_metadata: [{ key: "grpc-timeout", value: "1S" }, { key: "a", value: "%TOKEN%" }],
      }),
    ),
    [
      `${SERVICE}.initial_metadata[0].key is a header that cannot be set`,
    ],
  ],
  [
    "certificates on demand from a file",
    listener({
      custom_tls_certificate_selector: onDemand(SNI, { config_source: { path: "a.yaml" } }),
    }),
    [
      `${COMMON}.custom_tls_certificate_selector.typed_config.config_source must be ` +
      "api_config_source: a file holds one secret of one name",
    ],
  ],
  [
    "a mapper by filter state",
    listener({
      custom_tls_certificate_selector: onDemand({
        "@type": `${TYPES}.cert_mappers.filter_state_override.v3.Config`,
      }),
    }),
    [
      `${COMMON}.custom_tls_certificate_selector.typed_config.certificate_mapper.typed_config` +
      `["@type"] must be ${TYPES}.cert_mappers.sni.v3.SNI or ` +
      `${TYPES}.cert_mappers.static_name.v3.StaticName`,
    ],
  ],
  ["a selector beside certificates", withPair({ custom_tls_certificate_selector: onDemand(SNI) }), [
    `${COMMON}.custom_tls_certificate_selector cannot be beside certificates of other kinds`,
  ]],
];

for (const [behaviour, value, wanted] of REFUSED) {
  test(`parseTlsConfig() refuses of Envoy ${behaviour}`, () =>
    assert.deepEqual(
      problemsOf(value, LISTENER),
      wanted.map((problem) => `inbound.tls${problem}`),
    ));
}

for (
  const [behaviour, value, wanted] of [
    ["nobody to accept", withPair({ validation_context: {} }), [
      `${COMMON} has no validation context that says whom to accept; to accept any server, say ` +
      "validation_context: { trust_chain_verification: ACCEPT_UNTRUSTED }",
    ]],
    [
      "what follows the host",
      listener({
        tls_certificates: [PAIR, PAIR],
        validation_context: TRUST,
      }, { auto_host_sni: true, enforce_rsa_key_usage: false }),
      [
        ".auto_host_sni cannot be honoured: give sni and match_typed_subject_alt_names",
        ".enforce_rsa_key_usage must be true: the usage of keys is always enforced",
      ],
    ],
    [
      "several certificates",
      listener({
        tls_certificates: [PAIR, PAIR],
        validation_context: TRUST,
      }),
      [`${COMMON} has several certificates; an upstream is shown one`],
    ],
    [
      "certificates on demand",
      listener({
        validation_context: TRUST,
        custom_tls_certificate_selector: onDemand(SNI),
      }),
      [
        `${COMMON}.custom_tls_certificate_selector cannot be honoured for an upstream; use ` +
        "static_name.v3.StaticName as certificate_mapper",
      ],
    ],
  ] as const
) {
  test(`parseTlsConfig() refuses of Envoy, for an upstream, ${behaviour}`, () =>
    assert.deepEqual(
      problemsOf(value, UPSTREAM),
      wanted.map((problem) => `upstreams[0].tls${problem}`),
    ));
}
