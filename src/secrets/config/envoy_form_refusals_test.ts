import assert from "node:assert/strict";
import test from "node:test";
import {
  GRPC,
  listener,
  onDemand,
  PAIR,
  SNI,
  TRUST,
  TYPES,
  withPair,
} from "../../../test/kit/peers/envoy_snippets.ts";
import { LISTENER, problemsOf, UPSTREAM } from "../../../test/kit/secrets/tls_config.ts";

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
    `${COMMON}.alpn_protocols cannot be honoured: no protocol is negotiated; leave it out`,
  ]],
  ["unknown field", withPair({ certificates: 1 }, { foo: 1 }), [
    ".foo is not known here; known are common_tls_context, require_client_certificate, " +
    "disable_stateless_session_resumption, disable_stateful_session_resumption, ocsp_staple_policy",
    `${COMMON}.certificates is not known here; did you mean "tls_certificates"?`,
  ]],
  [
    "session ticket keys",
    withPair({}, { session_ticket_keys: { keys: [] }, sessionTimeout: "1s" }),
    [
      ".session_ticket_keys cannot be honoured: the TLS library makes its own keys for session tickets",
      ".sessionTimeout cannot be honoured: the TLS library makes its own keys for session tickets",
    ],
  ],
  ["a mandatory staple", withPair({}, { ocsp_staple_policy: "MUST_STAPLE" }), [
    ".ocsp_staple_policy cannot be honoured: only LENIENT_STAPLING is known",
  ]],
  [
    "required client certificate without validation",
    withPair({}, { require_client_certificate: true }),
    [
      ".require_client_certificate needs a validation context that says whom to accept; to accept " +
      "anyone, say trust_chain_verification: ACCEPT_UNTRUSTED",
    ],
  ],
  [
    "name matchers without a CA",
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
  ["unknown cipher suites", withPair({ tls_params: { cipher_suites: ["[AES128-SHA|RC4]"] } }), [
    `${COMMON}.tls_params.cipher_suites[0] names "RC4", which is not known here`,
  ]],
  [
    "a static secret, which is not supported",
    listener({ tls_certificate_sds_secret_configs: [{ name: "x" }] }),
    [
      `${COMMON}.tls_certificate_sds_secret_configs[0].name names "x", which is no static secret, ` +
      "and has no sds_config",
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
  ["unknown cluster", listener(service({ envoy_grpc: { cluster_name: "x" } })), [
    `${SERVICE}.envoy_grpc.cluster_name names "x", which is no SDS server; known are sds_cluster`,
  ]],
  [
    "secrets in plain text over the network",
    listener(
      service({ google_grpc: { target_uri: "dns:///sds.example:443" } }),
    ),
    [
      `${SERVICE}.google_grpc.channel_credentials is missing: secrets would cross the network in clear`,
    ],
  ],
  [
    "a reserved header of gRPC",
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
  test(`parseTlsConfig() refuses Envoy's ${behaviour}`, () =>
    assert.deepEqual(
      problemsOf(value, LISTENER),
      wanted.map((problem) => `inbound.tls${problem}`),
    ));
}

for (
  const [behaviour, value, wanted] of [
    ["an empty validation context", withPair({ validation_context: {} }), [
      `${COMMON} has no validation context that says whom to accept; to accept any server, say ` +
      "validation_context: { trust_chain_verification: ACCEPT_UNTRUSTED }",
    ]],
    [
      "text after the host",
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
  test(`parseTlsConfig() refuses, in Envoy's upstream, ${behaviour}`, () =>
    assert.deepEqual(
      problemsOf(value, UPSTREAM),
      wanted.map((problem) => `upstreams[0].tls${problem}`),
    ));
}
