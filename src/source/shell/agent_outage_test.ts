import assert from "node:assert/strict";
import { test } from "node:test";
import { joinOutage, troublesOf } from "./source_report.ts";
import type { Failing, SourceStatus } from "./source.ts";

const SINCE = Date.UTC(2026, 10, 23, 12);
const failing = (watch: string, code: Failing["code"], message: string): Failing => ({
  watch,
  code,
  message,
  sinceMs: SINCE,
});
const servers = (server: string, lastFailure: string): NonNullable<SourceStatus["servers"]> => ({
  server,
  lastFailure,
  sinceMs: undefined,
  known: [],
  moves: 0,
});
const status = (some: Partial<SourceStatus>): SourceStatus => ({
  kind: "consul",
  waitingFor: [],
  pending: [],
  warming: [],
  failing: [],
  watches: [],
  restored: false,
  snapshotVersion: 1,
  certificate: undefined,
  ...some,
});

const AT = "since 2026-11-23T12:00:00.000Z";
const DENIED = "Permission denied: token lacks permission 'service:write' on \"web\"";

for (
  const [what, given, want] of [
    ["nothing", {}, []],
    ["an agent that is away", { failing: [failing("agent", "agent_unreachable", "refused")] }, [
      `the agent not reached ${AT}: refused`,
    ]],
    ["a missing right", { failing: [failing("leaf web", "agent_forbidden", DENIED)] }, [
      `leaf web not read ${AT}: ${DENIED}`,
    ]],
    ["another cluster", { failing: [failing("agent", "cluster_changed", "it is another")] }, [
      `another cluster answers ${AT}: it is another`,
    ]],
    ["servers that are away", {
      servers: servers("", "10.0.0.1: refused"),
      failing: [failing("consul", "agent_unreachable", "none can be used: 10.0.0.1: refused")],
    }, [`Consul not reached ${AT}: none can be used: 10.0.0.1: refused`]],
    ["a search without a request yet", {
      servers: servers("", "10.0.0.1: refused"),
    }, ["no Consul server is in use: 10.0.0.1: refused"]],
    ["a server in use that was found after a failure", {
      servers: servers("10.0.0.2", "10.0.0.1: refused"),
    }, []],
  ] as const
) {
  test(`troublesOf() reports ${what}`, () => assert.deepEqual(troublesOf(status(given)), want));
}

test("troublesOf() lists twenty failures and counts the rest", () => {
  const many = Array.from({ length: 25 }, (_, at) => failing(`chain ${at}`, "agent_failed", "no"));
  const reported = troublesOf(status({ failing: many }));
  assert.deepEqual([reported.length, reported.at(-1)], [21, "and 5 more, see /config_dump"]);
});

test("joinOutage() prefers another cluster over unreachable watches", () => {
  const all = [
    failing("leaf web", "agent_unreachable", "the connection was reset"),
    failing("roots", "cluster_changed", "it is another"),
    failing("health db", "agent_failed", "no"),
  ];
  const joined = joinOutage(all, "agent");
  assert.deepEqual(joined.map(({ watch, code }) => [watch, code]), [
    ["agent", "cluster_changed"],
    ["health db", "agent_failed"],
  ]);
});
