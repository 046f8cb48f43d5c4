import assert from "node:assert/strict";
import { test } from "node:test";
import type { Defaults, UpstreamDeclaration } from "../../consul/mod.ts";
import { registration } from "../../../test/kit/consul/snapshot_facts.ts";
import { refusedMutualTls, unfollowedOf } from "./entry_keys.ts";

const saying = (mutualTlsMode?: string): Defaults => ({
  extensions: [],
  ...(mutualTlsMode !== undefined && { mutualTlsMode }),
});

for (
  const [name, proxyDefaults, serviceDefaults, want] of [
    ["takes entries that say nothing", saying(), saying(), undefined],
    ["takes what is not there", null, undefined, undefined],
    ["takes strict", saying("strict"), null, undefined],
    [
      "takes strict of a service among permissive ones",
      saying("permissive"),
      saying("strict"),
      undefined,
    ],
    [
      "refuses permissive of all proxies",
      saying("permissive"),
      saying(),
      /^proxy-defaults global: MutualTLSMode: permissive is not supported: .*write strict$/,
    ],
    [
      "refuses permissive of a service",
      saying("strict"),
      saying("permissive"),
      /^service-defaults web: MutualTLSMode: permissive is not supported/,
    ],
    [
      "refuses what a newer Consul may know",
      null,
      saying("lax"),
      /"lax" is not known; write strict$/,
    ],
  ] as const
) {
  test(`refusedMutualTls() ${name}`, () => {
    const [refusal] = refusedMutualTls({ mesh: null, proxyDefaults, serviceDefaults }, "web");
    if (want === undefined) assert.equal(refusal, undefined);
    else assert.match(`${refusal?.what}: ${refusal?.reason}`, want);
  });
}

test("unfollowedOf() separates settings of an upstream from those of the service", () => {
  const upstream = (id: string, warnings: readonly string[]): UpstreamDeclaration => ({
    id,
    kind: "service",
    name: "db",
    namespace: "",
    partition: "",
    peer: "",
    datacenter: "",
    bind: null,
    meshGatewayMode: "",
    protocol: "",
    outlier: {},
    warnings,
  });
  const known = {
    mesh: null,
    proxyDefaults: saying("permissive"),
    serviceDefaults: { ...saying(), warnings: ["The entry has y"] },
    registration: registration({
      warnings: ["The proxy has x"],
      upstreams: [upstream("db", ["Upstream db has a"]), upstream("api", ["Upstream api has b"])],
    }),
  };
  const refused = [
    { what: "upstream db", reason: "its chain" },
    { what: "upstream api", reason: "its chain, too" },
  ];
  assert.deepEqual(unfollowedOf(known, { upstream: "db", refused }), [
    "Upstream db has a",
    "upstream db is refused: its chain",
  ]);
  assert.deepEqual(unfollowedOf(known, { upstream: "cache", refused }), []);
  const [proxy, entry, lua, permissive, required, ...more] = unfollowedOf(known, {
    upstream: undefined,
    refused: [...refused, { what: "service-defaults db", reason: "EnvoyExtensions[1]: required" }],
    ignored: ["EnvoyExtensions[0]: ignored"],
  });
  assert.deepEqual(
    [proxy, entry, lua, required],
    [
      "The proxy has x",
      "The entry has y",
      "EnvoyExtensions[0]: ignored",
      "service-defaults db is refused: EnvoyExtensions[1]: required",
    ],
  );
  assert.match(permissive ?? "", /^proxy-defaults global: MutualTLSMode is refused: permissive/);
  assert.deepEqual(more, []);
});
