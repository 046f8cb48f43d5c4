import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { AdminQuestion } from "../../admin/mod.ts";
import { type EventsOptions, showEvents } from "./run_events.ts";

const [WEB, DB] = [19_000, 19_001].map((port) => ({ host: "127.0.0.1", port }));
assert.ok(WEB && DB);
const OPTIONS: EventsOptions = {
  which: { kind: "addresses", admins: [WEB] },
  follow: false,
  since: "10m",
  kinds: "chain,endpoint",
  json: false,
  noColor: false,
};
const EVENTS = [
  {
    seq: 2,
    at: "2026-11-21T07:31:00.000Z",
    kind: "endpoint",
    subject: "db",
    text: "db-2 critical\n\u202e(serfHealth)",
    effect: "1 usable instance, 2 before",
    severity: "warn",
  },
  {
    seq: 1,
    at: "2026-11-21T07:30:00.000Z",
    kind: "chain",
    text: "splitter db: v2 10 % to 50 %",
    pending: true,
  },
];
const DAY = {
  kinds: [
    { kind: "endpoint", info: 9, warn: 3, error: 1 },
    { kind: "chain", info: 1, warn: 0, error: 0 },
    { kind: "source", info: 1, warn: 0, error: 0 },
  ],
  subjects: [{ kind: "endpoint", subject: "db", count: 12 }],
};

interface Given {
  readonly status?: number;
  readonly body?: string;
  readonly color?: boolean;
}

async function shown(
  options: Partial<EventsOptions>,
  { status = 200, body, color = false }: Given = {},
) {
  const asked: AdminQuestion[] = [];
  const lines: string[] = [];
  const notes: string[] = [];
  const code = await showEvents({ ...OPTIONS, ...options }, {
    ask({ port }, question) {
      if (question.path === "/server_info") {
        const proxyId = port === WEB?.port ? "web-1" : "db-1-sidecar-proxy";
        const info = { node: { id: proxyId }, postern: { options: { proxyId } } };
        return Promise.resolve({ status: 200, body: JSON.stringify(info) });
      }
      asked.push(question);
      // The second proxy is a little later.
      const events = port === WEB?.port ? EVENTS : EVENTS.map((event) => ({
        ...event,
        at: event.at.replace(":00.000Z", ":30.000Z"),
        severity: "error",
      }));
      const text = body ?? JSON.stringify({ total: 2, events, day: DAY });
      return Promise.resolve({ status, body: text });
    },
    screen: { width: undefined, color },
    write: (line) => void lines.push(line),
    note: (text) => void notes.push(text),
    signal: new AbortController().signal,
  });
  return { lines, notes, code, path: asked[0]?.path };
}

const SPLIT = "splitter db: v2 10 % to 50 % (effect follows within a minute)";
const CRITICAL = "db-2 critical \\u202e(serfHealth): 1 usable instance, 2 before";

test("postern events names the proxy, and writes the oldest first, one line each", async () => {
  const { lines, path, code } = await shown({});
  assert.equal(path, "/events?since=10m&kind=chain%2Cendpoint&limit=1000");
  assert.deepEqual([code, lines], [0, [
    "events of web-1 at 127.0.0.1:19000",
    `2026-11-21T07:30:00Z info  chain       ${SPLIT}`,
    `2026-11-21T07:31:00Z warn  endpoint    ${CRITICAL}`,
  ]]);
});

test("postern events merges the proxies of the machine in the order of time", async () => {
  const { lines } = await shown({ which: { kind: "addresses", admins: [DB, WEB] } });
  assert.deepEqual(lines, [
    "events of db-1 at 127.0.0.1:19001, web-1 at 127.0.0.1:19000",
    `2026-11-21T07:30:00Z web-1 info  chain       ${SPLIT}`,
    `2026-11-21T07:30:30Z db-1  error chain       ${SPLIT}`,
    `2026-11-21T07:31:00Z web-1 warn  endpoint    ${CRITICAL}`,
    `2026-11-21T07:31:30Z db-1  error endpoint    ${CRITICAL}`,
  ]);
});

test("postern events of a day ends with its sums, of the wanted kinds", async () => {
  const { lines } = await shown({ since: "24h" });
  assert.deepEqual(lines.slice(3), [
    "last 24 hours of web-1: 13 endpoint (3 warn, 1 error), 1 chain",
    "  most: endpoint db 12",
  ]);
});

test("postern events colours severities on a terminal", async () => {
  const { lines } = await shown({}, { color: true });
  assert.ok(lines[2]?.includes("\x1b[33mwarn \x1b[0m endpoint"));
});

test("postern events -json writes an object for each, without a title", async () => {
  const one = await shown({ json: true });
  assert.deepEqual(one.lines.map((line) => JSON.parse(line).seq), [1, 2]);
  const two = await shown({ json: true, which: { kind: "addresses", admins: [WEB, DB] } });
  assert.deepEqual(two.lines.map((line) => JSON.parse(line).sidecar), [
    "web-1",
    "db-1",
    "web-1",
    "db-1",
  ]);
});

test("postern events says that there are none", async () => {
  const { lines } = await shown({}, { body: '{"total":0,"events":[]}' });
  assert.deepEqual(lines.slice(1), ["(no events since 10m)"]);
});

for (
  const [name, given, want] of [
    ["the reason of the proxy", { status: 400, body: "Cannot read ?kind: want intention\n" }, [
      "Cannot read ?kind: want intention",
    ]],
    ["an answer of another program", { body: "<html>" }, [
      "Cannot ask the proxy at 127.0.0.1:19000: ",
    ]],
  ] as const satisfies readonly (readonly [string, Given, readonly string[]])[]
) {
  test(`postern events fails with ${name}`, async () => {
    const { notes, code } = await shown({}, given);
    assert.equal(code, 2);
    assert.deepEqual(notes.map((note, at) => note.slice(0, want[at]?.length)), want);
  });
}
