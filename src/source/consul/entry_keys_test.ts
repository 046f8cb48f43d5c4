import assert from "node:assert/strict";
import { test } from "node:test";
import type { Defaults } from "../../consul/mod.ts";
import { refusedMutualTls } from "./entry_keys.ts";

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
