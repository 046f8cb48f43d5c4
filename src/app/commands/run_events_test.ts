import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { AdminQuestion } from "../../admin/mod.ts";
import { type EventsOptions, showEvents } from "./run_events.ts";

const ADMIN = { kind: "tcp", host: "127.0.0.1", port: 19_000 } as const;
const OPTIONS: EventsOptions = {
  proxy: { kind: "address", admin: ADMIN },
  follow: false,
  since: "10m",
  kinds: "chain,endpoint",
  json: false,
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
  { seq: 1, at: "2026-11-21T07:30:00.000Z", kind: "chain", text: "splitter db: v2 10 % to 50 %" },
];

async function shown(options: Partial<EventsOptions>, status = 200, body?: string) {
  const asked: AdminQuestion[] = [];
  const lines: string[] = [];
  await showEvents({ ...OPTIONS, ...options }, {
    ask(_admin, question) {
      asked.push(question);
      const text = body ?? JSON.stringify({ total: 2, events: EVENTS });
      return Promise.resolve({ status, body: text });
    },
    write: (line) => void lines.push(line),
    signal: new AbortController().signal,
  });
  return { lines, path: asked[0]?.path };
}

test("postern events writes the oldest first, one line each", async () => {
  const { lines, path } = await shown({});
  assert.equal(path, "/events?since=10m&kind=chain%2Cendpoint&limit=1000");
  assert.deepEqual(lines, [
    "2026-11-21T07:30:00Z chain       splitter db: v2 10 % to 50 %",
    "2026-11-21T07:31:00Z endpoint    WARN db-2 critical \\u202e(serfHealth): " +
    "1 usable instance, 2 before",
  ]);
});

test("postern events -json writes an object for each", async () => {
  const { lines } = await shown({ json: true });
  assert.deepEqual(lines.map((line) => JSON.parse(line).seq), [1, 2]);
});

test("postern events fails with the reason of the proxy", async () => {
  const answer = shown({}, 400, "Cannot read ?kind: want intention, chain\n");
  await assert.rejects(answer, /^ProxyError: Cannot read \?kind: want intention, chain$/);
});
