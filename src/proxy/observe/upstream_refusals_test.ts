import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { createLog, type LogRecord } from "../../base/mod.ts";
import { ExchangeRecord } from "../../http/mod.ts";
import { ConnectionRecord } from "./connection_record.ts";
import { FailureSummary } from "./failure_summary.ts";
import { refusingText, UpstreamRefusals } from "./upstream_refusals.ts";

const DOWNSTREAM = {
  id: 1,
  remote: "127.0.0.1:40000",
  local: "",
  requestedServerName: "",
  tlsVersion: "",
  peer: undefined,
  localUri: "",
};

function rig() {
  const clock = new FakeClock();
  const lines: LogRecord[] = [];
  const log = createLog({ clock, holder: { level: "info" }, write: (line) => lines.push(line) });
  const refusals = new UpstreamRefusals({ clock, log, sums: new FailureSummary({ clock, log }) });
  const refuse = (
    upstream = "db",
    code: "intention_denied" | "local_refused" = "intention_denied",
  ) => {
    const connection = connectionTo(upstream);
    const record = new ExchangeRecord(DOWNSTREAM, undefined, { wallMs: 0, monotonicMs: 0 });
    record.denial = { code, rule: "" };
    record.upstream = { local: "", service: upstream };
    refusals.request(connection, record);
  };
  return { clock, lines, refusals, refuse };
}

function connectionTo(upstream: string): ConnectionRecord {
  const facts = { direction: "outbound", name: upstream, destination: upstream, http: {} } as const;
  const connection = new ConnectionRecord(facts, "127.0.0.1:40000", 0);
  connection.caller = "web";
  return connection;
}

test("UpstreamRefusals counts the last minute", async () => {
  const { clock, refusals, refuse } = rig();
  const counts = () => refusals.view().map(({ upstream, count }) => `${upstream} ${count}`);
  assert.deepEqual(counts(), []);
  for (let second = 0; second < 100; second++) {
    refuse();
    await clock.advance(1_000);
  }
  // The newest of the six parts has just begun.
  assert.deepEqual(counts(), ["db 50"]);
  await clock.advance(30_000);
  assert.deepEqual(counts(), ["db 20"]);
  await clock.advance(30_000);
  assert.deepEqual(counts(), []);
  assert.equal(clock.pending, 0);
});

test("UpstreamRefusals logs one refusal a second in full, and the others as a number", async () => {
  const { clock, lines, refuse } = rig();
  for (let count = 0; count < 500; count++) refuse();
  await clock.advance(1_000);
  const [first, more] = lines;
  assert.equal(lines.length, 2);
  assert.equal(first?.message, "request refused by the upstream");
  assert.deepEqual([more?.message, more?.fields["count"]], [
    "more requests refused by the upstream",
    499,
  ]);
});

test("UpstreamRefusals keeps a limited number of upstreams", async () => {
  const { clock, refusals, refuse } = rig();
  for (let count = 0; count < 300; count++) refuse(`db-${count}`);
  assert.equal(refusals.view().length, 100);
  await clock.advance(60_000);
  refuse("new");
  assert.deepEqual(refusals.view().map(({ upstream }) => upstream), ["new"]);
});

for (
  const [code, want] of [
    ["rate_limited", "db refuses web (rate_limited)"],
    ["local_refused", "the proxy of db answers web in place of its application (local_refused)"],
    [
      "refused_by_peer",
      "db probably refuses web: it ends connections right after the handshake (refused_by_peer)",
    ],
  ] as const
) {
  test(`refusingText() of ${code}`, () => {
    assert.equal(refusingText({ caller: "web", deniedBy: "db", code }), want);
  });
}
