/**
 * Configuration of credentials, damaged: each is refused with reasons or becomes a plan that checks the
 * right peers.
 *
 * @module
 */

import assert from "node:assert/strict";
import {
  type CredentialsPlan,
  ingressTlsPlan,
  parseSdsServers,
  parseTlsConfig,
} from "../../src/secrets/mod.ts";
import { LISTENER, NODE, UPSTREAM } from "../kit/secrets/tls_config.ts";
import type { FuzzTarget } from "./fuzz.ts";

const TYPES = "type.googleapis.com/envoy.extensions.transport_sockets.tls";
const PAIR = { certificate_chain: { filename: "a" }, private_key: { filename: "b" } };
const SDS = {
  name: "web",
  sds_config: {
    api_config_source: {
      api_type: "DELTA_GRPC",
      grpc_services: [{ envoy_grpc: { cluster_name: "sds_cluster" } }],
    },
    initial_fetch_timeout: "0s",
  },
};
const ENVOY = {
  name: "envoy.transport_sockets.tls",
  typed_config: {
    "@type": `${TYPES}.v3.DownstreamTlsContext`,
    common_tls_context: {
      tls_params: { tls_minimum_protocol_version: "TLSv1_2", cipher_suites: ["AES128-SHA"] },
      tls_certificate_sds_secret_configs: [SDS, { name: "server_cert" }],
      combined_validation_context: {
        default_validation_context: { verify_certificate_hash: ["ab".repeat(32)] },
        validation_context_sds_secret_config: SDS,
      },
    },
    require_client_certificate: true,
  },
};
const UPSTREAM_FORM = {
  sni: "db.example",
  common_tls_context: {
    tls_certificates: [PAIR],
    validation_context: { trusted_ca: { filename: "ca" } },
  },
};
const NATIVE = {
  certificates: [
    { source: "file", cert: "a", key: "b", key_password_file: "c" },
    { source: "sds", cluster: "sds_cluster", name: "web", api: "sotw" },
    { source: "workload", id: "spiffe://example.org/web" },
  ],
  validation: { source: "consul", sanMatchers: [{ type: "uri", prefix: "spiffe://" }] },
  onDemand: { cluster: "sds_cluster", suffixes: [".example"] },
  minVersion: "1.3",
};
const LINE = { source: "file", cert: "a", key: "b", ca: "c", requireClientCertificate: false };
const SERVERS = {
  a: { address: ["unix:///run/sds.sock", "127.0.0.1:1"], metadata: { a: "b" } },
  b: {
    name: "b",
    load_assignment: {
      endpoints: [{
        lb_endpoints: [{
          endpoint: { address: { socket_address: { address: "b.example", port_value: 1 } } },
        }],
      }],
    },
    transport_socket: {
      typed_config: { "@type": `${TYPES}.v3.UpstreamTlsContext`, ...UPSTREAM_FORM },
    },
  },
};
const INGRESS = {
  TLS: { SDS: { ClusterName: "sds_cluster", CertResource: "a" }, TLSMinVersion: "TLSv1_2" },
  Listeners: [{
    Port: 8443,
    Services: [{ Name: "web", Hosts: ["a.example"], TLS: { SDS: { CertResource: "b" } } }],
  }],
};
const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

export const target: FuzzTarget = {
  name: "tls_config",
  corpus: [ENVOY, UPSTREAM_FORM, NATIVE, LINE, SERVERS, INGRESS].map(bytesOf),
  dictionary: [
    '"__proto__"',
    '"constructor"',
    '"none"',
    '"workload"',
    '"consul"',
    '"acceptUntrusted":true,',
    '"validation_context":{},',
    "null",
    "[]",
    "{}",
    "1e999",
  ],
  run(input) {
    const value = jsonOf(new TextDecoder().decode(input));
    const listener = parseTlsConfig(value, LISTENER);
    if (listener.kind === "valid") {
      const { certificates, onDemand } = listener.plan;
      assert.ok(certificates.length > 0 || onDemand);
      checkPlan(listener.plan);
    } else assert.ok(listener.problems.length > 0);
    const upstream = parseTlsConfig(value, UPSTREAM);
    if (upstream.kind === "valid") {
      assert.ok(upstream.plan.validation, "an upstream without a check");
      assert.ok(upstream.plan.certificates.length <= 1 && !upstream.plan.onDemand);
      checkPlan(upstream.plan);
    } else assert.ok(upstream.problems.length > 0);
    assert.deepEqual(parseTlsConfig(value, UPSTREAM), upstream);

    const servers = parseSdsServers(value, { path: [], node: NODE });
    if (servers.kind === "valid") {
      for (const [name, server] of Object.entries(servers.servers)) {
        assert.equal(server.name, name);
        assert.ok(server.addresses.length > 0 && server.node.id && server.node.cluster);
        assert.ok(server.tls === null || server.tls.serverName);
      }
    } else assert.ok(servers.problems.length > 0);
    const { sdsServers } = LISTENER;
    const ingress = ingressTlsPlan(value, { path: [], sdsServers });
    if (ingress.kind === "invalid") assert.ok(ingress.problems.length > 0);
  },
};

function checkPlan({ validation, requireClientCertificate, certificates }: CredentialsPlan): void {
  assert.ok(validation || !requireClientCertificate);
  assert.ok(certificates.every(({ type }) => type === "certificate"));
  if (!validation) return;
  assert.equal(validation.secret.type, "validation");
  const { source } = validation.secret;
  if (source.kind !== "spec") return;
  assert.ok(source.spec.type === "validation");
  const { trustedCa, systemRoots, spiffe, rules } = source.spec;
  // The plan must trust some authority, unless it accepts any peer.
  assert.ok(
    trustedCa || systemRoots || spiffe || rules.acceptUntrusted || rules.spkiPins.length > 0 ||
      rules.certificateHashes.length > 0,
  );
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not the parser that is tested here.
    return text;
  }
}
