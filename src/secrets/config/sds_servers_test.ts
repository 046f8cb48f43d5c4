import assert from "node:assert/strict";
import test from "node:test";
import { NODE, SERVER } from "../../../test/kit/secrets/tls_config.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { formatPath } from "../../base/schema.ts";
import { parseSdsServers } from "./sds_servers.ts";

const CONTEXT = { path: ["sdsClusters"], node: NODE };
const file = (path: string) => ({ kind: "file", path });
const roots = (fields: object = {}) => ({
  type: "validation",
  trustedCa: file("ca.pem"),
  systemRoots: false,
  rules: NO_RULES,
  ...fields,
});
const tcp = (host: string, port: number) => ({ kind: "tcp", host, port });
const server = (name: string, fields: object) => ({ ...SERVER, name, ...fields });

const PIPE = { pipe: { path: "/run/sds.sock" } };
const socket = (address: string, port_value: number) => ({
  socket_address: { address, port_value },
});
const endpoints = (...addresses: object[]) => ({
  cluster_name: "x",
  endpoints: [{ lb_endpoints: addresses.map((address) => ({ endpoint: { address } })) }],
});
const tlsSocket = (common_tls_context: object, fields: object = {}) => ({
  name: "envoy.transport_sockets.tls",
  typed_config: {
    "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    common_tls_context,
    ...fields,
  },
});
const TRUST = { validation_context: { trusted_ca: { filename: "ca.pem" } } };
const PAIR = {
  tls_certificates: [{
    certificate_chain: { filename: "a.pem" },
    private_key: { filename: "a.key" },
  }],
};

const ACCEPTED: readonly [name: string, value: unknown, servers: object][] = [
  ["nothing", {}, {}],
  ["a socket", { sds_cluster: { address: "unix:///run/sds.sock" } }, { sds_cluster: SERVER }],
  [
    "several on this machine, in order",
    { a: { addresses: ["127.0.0.1:1", "[::1]:2", "localhost:3"] } },
    { a: server("a", { addresses: [tcp("127.0.0.1", 1), tcp("::1", 2), tcp("localhost", 3)] }) },
  ],
  [
    "every field",
    [{
      name: "a",
      address: ["sds.example:8234"],
      tls: { ca: "ca.pem", cert: "a.pem", key: "a.key" },
      metadata: { Authorization: "Bearer x" },
      keepAlive: "10s",
      keep_alive_timeout: "2s",
      backoff: { base: "100ms", max: "1s" },
      node: {
        id: "other",
        metadata: { disable_spiffe_cert_validation: true },
        locality: { region: "eu" },
      },
    }],
    {
      a: server("a", {
        addresses: [tcp("sds.example", 8_234)],
        tls: {
          serverName: "sds.example",
          validation: roots(),
          certificate: { type: "certificate", chain: file("a.pem"), key: file("a.key") },
        },
        metadata: { authorization: "Bearer x" },
        keepAliveMs: 10_000,
        keepAliveTimeoutMs: 2_000,
        backoffBaseMs: 100,
        backoffMaxMs: 1_000,
        node: {
          id: "other",
          cluster: "web",
          metadata: { disable_spiffe_cert_validation: true },
          locality: { region: "eu", zone: "", subZone: "" },
        },
      }),
    },
  ],
  [
    "plain text where it is allowed",
    { a: { address: "10.0.0.1:1", plaintext: true } },
    { a: server("a", { addresses: [tcp("10.0.0.1", 1)] }) },
  ],
  [
    "the system's roots",
    { a: { address: "10.0.0.1:1", tls: { serverName: "sds", systemRoots: true } } },
    {
      a: server("a", {
        addresses: [tcp("10.0.0.1", 1)],
        tls: {
          serverName: "sds",
          validation: { type: "validation", systemRoots: true, rules: NO_RULES },
        },
      }),
    },
  ],
  [
    "Envoy's cluster over a socket",
    [{
      name: "sds_server_uds",
      typed_extension_protocol_options: {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
          "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
          explicit_http_config: {
            http2_protocol_options: { connection_keepalive: { interval: "20s", timeout: "4s" } },
          },
        },
      },
      load_assignment: endpoints(PIPE),
    }],
    {
      sds_server_uds: server("sds_server_uds", { keepAliveMs: 20_000, keepAliveTimeoutMs: 4_000 }),
    },
  ],
  [
    "Envoy's cluster over mTLS",
    [{
      "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
      name: "sds_server_mtls",
      type: "STRICT_DNS",
      connect_timeout: "5s",
      http2_protocol_options: {},
      upstream_connection_options: { tcp_keepalive: { keepalive_time: 300 } },
      loadAssignment: {
        endpoints: [
          { priority: 1, lb_endpoints: [{ endpoint: { address: socket("b.example", 2) } }] },
          { lb_endpoints: [{ endpoint: { address: socket("a.example", 1) } }] },
        ],
      },
      transport_socket: tlsSocket({ ...PAIR, ...TRUST }, { sni: "sds.example" }),
    }],
    {
      sds_server_mtls: server("sds_server_mtls", {
        addresses: [tcp("a.example", 1), tcp("b.example", 2)],
        tls: {
          serverName: "sds.example",
          validation: roots(),
          certificate: { type: "certificate", chain: file("a.pem"), key: file("a.key") },
        },
      }),
    },
  ],
  [
    "Envoy's cluster listed by name, checked by its host",
    {
      a: {
        name: "a",
        load_assignment: endpoints(socket("a.example", 1)),
        transport_socket: tlsSocket(TRUST),
      },
    },
    {
      a: server("a", {
        addresses: [tcp("a.example", 1)],
        tls: { serverName: "a.example", validation: roots() },
      }),
    },
  ],
];

