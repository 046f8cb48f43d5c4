import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHcl } from "./hcl_shape.ts";

const SERVER = { address: "unix:///run/sds.sock" };

for (
  const [name, value, want] of [
    ["keeps what has its shape", { certificate: { source: "file" }, spkiPins: ["a", "b"] }, {
      certificate: { source: "file" },
      spkiPins: ["a", "b"],
    }],
    ["makes a block of a list of one", [{ certificate: [{ source: "file" }] }], {
      certificate: { source: "file" },
    }],
    [
      "makes a list of a lone block",
      { certificates: { cert: "a" }, sanMatchers: { type: "dns" } },
      {
        certificates: [{ cert: "a" }],
        sanMatchers: [{ type: "dns" }],
      },
    ],
    ["makes a list of a lone text", { spkiPins: "a", cipher_suites: "b" }, {
      spkiPins: ["a"],
      cipher_suites: ["b"],
    }],
    ["keeps a list of one where a list is meant", { certificates: [{ cert: "a" }] }, {
      certificates: [{ cert: "a" }],
    }],
    ["mends inside of lists", { certificates: [{ sanMatchers: { a: 1 } }, { b: [{ c: 1 }] }] }, {
      certificates: [{ sanMatchers: [{ a: 1 }] }, { b: { c: 1 } }],
    }],
    ["keeps blocks that were repeated", { certificate: [{ a: 1 }, { a: 2 }] }, {
      certificate: [{ a: 1 }, { a: 2 }],
    }],
    ["keeps a list of texts", { address: ["unix:///a"] }, { address: ["unix:///a"] }],
    ["takes no null for a list", { names: null }, { names: null }],
    [
      "mends Envoy's lists",
      {
        common_tls_context: {
          tls_certificate_sds_secret_configs: {
            sds_config: { api_config_source: { grpc_services: { envoy_grpc: [{ a: 1 }] } } },
          },
        },
      },
      {
        common_tls_context: {
          tls_certificate_sds_secret_configs: [{
            sds_config: { api_config_source: { grpc_services: [{ envoy_grpc: { a: 1 } }] } },
          }],
        },
      },
    ],
    ["leaves metadata alone", { metadata: { names: "x", a: [{ b: 1 }] } }, {
      metadata: { names: "x", a: [{ b: 1 }] },
    }],
    ["keeps servers by name", { sds_clusters: { names: SERVER } }, {
      sds_clusters: { names: SERVER },
    }],
    ["makes servers of blocks", { sds_clusters: [{ vault: [SERVER] }] }, {
      sds_clusters: { vault: SERVER },
    }],
    ["makes a list of a server that says its name", {
      sds_clusters: { name: "vault", ...SERVER },
    }, { sds_clusters: [{ name: "vault", ...SERVER }] }],
    ["keeps a list of a server that says its name", {
      sds_clusters: [{ name: "vault", ...SERVER }],
    }, { sds_clusters: [{ name: "vault", ...SERVER }] }],
    ["keeps what is no map", "file", "file"],
    ["keeps an empty list", [], []],
  ] as const
) {
  test(`fromHcl() ${name}`, () => assert.deepEqual(fromHcl(value), want));
}

test("fromHcl() takes any depth", () => {
  let deep: unknown = {};
  for (let i = 0; i < 100_000; i++) deep = i % 2 ? [deep] : { a: deep };
  assert.ok(fromHcl(deep));
});
