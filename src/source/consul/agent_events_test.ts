import { strict as assert } from "node:assert";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { type LogFields, silentLog } from "../../base/mod.ts";
import { AgentEvents } from "./agent_events.ts";
import type { CredentialsPart } from "../../snapshot/mod.ts";

const FIRST: CredentialsPart = {
  version: 1,
  certPem: "leaf 1",
  keyPem: "key",
  rootPems: ["a", "b"],
  trustDomains: [],
  uri: "spiffe://a/b",
  serial: "01",
  notBeforeMs: 0,
  notAfterMs: 86_400_000,
};

function agentEvents() {
  const clock = new FakeClock();
  const logged: [string, LogFields | undefined][] = [];
  const log = {
    ...silentLog,
    info: (text: string, fields?: LogFields) => void logged.push([text, fields]),
    warn: (text: string, fields?: LogFields) => void logged.push([`warn ${text}`, fields]),
  };
  const events = new AgentEvents(clock, log);
  const shown = () => events.with([]).map(({ kind, name, detail }) => `${kind} ${name}: ${detail}`);
  return { events, clock, logged, shown };
}

const DATES = "from 1970-01-01T00:00:00.000Z to 1970-01-02T00:00:00.000Z";
const LOADED = [
  `loaded leaf: serial 01, ${DATES}, spiffe://a/b`,
  "loaded roots: 2 roots",
];

for (
  const [name, change, want, lines] of [
    ["a new leaf", { certPem: "leaf 2", serial: "02" }, [
      `rotated leaf: serial 02, was 01, ${DATES}, spiffe://a/b`,
    ], ["certificate rotated"]],
    ["a leaf of another service", { certPem: "leaf 2", serial: "02", uri: "spiffe://a/c" }, [
      `rotated leaf: serial 02, was 01, ${DATES}, spiffe://a/c, was spiffe://a/b`,
    ], ["warn certificate rotated with another identity"]],
    ["another root", { rootPems: ["a", "b", "c"] }, ["rotated roots: 3 roots, was 2"], [
      "trust rotated",
    ]],
    ["roots in another order", { rootPems: ["b", "a"] }, [], []],
    ["other trust domains", { trustDomains: ["x"] }, [], []],
  ] as const
) {
  test(`AgentEvents.published() after ${name}`, () => {
    const { events, logged, shown } = agentEvents();
    events.published(FIRST);
    assert.deepEqual([shown(), logged], [LOADED, []]);
    events.published({ ...FIRST, version: 2, ...change });
    assert.deepEqual(shown().slice(2), want);
    assert.deepEqual(logged.map(([text]) => text), lines);
  });
}

test("AgentEvents.published() adds no event for known credentials, and keeps a thousand", () => {
  const { events, shown } = agentEvents();
  events.published(FIRST);
  events.published(FIRST);
  assert.equal(shown().length, 2);
  for (let serial = 0; serial < 1_200; serial++) {
    events.published({ ...FIRST, certPem: `leaf ${serial + 2}`, serial: String(serial) });
  }
  assert.equal(shown().length, 1_000);
  assert.match(shown().at(-1) ?? "", /serial 1199, was 1198/);
});

test("AgentEvents.with() keeps the order of time", async () => {
  const { events, clock } = agentEvents();
  const other = { kind: "loaded", name: "x", source: "file x", detail: "" } as const;
  const before = { ...other, atMs: clock.now() };
  await clock.advance(1_000);
  events.published(FIRST);
  const after = { ...other, atMs: clock.now() + 1 };
  const names = events.with([before, after]).map(({ name }) => name);
  assert.deepEqual(names, ["x", "leaf", "roots", "x"]);
});
