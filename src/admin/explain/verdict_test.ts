import assert from "node:assert/strict";
import { test } from "node:test";
import type { LocalReply } from "../../proxy/mod.ts";
import type { ExplainedEndpoint, ExplainedSplit } from "./explanation_view.ts";
import { exitCodeOf, verdictOf } from "./verdict.ts";

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
  readonly ejected?: true;
  readonly lastResort?: boolean;
  readonly unreachable?: string | null;
}

const endpoint = (
  { failed = "", times = 3, ejected, lastResort = false, unreachable = "" }: Instance,
  at: number,
): ExplainedEndpoint => ({
  id: `dc1/node/db-${at}-sidecar-proxy`,
  address: `10.0.0.${at}:1`,
  weight: 1,
  active: 0,
  failures: failed === "" ? 0 : times,
  lastFailure: failed,
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
