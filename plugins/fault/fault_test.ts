import assert from "node:assert/strict";
import { test } from "node:test";
import { mount } from "../../src/kit/mod.ts";
import fault from "./fault.ts";

const GRPC = { "content-type": "application/grpc+proto" };
const ABORT = { abort: { status: 503 } };

for (
  const [what, config, request, want] of [
    ["passes requests if nothing is configured", {}, {}, 200],
    ["aborts every request without a percent", ABORT, {}, 503],
    ["aborts no request at 0 %", { abort: { status: 503, percent: 0 } }, {}, 200],
    ["aborts requests below the percent", { abort: { status: 503, percent: 50.1 } }, {}, 503],
    ["passes requests from the percent on", { abort: { status: 503, percent: 50 } }, {}, 200],
    ["maps a gRPC status to an HTTP status", { abort: { grpcStatus: 8 } }, {}, 429],
    [
      "applies to a request with the value",
      { ...ABORT, when: { "X-A": "1" } },
      { "x-a": "1" },
      503,
    ],
    ["does not apply to another value", { ...ABORT, when: { "x-a": "1" } }, { "x-a": "2" }, 200],
    [
      "applies to a request with the header",
      { ...ABORT, when: { "x-a": true } },
      { "x-a": "" },
      503,
    ],
    ["does not apply without the header", { ...ABORT, when: { "x-a": true } }, {}, 200],
    [
      "wants all of the headers",
      { ...ABORT, when: { "x-a": true, "x-b": "1" } },
      { "x-a": "1" },
      200,
    ],
  ] as readonly (readonly [string, unknown, Readonly<Record<string, string>>, number])[]
) {
  test(`fault ${what}`, async () => {
    await using it = await mount(fault, { config });
    const { status } = await it.request({ headers: request });
    const counts = [it.upstream.requests.length, it.stat("made", { kind: "abort" })];
    assert.deepEqual([status, ...counts], want === 200 ? [200, 1, 0] : [want, 0, 1]);
  });
}

for (
  const [abort, want] of [
    [{ grpcStatus: 8 }, "8"],
    [{ status: 503 }, "14"],
    [{ status: 403 }, "7"],
    [{ status: 418 }, "2"],
  ] as const
) {
  test(`fault answers a gRPC client ${JSON.stringify(abort)} with status ${want}`, async () => {
    await using it = await mount(fault, { config: { abort } });
    const { status, headers, body } = await it.request({ headers: GRPC });
    assert.deepEqual([status, headers.get("grpc-status"), body], [200, want, ""]);
    assert.equal(headers.get("grpc-message"), "fault filter abort");
    assert.equal(headers.get("content-type"), "application/grpc");
  });
}

test("fault delays, and aborts after that", async () => {
  await using it = await mount(fault, {
    config: { delay: { ms: 200 }, abort: { status: 500 } },
  });
  let status = 0;
  void it.request().then((response) => status = response.status);
  await it.clock.advance(199);
  assert.equal(status, 0);
  await it.clock.advance(1);
  assert.equal(status, 500);
  assert.equal(it.stat("made"), 2);
});

test("fault ends the delay of a caller that left", async () => {
  await using it = await mount(fault, { config: { delay: { ms: 200 } } });
  const left = new AbortController();
  const pending = it.request({ signal: left.signal });
  const before = it.clock.pending;
  left.abort();
  await pending;
  // The timer of the delay, and that of the check for stuck layers.
  assert.deepEqual([before, it.clock.pending, it.upstream.requests.length], [2, 0, 0]);
});

test("fault draws separate random numbers for delay and abort", async () => {
  const drawn = [0.9, 0.1];
  await using it = await mount(fault, {
    config: { delay: { ms: 200, percent: 50 }, abort: { status: 500, percent: 50 } },
    random: () => drawn.shift() ?? 1,
  });
  assert.equal((await it.request()).status, 500);
});

test("fault uses the configuration of a route instead of the listener's", async () => {
  await using it = await mount(fault, { config: ABORT, routeConfig: {} });
  assert.equal((await it.request()).status, 200);
});

for (
  const [config, reason] of [
    [{ abort: {} }, /abort: must have either status, from 200 to 599, or grpcStatus/],
    [{ abort: { status: 500, grpcStatus: 1 } }, /abort: must have either status/],
    [{ abort: { status: 100 } }, /config\.abort/],
    [{ delay: { ms: 9_000 } }, /config\.delay\.ms/],
    [{ delay: { ms: 1, percent: 101 } }, /config\.delay\.percent/],
    [{ delays: {} }, /config\.delays/],
  ] as const
) {
  test(`fault refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(mount(fault, { config }), reason);
  });
}
