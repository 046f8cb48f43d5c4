import assert from "node:assert/strict";
import { test } from "node:test";
import type { LocalReply } from "../../proxy/mod.ts";
import {
  exitCodeOf,
  type ExplainedEndpoint,
  type ExplainedSplit,
  nextCommands,
  verdictOf,
} from "./verdict.ts";

const reply = (status: number, code: string): LocalReply => ({
  status,
  grpcStatus: null,
  code,
  reason: code,
});

interface Instance {
  readonly failed?: string;
  /** Default 3. */
  readonly times?: number;
  readonly agoMs?: number;
  readonly ejected?: true;
  readonly lastResort?: boolean;
  readonly unreachable?: string | null;
}

const endpoint = (
  { failed = "", times = 3, agoMs, ejected, lastResort = false, unreachable = "" }: Instance,
  at: number,
): ExplainedEndpoint => ({
  id: `dc1/node/db-${at}-sidecar-proxy`,
  address: `10.0.0.${at}:1`,
  weight: 1,
  active: 0,
  failures: failed === "" ? 0 : times,
  lastFailure: failed,
  failedAgoMs: agoMs,
  ejectedForMs: ejected ? 1 : 0,
  ejectedBy: ejected ? 1 : 0,
  lastResort,
  unreachable,
});

function split(
  targets: readonly (readonly Instance[])[],
  { callee = "allow", answer = null }: {
    readonly callee?: "allow" | "deny" | "unknown";
    readonly answer?: LocalReply | null;
  } = {},
): ExplainedSplit {
  const denied = callee === "deny" ? { status: 403 } : {};
  return {
    chance: 0.5,
    answer,
    sent: null,
    balancing: { kind: "round_robin" },
    hashedBy: [],
    plugins: {},
    requestTimeoutMs: 0,
    idleTimeoutMs: 0,
    lack: "",
    targets: targets.map((instances) => ({
      target: "db",
      connectTimeoutMs: 1,
      lack: "",
      spiffeUris: [],
      endpoints: instances.map(endpoint),
      callee: {
        service: "db",
        verdict: callee,
        ...denied,
        path: null,
        reason: "",
        permissions: [],
      },
    })),
  };
}

const GOOD = split([[{}]]);
const BAD = split([[{ failed: "status 503" }]]);
const DENIED = split([[{}]], { callee: "deny" });
const ANSWERED = split([], { answer: reply(302, "") });
const EMPTY = split([], { answer: reply(503, "no_endpoint") });

for (
  const [name, answer, splits, verdict, status, exitCode] of [
    ["a request to the application", null, [], "allow", null, 0],
    ["one to a good instance", null, [GOOD], "allow", null, 0],
    ["one that an intention denies", reply(403, "intention_denied"), [], "deny", 403, 1],
    ["a caller without a certificate", reply(0, "handshake_failed"), [], "deny", 0, 1],
    ["one that is malformed", reply(400, "request_invalid"), [], "deny", 400, 1],
    ["one without a route", reply(404, "route_not_found"), [], "fail", 404, 1],
    ["one without an instance", reply(503, "no_endpoint"), [EMPTY], "fail", 503, 1],
    ["a listener that is not bound", reply(0, "listen_failed"), [], "fail", 0, 1],
    ["a redirect", reply(307, ""), [], "answer", 307, 0],
    ["a plugin's error", reply(401, ""), [], "answer", 401, 1],
    ["one that its callee denies", null, [DENIED], "deny", 403, 1],
    ["an instance that keeps failing", null, [BAD], "failing", null, 1],
    [
      "one that failed a while ago",
      null,
      [split([[{ failed: "x", agoMs: 40_000 }]])],
      "allow",
      null,
      0,
    ],
    [
      "one that is ejected and answered since",
      null,
      [split([[{ ejected: true }]])],
      "allow",
      null,
      0,
    ],
    ["one that failed once", null, [split([[{ failed: "x", times: 1 }]])], "allow", null, 0],
    ["one that ends connections", null, [split([[{ failed: "x", times: 0 }]])], "failing", null, 1],
    [
      "one that was down and takes connections again",
      null,
      [split([[{ failed: "endpoint_refused: x" }]])],
      "allow",
      null,
      0,
    ],
    [
      "one that was down when it was tried last",
      null,
      [split([[{ failed: "endpoint_refused: x", unreachable: null }]])],
      "failing",
      null,
      1,
    ],
    ["two, one of which answers", null, [split([[{ failed: "x" }, {}]])], "allow", null, 0],
    [
      "a good one that is ejected, and one that failed",
      null,
      [split([[{ failed: "x" }, { ejected: true }]])],
      "failing",
      null,
      1,
    ],
    [
      "failing ones before a good target to fail over to",
      null,
      [split([[{ failed: "x" }], [{}]])],
      "failing",
      null,
      1,
    ],
    [
      "ejected ones before a good target to fail over to",
      null,
      [split([[{ failed: "x", ejected: true }], [{}]])],
      "allow",
      null,
      0,
    ],
    [
      "a last resort that failed, which is all that is left",
      null,
      [split([[{ failed: "x", lastResort: true }]])],
      "failing",
      null,
      1,
    ],
    [
      "unreachable ones beside one that failed",
      null,
      [split([[{ unreachable: "refused" }, { failed: "x" }]])],
      "failing",
      null,
      1,
    ],
    ["splits of which one goes on", null, [GOOD, DENIED], "depends", null, 1],
    ["splits of which one goes on and one fails", null, [GOOD, BAD], "depends", null, 1],
    ["splits that fail for different reasons", null, [EMPTY, DENIED], "fail", null, 1],
    ["splits that are answered alike", null, [ANSWERED, ANSWERED], "answer", 302, 0],
    [
      "an intention that is not known",
      null,
      [split([[{}]], { callee: "unknown" })],
      "allow",
      null,
      0,
    ],
  ] as const
) {
  test(`verdictOf() of ${name} is ${verdict}, exit code ${exitCode}`, () => {
    const got = verdictOf(answer, splits);
    assert.deepEqual(got, { verdict, status });
    assert.equal(exitCodeOf(got), exitCode);
  });
}

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
    requestTimeoutMs: 0,
    idleTimeoutMs: 0,
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
