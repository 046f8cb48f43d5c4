import assert from "node:assert/strict";
import { test } from "node:test";
import { hold, mount, ok, reset, settle, status } from "../../src/kit/mod.ts";
import accessLog from "./access_log.ts";

const TEXT = { text: "%REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE% %REQ(X-A)%" };

test("access_log writes a line of text for each request", async () => {
  const upstream = [ok("fine"), status(404), reset()];
  await using it = await mount(accessLog, { config: { format: TEXT }, upstream });
  await it.request({ path: "/a?b=c", headers: { "x-a": 'say "hi"' } });
  await it.request({ method: "PUT" });
  await it.request();
  assert.deepEqual(it.lines, [
    'GET /a?b=c 200 say \\"hi\\"\n',
    "PUT / 404 -\n",
    "GET / 503 -\n",
  ]);
});

test("access_log keeps the types of JSON values", async () => {
  const json = {
    status: "%RESPONSE_CODE%",
    of: { team: "pay", source: "from %DOWNSTREAM_REMOTE_ADDRESS%", type: "%RESP(CONTENT-TYPE)%" },
    flags: [1, "%REQ(X-A)%"],
  };
  const upstream = [status(201, { "content-type": "text/plain" })];
  await using it = await mount(accessLog, { config: { format: { json } }, upstream });
  await it.request();
  assert.deepEqual(it.lines.map((line) => JSON.parse(line)), [{
    status: 201,
    of: { team: "pay", source: "from 10.0.1.1:40000", type: "text/plain" },
    flags: [1, null],
  }]);
});

test("access_log writes Consul's default format unless another is configured", async () => {
  await using it = await mount(accessLog);
  await it.request({ path: "/items" });
  const [line = "{}"] = it.lines;
  const { path, response_code, upstream_host, request_id } = JSON.parse(line);
  assert.deepEqual(
    [path, response_code, upstream_host, request_id],
    ["/items", 200, "10.0.0.1:8080", "request-1"],
  );
});

test("access_log writes its line at the end of the exchange, with its duration", async () => {
  const held = hold();
  const config = { format: { text: "%DURATION%" } };
  await using it = await mount(accessLog, { config, upstream: [held] });
  const pending = it.request();
  await it.clock.advance(250);
  assert.deepEqual(it.lines, []);
  held.answer(ok());
  await pending;
  assert.deepEqual(it.lines, ["250\n"]);
});

for (
  const [what, when, want] of [
    ["of nothing", {}, ["/ok", "/health", "/gone", "/broken", "/slow", "/left"]],
    ["of failures", { minStatus: 500 }, ["/broken", "/left"]],
    ["of a status", { minStatus: 404 }, ["/gone", "/broken", "/left"]],
    ["of a time", { minDurationMs: 100 }, ["/slow"]],
    ["of both", { minDurationMs: 100, minStatus: 500 }, []],
    ["of paths", { exceptPaths: ["/health", "/slow"] }, ["/ok", "/gone", "/broken", "/left"]],
  ] as const
) {
  test(`access_log applies a condition ${what}`, async () => {
    const held = hold();
    const upstream = [ok(), ok(), status(404), reset(), held];
    const config = { format: { text: "%PATH(NQ)%" }, when };
    await using it = await mount(accessLog, { config, upstream });
    for (const path of ["/ok", "/health?live", "/gone", "/broken"]) await it.request({ path });
    const slow = it.request({ path: "/slow" });
    await it.clock.advance(100);
    held.answer(ok());
    await slow;
    const leaving = new AbortController();
    const left = it.request({ path: "/left", signal: leaving.signal });
    await settle();
    leaving.abort();
    assert.equal((await left).status, 0);
    assert.deepEqual(it.lines.map((line) => line.trim()), want);
  });
}

for (
  const [config, reason] of [
    [{ format: { text: "%NO_SUCH%" } }, /create\(\): the format has the operator NO_SUCH, which/],
    [{ format: { text: "100 %" } }, /the format has "%" without an operator/],
    [{ format: { json: { a: "%REQ()%" } } }, /needs the name of a header/],
    [{ format: { text: "" } }, /config\.format/],
    [{ format: { text: "a", json: {} } }, /config\.format/],
    [{ format: "%PROTOCOL%" }, /config\.format/],
    [{ when: { minStatus: 99 } }, /config\.when\.minStatus/],
    [{ when: { exceptPaths: ["/a?b"] } }, /config\.when\.exceptPaths\[0\]/],
    [{ to: "stdout" }, /config\.to/],
  ] as const
) {
  test(`access_log refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(mount(accessLog, { config }), reason);
  });
}
