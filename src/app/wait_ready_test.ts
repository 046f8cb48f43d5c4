import { strict as assert } from "node:assert";
import { test } from "node:test";
import { type AskReady, startAdmin } from "../admin/mod.ts";
import { silentLog, systemClock } from "../base/mod.ts";
import { fakeAdminView } from "../../test/kit/admin_view.ts";
import { FakeClock } from "../../test/kit/clock.ts";
import { waitReady } from "./wait_ready.ts";

const ADMIN = { kind: "tcp", host: "127.0.0.1", port: 19_000 } as const;

test("waitReady() asks again until the proxy is ready", async () => {
  const clock = new FakeClock();
  const answers = [new Error("connection refused"), { status: 503, body: "INITIALIZING\n" }, {
    status: 200,
    body: "LIVE\n",
  }];
  let asked = 0;
  const ask: AskReady = () => {
    const answer = answers[asked++];
    return answer && !(answer instanceof Error) ? Promise.resolve(answer) : Promise.reject(answer);
  };
  const result = waitReady({ admin: ADMIN, timeoutMs: 30_000, clock, ask });
  await clock.advance(1_000);
  assert.deepEqual(await result, { kind: "ready" });
  assert.equal(asked, 3);
  assert.equal(clock.pending, 0);
});

test("waitReady() gives up with the last answer", async () => {
  const clock = new FakeClock();
  const ask: AskReady = () => Promise.resolve({ status: 503, body: "INITIALIZING\nno leaf\n" });
  const result = waitReady({ admin: ADMIN, timeoutMs: 1_100, clock, ask });
  await clock.advance(1_100);
  assert.deepEqual(await result, {
    kind: "timed_out",
    message: "Cannot wait longer for the proxy at 127.0.0.1:19000: not ready after 1.1s; last " +
      "answer: status 503, INITIALIZING, no leaf",
  });
});

test("waitReady() asks once when there is no time at all", async () => {
  const clock = new FakeClock();
  const ask: AskReady = () => Promise.reject(new Error("connection refused"));
  const result = await waitReady({ admin: ADMIN, timeoutMs: 0, clock, ask });
  assert.match(result.kind === "timed_out" ? result.message : "", /connection refused$/);
});

test("waitReady() understands a real admin server", async () => {
  const view = fakeAdminView();
  const bind = { kind: "address", host: "127.0.0.1", port: 0 } as const;
  const server = await startAdmin(view, { bind }, silentLog);
  const options = { admin: server.address, timeoutMs: 0, clock: systemClock };
  try {
    assert.equal((await waitReady({ ...options, timeoutMs: 30_000 })).kind, "ready");
    view.ready = false;
    const late = await waitReady(options);
    assert.match(
      late.kind === "timed_out" ? late.message : "",
      /status 503, INITIALIZING, waiting/,
    );
  } finally {
    await server.close();
  }
  const gone = await waitReady(options);
  assert.match(gone.kind === "timed_out" ? gone.message : "", /last answer: .+/);
});