for (const [behaviour, value, servers] of ACCEPTED) {
  test(`parseSdsServers() reads ${behaviour}`, () => {
    assert.deepEqual(parseSdsServers(value, CONTEXT), { kind: "valid", servers, warnings: [] });
  });
}

const cluster = (fields: object) => [{ name: "a", load_assignment: endpoints(PIPE), ...fields }];
const REFUSED: readonly [name: string, value: unknown, problems: readonly string[]][] = [
  ["a text", "a", [" must be an object with servers by name, or a list"]],
  ["no address", { a: {} }, [".a.address is missing"]],
  ["both addresses", { a: { address: "unix:///a", addresses: ["unix:///b"] } }, [
    ".a.addresses cannot be beside address",
  ]],
  ["invalid addresses", { a: { address: ["localhost", "unix://b"] } }, [
    ".a.address[0] must be host:port or unix:///path, with a port from 1 to 65535",
    ".a.address[1] must be unix:// and an absolute path of at most 107 bytes",
  ]],
  ["an empty list", { a: { address: [] } }, [".a.address must not be empty"]],
  ["plain text that is not allowed", { a: { address: "10.0.0.1:1" } }, [
    ".a.tls is missing: secrets would cross the network in clear; if that is meant, say " +
    "plaintext: true",
  ]],
  ["TLS without roots", { a: { address: "10.0.0.1:1", tls: {} } }, [
    ".a.tls.ca is missing; for the system's roots, say systemRoots: true",
  ]],
  ["TLS over a socket without a name", { a: { address: "unix:///a", tls: { ca: "ca" } } }, [
    ".a.tls.serverName is missing, and a unix socket's path names nobody",
  ]],
  ["half a pair", { a: { address: "b:1", tls: { ca: "ca", cert: "c" } } }, [
    ".a.tls.key is missing",
  ]],
  ["invalid headers", {
    a: { address: "unix:///a", metadata: { "a b": "x", "grpc-x": "y", "x-bin": "z", ok: "\n" } },
  }, [
    '.a.metadata["a b"] must be a header\'s name',
    ".a.metadata.grpc-x is a header that cannot be set",
    ".a.metadata.x-bin is a header that cannot be set",
    ".a.metadata.ok must be a text of plain characters",
  ]],
  ["a name twice", [{ name: "a", address: "unix:///a" }, { name: "a", address: "unix:///b" }], [
    '[1].name "a" is used by an earlier server',
  ]],
  ["no name", [{ address: "unix:///a" }], ["[0].name is missing"]],
  ["another name than the key", { a: { name: "b", address: "unix:///a" } }, [
    '.a.name is not "a", under which it is listed',
  ]],
  ["a backoff whose maximum is below its base", {
    a: { address: "unix:///a", backoff: { base: "2s", max: "1s" } },
  }, [
    ".a.backoff.max is below base",
  ]],
  ["a cluster without endpoints", cluster({ load_assignment: { cluster_name: "a" } }), [
    "[0].load_assignment.endpoints has no address",
  ]],
  ["EDS", cluster({ type: "EDS", eds_cluster_config: {} }), [
    "[0].eds_cluster_config cannot be honoured: an SDS server's addresses are its own " +
    "configuration's",
    "[0].type must be STATIC, STRICT_DNS, LOGICAL_DNS",
  ]],
  ["a cluster in plain text", cluster({ load_assignment: endpoints(socket("b.example", 1)) }), [
    "[0].transport_socket is missing: secrets would cross the network in clear",
  ]],
  [
    "UDP",
    cluster({
      load_assignment: endpoints({
        socket_address: { protocol: "UDP", address: "a", port_value: 1 },
      }),
    }),
    [
      "[0].load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.protocol " +
      "must be TCP",
    ],
  ],
  [
    "credentials for SDS from SDS",
    cluster({
      transport_socket: tlsSocket({
        ...PAIR,
        validation_context_sds_secret_config: {
          name: "ca",
          sds_config: {
            api_config_source: {
              api_type: "GRPC",
              grpc_services: [{ envoy_grpc: { cluster_name: "a" } }],
            },
          },
        },
      }),
    }),
    [
      "[0].transport_socket.typed_config.common_tls_context.validation_context_sds_secret_config." +
      "sds_config.api_config_source.grpc_services[0].envoy_grpc.cluster_name cannot be used: the " +
      "credentials for SDS cannot come from SDS",
    ],
  ],
  [
    "credentials for SDS from a secret file",
    cluster({
      transport_socket: tlsSocket({
        ...TRUST,
        tls_certificate_sds_secret_configs: [{ name: "a", sds_config: { path: "a.yaml" } }],
      }, { sni: "a" }),
    }),
    [
      "[0].transport_socket.typed_config.common_tls_context has a certificate from elsewhere: give " +
      "files or the text itself",
    ],
  ],
  ["a server without validation", cluster({ transport_socket: tlsSocket(PAIR) }), [
    "[0].transport_socket.typed_config.common_tls_context has no validation context that says " +
    "whom to accept; to accept any server, say validation_context: { trust_chain_verification: " +
    "ACCEPT_UNTRUSTED }",
  ]],
  ["a socket's TLS without SNI", cluster({ transport_socket: tlsSocket(TRUST) }), [
    "[0].transport_socket.typed_config.sni is missing: nothing else says the server's name",
  ]],
];

for (const [behaviour, value, wanted] of REFUSED) {
  test(`parseSdsServers() refuses ${behaviour}`, () => {
    const parsed = parseSdsServers(value, CONTEXT);
    assert.ok(parsed.kind === "invalid", "it was accepted");
    assert.deepEqual(
      parsed.problems.map(({ path, message }) => `${formatPath(path)} ${message}`),
      wanted.map((problem) => `sdsClusters${problem}`),
    );
  });
}

test("parseSdsServers() refuses a node without id or cluster", () => {
  const node = { id: "", cluster: "", metadata: {} };
  const parsed = parseSdsServers({ a: { address: "unix:///a" } }, { path: [], node });
  assert.ok(parsed.kind === "invalid");
  assert.deepEqual(parsed.problems.map(({ path }) => formatPath(path)), [
    "a.node.id",
    "a.node.cluster",
  ]);
});
