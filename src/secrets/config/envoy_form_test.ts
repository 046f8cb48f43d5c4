import assert from "node:assert/strict";
import test from "node:test";
import {
  DELTA,
  GRPC,
  listener,
  onDemand,
  PAIR,
  SNI,
  STATIC,
  TRUST,
  TYPES,
  withPair,
} from "../../../test/kit/peers/envoy_snippets.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { DEFAULT_ON_DEMAND_RULES } from "../model/plan.ts";
import { LISTENER, NODE, SERVER, UPSTREAM } from "../../../test/kit/secrets/tls_config.ts";
import { parseTlsConfig } from "./tls_config.ts";

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

const ACCEPTED: readonly [string, value: unknown, plan: object, warnings?: readonly string[]][] = [
  [
    "static certificate, without client certificates",
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
    "transport socket without its parent",
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
    "files with a watched directory, and deprecated paths",
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
    "roots from SDS with unknown rules",
    withPair({ validation_context_sds_secret_config: { name: "ROOTCA", sds_config: GRPC } }),
    plan({
      validation: {
        secret: ref("validation", "ROOTCA", { kind: "sds", server: SERVER, api: "sotw" }),
      },
      requireForSpiffe: true,
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
  test(`parseTlsConfig() reads Envoy's ${behaviour}`, () => {
    assert.deepEqual(parseTlsConfig(value, LISTENER), { kind: "valid", plan: wanted, warnings });
  });
}

test("parseTlsConfig() reads Envoy's upstream with its SNI", () => {
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

test("parseTlsConfig() reads Envoy's upstream that explicitly accepts any server", () => {
  const value = listener({ validation_context: { trust_chain_verification: "ACCEPT_UNTRUSTED" } });
  const parsed = parseTlsConfig(value, UPSTREAM);
  assert.ok(parsed.kind === "valid" && parsed.plan.certificates.length === 0);
  const source = parsed.plan.validation?.secret.source;
  assert.ok(source?.kind === "spec" && source.spec.type === "validation");
  assert.equal(source.spec.rules.acceptUntrusted, true);
});
