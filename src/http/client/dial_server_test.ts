import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { memoryPair } from "../../../test/kit/engine/memory_pair.ts";
import type { ClientTls, DialHandler, DialOptions, PresentedPeer } from "../../net/mod.ts";
import { formatPem } from "../../wire/mod.ts";
import { areRoots, dialServer, type DialTls, serverNameMatcher } from "./dial_server.ts";

const ca = createAuthority();
const root = ca.rootPem;
const below = formatPem("CERTIFICATE", ca.intermediate().chainDer[0] ?? new Uint8Array());

for (
  const [what, pems, are] of [
    ["none", [], false],
    ["a root", [root], true],
    ["two roots in one file", [root + createAuthority().rootPem], true],
    ["an intermediate", [below], false],
    ["an intermediate beside a root", [root, below], false],
    ["an intermediate behind a root in its file", [root + below], false],
  ] as const
) {
  test(`areRoots() ${are ? "accepts" : "rejects"} ${what}`, () =>
    assert.equal(areRoots(pems), are));
}

const PEER: PresentedPeer = {
  accepted: true,
  reason: "",
  leaf: Uint8Array.of(1),
  chain: () => [Uint8Array.of(2)],
  version: "TLSv1.3",
  protocol: "h2",
  serverName: "",
  resumed: false,
};

/** The outcome of one dial to a server that presents `peer`, and the number of resets of its connection. */
async function dialled(peer: PresentedPeer | undefined, tls: DialTls | null) {
  const [connection] = memoryPair();
  let resets = 0;
  connection.reset = () => void resets++;
  const CLIENT_TLS: ClientTls = { kind: "client" };
  const engine = {
    clientTls: () => CLIENT_TLS,
    dial(_options: DialOptions, handler: DialHandler) {
      handler.onConnected(connection, peer);
      return { cancel: () => {} };
    },
  };
  const address = { kind: "tcp", host: "192.0.2.1", port: 1 } as const;
  const outcome: string[] = [];
  dialServer({ engine, address, tls, protocols: ["h2"] }, {
    onDialled: ({ protocol }) => outcome.push(`dialled ${protocol}`),
    onFailed: ({ stage, reason }) => outcome.push(`${stage}: ${reason}`),
  });
  await settle();
  return [...outcome, resets];
}

for (
  const [what, peer, judged, want] of [
    ["that both accept", PEER, undefined, ["dialled h2", 0]],
    ["that we refuse", PEER, "another name", ["peer: another name", 1]],
    [
      "that the library refuses",
      { ...PEER, accepted: false, reason: "old" },
      undefined,
      ["peer: old", 1],
    ],
    ["that both refuse", { ...PEER, accepted: false, reason: "old" }, "other", ["peer: other", 1]],
    [
      "without a certificate",
      { ...PEER, leaf: undefined },
      undefined,
      ["peer: the connection is not encrypted", 1],
    ],
    ["without TLS", undefined, undefined, ["peer: the connection is not encrypted", 1]],
  ] as const
) {
  test(`dialServer() judges a server ${what}`, async () => {
    const judge = (chain: readonly Uint8Array[]) => {
      assert.deepEqual(chain.map(([first]) => first), [1, 2], "the whole presented chain");
      return judged;
    };
    const material = { rootPems: [root], certPem: "", keyPem: "", peerCheck: "checked" } as const;
    const tls = { serverName: "a.example", material: () => ({ ...material, judge }) };
    assert.deepEqual(await dialled(peer, tls), want);
  });
}

test("dialServer() does not judge a server in plain text", async () => {
  assert.deepEqual(await dialled(undefined, null), ["dialled ", 0]);
});

test("dialServer() does not dial without anchors", async () => {
  const tls: DialTls = {
    serverName: "a.example",
    material: () => ({
      rootPems: [],
      certPem: "",
      keyPem: "",
      peerCheck: "checked",
      judge: () => undefined,
    }),
  };
  assert.deepEqual(await dialled(PEER, tls), [
    "credentials: Cannot check the server: it has no anchors",
    0,
  ]);
});

for (
  const [name, type] of [["10.0.0.1", "ip"], ["::1", "ip"], ["server.dc1.consul", "dns"]] as const
) {
  test(`serverNameMatcher() matches ${name} with names of type ${type}`, () =>
    assert.equal(serverNameMatcher(name).type, type));
}
