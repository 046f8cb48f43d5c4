import assert from "node:assert/strict";
import { test } from "node:test";
import type { PresentedPeer } from "../net/mod.ts";
import { formatPem } from "../wire/mod.ts";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { areRoots, serverNameMatcher, whyRefused } from "./server_check.ts";

const ca = createAuthority();
const root = ca.rootPem;
const below = formatPem("CERTIFICATE", ca.intermediate().chainDer[0] ?? new Uint8Array());

for (
  const [what, pems, are] of [
    ["none", [], false],
    ["a root", [root], true],
    ["two of one file", [root + createAuthority().rootPem], true],
    ["an intermediate", [below], false],
    ["an intermediate beside a root", [root, below], false],
    ["an intermediate behind a root in its file", [root + below], false],
  ] as const
) {
  test(`areRoots() ${are ? "takes" : "does not take"} ${what}`, () =>
    assert.equal(areRoots(pems), are));
}

const PEER: PresentedPeer = {
  ...{ accepted: true, reason: "", leaf: Uint8Array.of(1), chain: () => [Uint8Array.of(2)] },
  ...{ version: "TLSv1.3", protocol: "h2", serverName: "", resumed: false },
};

for (
  const [what, peer, judged, why] of [
    ["whom both take", PEER, undefined, undefined],
    ["whom we refuse", PEER, "another name", "another name"],
    ["whom the library refuses", { ...PEER, accepted: false, reason: "old" }, undefined, "old"],
    ["whom both refuse", { ...PEER, accepted: false, reason: "old" }, "other", "other"],
    [
      "who shows nothing",
      { ...PEER, leaf: undefined },
      undefined,
      "the connection is not encrypted",
    ],
    ["without TLS", undefined, undefined, "the connection is not encrypted"],
  ] as const
) {
  test(`whyRefused() says of a server ${what}: ${why}`, () => {
    const judge = (chain: readonly Uint8Array[]) => {
      assert.deepEqual(chain.map(([first]) => first), [1, 2], "all that it showed");
      return judged;
    };
    const material = { rootPems: [root], certPem: "", keyPem: "", peerCheck: "checked" } as const;
    assert.equal(whyRefused(peer, { ...material, judge }), why);
  });
}

for (
  const [name, type] of [["10.0.0.1", "ip"], ["::1", "ip"], ["server.dc1.consul", "dns"]] as const
) {
  test(`serverNameMatcher() looks for ${name} among names of type ${type}`, () =>
    assert.equal(serverNameMatcher(name).type, type));
}
