import assert from "node:assert/strict";
import { test } from "node:test";
import type { ExplainedSplit } from "./explanation_view.ts";
import { nextCommands } from "./next_commands.ts";

const uri = (service: string, datacenter = "dc1") =>
  `spiffe://1-2.consul/ns/default/dc/${datacenter}/svc/${service}`;

function splitTo(
  id: string,
  { path, datacenter = "dc1", isDenied = false, isMesh = true }: {
    readonly path?: string;
    readonly datacenter?: string;
    readonly isDenied?: boolean;
    readonly isMesh?: boolean;
  } = {},
): ExplainedSplit {
  const verdict = isDenied ? "deny" : "allow";
  return {
    chance: 1,
    answer: null,
    sent: path === undefined ? null : { method: "PUT", host: "db", path },
    balancing: { kind: "round_robin" },
    hashedBy: [],
    plugins: {},
    lack: "",
    targets: [{
      target: "db",
      connectTimeoutMs: 1,
      lack: "",
      spiffeUris: [uri("db", datacenter)],
      callee: isMesh ? { service: "db", verdict, path: null, reason: "", permissions: [] } : null,
      endpoints: [{
        id,
        address: "10.0.0.1:1",
        weight: 1,
        active: 0,
        failures: 0,
        lastFailure: "",
        ejectedForMs: 0,
        ejectedBy: 0,
        lastResort: false,
        unreachable: "",
      }],
    }],
  };
}

for (
  const [name, split, want] of [
    [
      "repeats the request as it is sent",
      splitTo("dc1/n/db-1-sidecar-proxy", { path: "/new/a" }),
      ["postern explain -sidecar-for db-1 -inbound -source web PUT /new/a"],
    ],
    [
      "quotes for a shell",
      splitTo("dc1/n/db-1-sidecar-proxy", { path: "/a?b='1'&c" }),
      ["postern explain -sidecar-for db-1 -inbound -source web PUT '/a?b='\\''1'\\''&c'"],
    ],
    [
      "has no path for a connection",
      splitTo("dc1/n/db-1-sidecar-proxy"),
      ["postern explain -sidecar-for db-1 -inbound -source web"],
    ],
    [
      "names a proxy that is no sidecar by its own id",
      splitTo("dc1/n/db-proxy"),
      ["postern explain -proxy-id db-proxy -inbound -source web"],
    ],
    [
      "names a caller of another datacenter by its URI",
      splitTo("dc2/n/db-1-sidecar-proxy", { datacenter: "dc2" }),
      [`postern explain -sidecar-for db-1 -inbound -source ${uri("web")}`],
    ],
    ["is empty when the callee denies", splitTo("dc1/n/db", { isDenied: true }), []],
    ["is empty outside the mesh", splitTo("dc1/n/db", { isMesh: false }), []],
    ["is empty for instances of a file", splitTo("10.0.0.1:1"), []],
  ] as const
) {
  test(`nextCommands() ${name}`, () => {
    assert.deepEqual(nextCommands([split, split], uri("web")), want);
  });
}
