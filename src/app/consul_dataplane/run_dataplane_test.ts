import { strict as assert } from "node:assert";
import { request } from "node:http";
import { test } from "node:test";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { type LogFields, silentLog } from "../../base/mod.ts";
import { lifecycleAnswer, startLifecycle, startReady } from "./run_dataplane.ts";

const OPTIONS = {
  host: "127.0.0.1",
  port: 0,
  startupPath: "/up",
  startupGraceMs: 5_000,
  shutdownPath: "/down",
  shutdownGraceMs: 30_000,
  drainListeners: true,
};

function rig(options: Partial<typeof OPTIONS> = {}) {
  const clock = new FakeClock();
  const state = { reasons: ["no certificate"] as string[], stops: 0 };
  const view = {
    clock,
    health: () =>
      Promise.resolve({
        notReady: state.reasons,
        warnings: [],
        failing: [],
        listeners: { total: 1, unusable: 0 },
      }),
  };
  const stop = () => void state.stops++;
  return {
    clock,
    state,
    view,
    stop,
    ask: (target: string) => lifecycleAnswer(target, { ...OPTIONS, ...options }, { view, stop }),
  };
}

test("lifecycleAnswer() answers the startup path when the proxy is ready", async () => {
  const { clock, state, ask } = rig();
  let answered = false;
  const pending = ask("/up?x").then((answer) => (answered = true, answer));
  await clock.advance(3_000);
  assert.equal(answered, false);
  state.reasons = [];
  await clock.advance(250);
  assert.deepEqual(await pending, { status: 200, body: "" });
});

test("lifecycleAnswer() answers the startup path after the startup grace, ready or not", async () => {
  const { clock, ask } = rig();
  let answered = false;
  const pending = ask("/up").then((answer) => (answered = true, answer));
  await clock.advance(4_999);
  assert.equal(answered, false);
  await clock.advance(1);
  assert.equal((await pending)?.status, 200);
  assert.equal(clock.pending, 0);
});

test("lifecycleAnswer() without a startup grace answers at once", async () => {
  const { ask } = rig({ startupGraceMs: 0 });
  assert.equal((await ask("/up"))?.status, 200);
});

test("lifecycleAnswer() stops the proxy on the exact shutdown path only", async () => {
  const { state, ask } = rig();
  for (const target of ["/", "/down/", "/dow", "/downs", "/DOWN"]) {
    assert.equal(await ask(target), undefined, target);
  }
  assert.equal(state.stops, 0);
  assert.equal((await ask("/down"))?.status, 200);
  assert.equal(state.stops, 1);
});

function client(port: number) {
  return (path: string, method = "GET", headers: Record<string, string> = {}) =>
    new Promise<readonly [number, string]>((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port, path, method, headers }, (reply) => {
        let body = "";
        reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
        reply.on("end", () => resolve([reply.statusCode ?? 0, body]));
      });
      sent.on("error", reject).end();
    });
}

test("startLifecycle() takes every method, and refuses requests of web pages", async () => {
  const { view, state, stop } = rig({});
  state.reasons = [];
  const server = await startLifecycle(OPTIONS, { view, log: silentLog, stop });
  try {
    const ask = client(server.address.port);
    for (const method of ["GET", "POST", "PUT", "HEAD", "DELETE"]) {
      assert.deepEqual(await ask("/up", method), [200, ""]);
    }
    assert.equal((await ask("/other"))[0], 404);
    assert.equal((await ask("/down", "GET", { "sec-fetch-site": "cross-site" }))[0], 403);
    assert.equal((await ask("/down", "POST", { origin: "http://evil.example" }))[0], 403);
    assert.equal(state.stops, 0);
    assert.deepEqual(await ask("/down", "POST"), [200, ""]);
    assert.equal(state.stops, 1);
  } finally {
    await server.close();
  }
});

test("startLifecycle() names the flag and the address in use", async () => {
  const { view, stop } = rig();
  const lines: [string, LogFields | undefined][] = [];
  const log = {
    ...silentLog,
    info: (text: string, fields?: LogFields) => void lines.push([text, fields]),
  };
  const first = await startLifecycle(OPTIONS, { view, log, stop });
  try {
    const { port } = first.address;
    assert.deepEqual(lines, [["lifecycle server listening", { address: `127.0.0.1:${port}` }]]);
    await assert.rejects(
      startLifecycle({ ...OPTIONS, port }, { view, log, stop }),
      { message: `Cannot listen on -graceful-port 127.0.0.1:${port}: the address is in use` },
    );
  } finally {
    await first.close();
  }
});

test("startReady() answers /ready without the reasons", async () => {
  const { view, state } = rig();
  const server = await startReady({ host: "127.0.0.1", port: 0 }, { view, log: silentLog });
  try {
    const ask = client(server.address.port);
    assert.deepEqual(await ask("/ready"), [503, "NOT READY\n"]);
    state.reasons = [];
    assert.deepEqual(await ask("/ready?a=b"), [200, "LIVE\n"]);
    assert.deepEqual(await ask("/ready", "HEAD"), [200, ""]);
    assert.equal((await ask("/stats"))[0], 404);
  } finally {
    await server.close();
    await settle();
  }
});
