import { strict as assert } from "node:assert";
import { test } from "node:test";
import { fakeAdminView, TOKEN } from "../../test/kit/admin/admin_view.ts";
import type { EventKind } from "../base/mod.ts";
import { createAdmin } from "./admin.ts";

async function admin() {
  const view = fakeAdminView();
  const report = (kind: EventKind, subject: string, text: string) =>
    view.journal.report({ kind, subject, text });
  report("intention", "web => db", "deny web => db added");
  await view.clock.advance(600_000);
  view.journal.report({
    kind: "endpoint",
    subject: "db",
    text: "db-2 critical\n(serfHealth)",
    effect: "1 usable instance, 2 before",
    severity: "warn",
  });
  await view.clock.advance(1_000);
  report("secret", "web.pem", `rejected: it holds ${TOKEN}`);
  const app = createAdmin(view, { boundHost: "127.0.0.1" });
  const ask = (path: string, headers: Record<string, string> = {}) =>
    app.request(path, { headers: { host: "127.0.0.1", ...headers } });
  const seqs = async (path: string) =>
    JSON.parse(await (await ask(path)).text()).events.map(({ seq }: { seq: number }) => seq);
  return { view, ask, seqs, report };
}

test("admin /events and the page say that an effect is not known yet, until it is", async () => {
  const { view, ask } = await admin();
  const event = { kind: "chain", subject: "db", text: "splitter db: v2 1 % to 2 %" } as const;
  const seq = view.journal.report({ ...event, effect: "so far" }, { isPending: true });
  const [line, mark] = ["splitter db: v2 1 % to 2 %: so far", " (effect follows within a minute)"];
  const shown = async () => [
    JSON.parse(await (await ask("/events?limit=1")).text()).events[0].pending,
    (await (await ask("/events?limit=1&format=text")).text()).includes(line + mark),
    (await (await ask("/")).text()).includes(line + mark),
  ];
  assert.deepEqual(await shown(), [true, true, true]);
  view.journal.amend(seq, "");
  assert.deepEqual(await shown(), [false, false, false]);
});

test("admin /events has the newest first, with every field, and no secret", async () => {
  const { ask } = await admin();
  const body = await (await ask("/events")).text();
  const { total, events } = JSON.parse(body);
  assert.equal(total, 3);
  assert.deepEqual(events[1], {
    seq: 2,
    at: "2026-11-21T07:40:00.000Z",
    kind: "endpoint",
    subject: "db",
    text: "db-2 critical\n(serfHealth)",
    effect: "1 usable instance, 2 before",
    severity: "warn",
    earlier: false,
    pending: false,
  });
  assert.doesNotMatch(body, new RegExp(TOKEN));
  const lines = await (await ask("/events?format=text")).text();
  assert.equal(lines, await (await ask("/events", { accept: "text/plain" })).text());
  assert.deepEqual(lines.trimEnd().split("\n").slice(1), [
    "2026-11-21T07:40:00.000Z endpoint WARN db-2 critical (serfHealth): 1 usable instance, 2 before",
    "2026-11-21T07:30:00.000Z intention deny web => db added",
  ]);
});

for (
  const [query, want] of [
    ["", [3, 2, 1]],
    ["?limit=1", [3]],
    ["?limit=0", []],
    ["?kind=endpoint", [2]],
    ["?kind=endpoint,intention", [2, 1]],
    ["?since=1", [3, 2]],
    ["?since=3", []],
    ["?since=4", [3, 2, 1]],
    ["?since=1m", [3, 2]],
    ["?since=2026-11-21T07:40:01Z", [3]],
    ["?since=1m&kind=intention", []],
  ] as const
) {
  test(`admin /events${query} has the events ${want.join(", ") || "of nobody"}`, async () => {
    const { seqs } = await admin();
    assert.deepEqual(await seqs(`/events${query}`), want);
  });
}

for (
  const query of ["limit=-1", "limit=x", "limit=1001", "kind=other", "since=yesterday", "since=x"]
) {
  test(`admin /events?${query} is refused with what is wanted`, async () => {
    const { ask } = await admin();
    const reply = await ask(`/events?${query}`);
    assert.equal(reply.status, 400);
    assert.match(await reply.text(), /^Cannot read \?(?:limit|kind|since): want /);
  });
}

/** Reads what there is, until `count` events are there. */
async function readEvents(reply: Response, count: number): Promise<string[]> {
  const reader = reply.body?.getReader();
  assert.ok(reader);
  let text = "";
  while (text.split("\n\n").length <= count) {
    const { value } = await reader.read();
    text += new TextDecoder().decode(value);
  }
  await reader.cancel();
  return text.trimEnd().split("\n\n");
}

for (
  const [name, path, headers, ids] of [
    ["new events only", "/events?follow", {}, [4, 5]],
    ["those since an event first", "/events?follow&since=1", {}, [2, 3, 4, 5]],
    ["those since the last one of an EventSource", "/events?follow", { "last-event-id": "2" }, [
      3,
      4,
      5,
    ]],
    ["one kind", "/events?follow&kind=chain&since=1h", {}, [5]],
  ] as const
) {
  test(`admin /events?follow sends ${name}`, async () => {
    const { ask, report } = await admin();
    const reply = await ask(path, headers);
    assert.equal(reply.headers.get("content-type"), "text/event-stream");
    const read = readEvents(reply, ids.length);
    await new Promise((resolve) => setImmediate(resolve));
    report("source", "agent", "agent not reached");
    report("chain", "db", "splitter db: v2 10 % to 50 %");
    const events = await read;
    assert.deepEqual(events.map((event) => Number(/^id: (\d+)$/m.exec(event)?.[1])), ids);
    const last = JSON.parse(/^data: (.*)$/m.exec(events.at(-1) ?? "")?.[1] ?? "");
    assert.deepEqual([last.seq, last.text], [5, "splitter db: v2 10 % to 50 %"]);
    assert.doesNotMatch(events.join(), new RegExp(TOKEN));
  });
}

test("admin /events?follow says how many events a slow client has missed", async () => {
  const { view, ask } = await admin();
  const reader = (await ask("/events?follow")).body?.getReader();
  assert.ok(reader);
  const first = reader.read();
  await new Promise((resolve) => setImmediate(resolve));
  for (let second = 0; second < 1_500; second++) {
    view.journal.report({ kind: "chain", subject: "db", text: "x".repeat(600) });
    await view.clock.advance(1_000);
  }
  let text = new TextDecoder().decode((await first).value);
  while (!text.includes('"seq":1503')) {
    text += new TextDecoder().decode((await reader.read()).value);
  }
  const [, lost] = /^event: lost\ndata: \{"lost":(\d+)\}$/m.exec(text) ?? [];
  assert.equal((text.match(/^id: /gm) ?? []).length + Number(lost), 1_500);
  await reader.cancel();
});
