import assert from "node:assert/strict";
import { test } from "node:test";
import { hold, mount, type MountOptions, ok, settle, status, unreachable } from "../kit/mod.ts";
import type { Call, Host, HttpResponse, Next, RequestArgs, RequestChange, Terms } from "./api.ts";

const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;
const TERMS: Terms = { timeoutMs: 200, limitBytes: 100 };

/** The result of a call that a request makes. */
async function ask(
  change: RequestChange,
  terms: Terms,
  steps: NonNullable<MountOptions["callees"]>[string],
) {
  let answer: HttpResponse | undefined;
  const asking = await mountCalling(
    (call) => call(change, terms).then((response) => answer = response),
    {
      authz: steps,
    },
  );
  const request = asking.request();
  await settle();
  return {
    asking,
    request,
    get answer() {
      return answer;
    },
    get seen() {
      return asking.callees["authz"]?.requests ?? [];
    },
  };
}

function mountCalling(
  onRequest: (call: Call, args: RequestArgs) => Promise<HttpResponse>,
  callees: NonNullable<MountOptions["callees"]>,
  target = "authz",
) {
  const definition = {
    name: "calling",
    api: 1,
    phase: "guard",
    config: ANYTHING,
    create(host: { callee(target: string): Call }) {
      const call = host.callee(target);
      return { onRequest: (args: RequestArgs) => onRequest(call, args) };
    },
  };
  return mount(definition, { callees });
}

test("a call sends its request, and resolves to head and body of the response", async () => {
  const change = {
    method: "POST",
    path: "/check?a",
    authority: "authz.example",
    body: "may I",
    headers: { set: { "X-One": "1" }, add: { "x-two": "2" } },
  };
  const { answer, seen } = await ask(change, TERMS, [status(401, { "x-why": "so" }, "no", "!")]);
  const [{ method, path, authority, body } = { method: "" }] = seen;
  assert.deepEqual([method, path, authority, body], [
    "POST",
    "/check?a",
    "authz.example",
    "may I",
  ]);
  assert.deepEqual([seen[0]?.header("x-one"), seen[0]?.header("x-two")], ["1", "2"]);
  assert.deepEqual([answer?.status, answer?.headers.get("x-why"), answer?.failure], [
    401,
    "so",
    null,
  ]);
  assert.equal(new TextDecoder().decode(await answer?.body?.bytes(100)), "no!");
});

test("a call without changes is GET / with the callee's authority and no body", async () => {
  const { answer, seen } = await ask({}, TERMS, [status(204)]);
  assert.deepEqual(
    seen.map(({ method, path, authority, isComplete }) => [
      method,
      path,
      authority,
      isComplete,
    ]),
    [["GET", "/", "authz", true]],
  );
  assert.deepEqual([answer?.status, answer?.body], [204, null]);
});

for (
  const [what, terms, steps, code] of [
    ["no response begins in time", TERMS, [hold()], "response_timed_out"],
    ["the connection is refused", TERMS, [unreachable()], "endpoint_refused"],
    ["the body is too long", { ...TERMS, limitBytes: 3 }, [ok("ab", "cd")], "response_invalid"],
  ] as const
) {
  test(`a call resolves to a failure if ${what}`, async () => {
    const it = await ask({}, terms, steps);
    await it.asking.clock.advance(terms.timeoutMs);
    assert.equal(it.answer?.failure?.code, code);
    for (const { isGivenUp } of it.seen) assert.equal(isGivenUp, true);
    assert.equal(it.asking.clock.pending, 0, "timers are set still");
  });
}

test("a discarded body is not counted", async () => {
  const { answer } = await ask({}, { timeoutMs: 200 }, [ok("ab", "cd")]);
  assert.deepEqual([answer?.status, answer?.body, answer?.failure], [200, null, null]);
});

test("a call ends with its signal, and with its generation", async () => {
  const leaving = new AbortController();
  const it = await ask({}, { ...TERMS, signal: leaving.signal }, [hold()]);
  assert.equal(it.seen[0]?.isGivenUp, false);
  leaving.abort();
  await settle();
  assert.deepEqual([it.answer?.failure?.code, it.seen[0]?.isGivenUp], ["closed", true]);

  const left: HttpResponse[] = [];
  const asking = await mountCalling((call) => {
    void call({}, TERMS).then((response) => left.push(response));
    return call({}, { timeoutMs: 1 });
  }, { authz: [hold()] });
  const answer = asking.request();
  await asking.clock.advance(1);
  await answer;
  assert.equal(left.length, 0);
  await asking[Symbol.asyncDispose]();
  assert.deepEqual(left.map(({ failure }) => failure?.code), ["closed"]);
});

test("calls above the limit fail at once", async () => {
  const codes: unknown[] = [];
  const asking = await mountCalling((call) => {
    for (let i = 0; i < 1_030; i++) {
      void call({}, TERMS).then(({ failure }) => codes.push(failure?.code));
    }
    return call({}, TERMS);
  }, { authz: [hold()] });
  const answer = asking.request();
  await settle();
  assert.deepEqual(codes, Array(6).fill("limit_reached"));
  await asking.clock.advance(200);
  assert.equal((await answer).failure?.code, "limit_reached");
  // Each call frees its place.
  codes.length = 0;
  const again = asking.request();
  await settle();
  assert.equal(codes.length, 6);
  await asking.clock.advance(200);
  await again;
});

for (
  const [what, change, terms, wanted] of [
    ["no time", {}, { timeoutMs: 0 }, /timeoutMs 0/],
    ["too long a timeout", {}, { timeoutMs: 1e9 }, /timeoutMs 1000000000/],
    ["a path with a space", { path: "/a b" }, TERMS, /path/],
    ["a header of two lines", { headers: { set: { a: "1\r\nb: 2" } } }, TERMS, /header/],
    ["a stream as body", { body: new ReadableStream() }, TERMS, /text, bytes, or one that came/],
  ] as const
) {
  test(`a call is refused that has ${what}`, async () => {
    const it = await ask(change, terms, [ok("ok")]);
    const { failure } = await it.request;
    assert.equal(failure?.code, "plugin_failed");
    assert.match(failure.reason, wanted);
  });
}

test("a gRPC call has te: trailers, and the copied request does not", async () => {
  const definition = {
    name: "calling",
    api: 1,
    phase: "guard",
    config: ANYTHING,
    create(host: Host) {
      const call = host.callee("authz");
      return {
        async onRequest({ request }: RequestArgs, next: Next) {
          await call({ headers: request.headers }, TERMS);
          return next();
        },
      };
    },
  };
  await using it = await mount(definition, { callees: { authz: [ok()] } });
  await it.request({ headers: { "content-type": "application/grpc" } });
  assert.equal(it.callees["authz"]?.requests[0]?.header("te"), "trailers");
  assert.equal(it.upstream.requests[0]?.header("te"), undefined);
});

test("callee() of a closed plugin throws", async () => {
  let host: Host | undefined;
  const definition = {
    name: "calling",
    api: 1,
    phase: "guard",
    config: ANYTHING,
    create: (lent: Host) => (host = lent, {}),
  };
  const it = await mount(definition, { callees: { authz: [ok()] } });
  await it[Symbol.asyncDispose]();
  assert.throws(() => host?.callee("authz"), /the plugin was closed/);
});

test("a plugin with an unknown callee cannot be loaded", async () => {
  await assert.rejects(
    mountCalling((call) => call({}, TERMS), {}, "unknown"),
    /plugins\[0\]: create\(\): Cannot ask "unknown": the test has nobody of that name/,
  );
});

const STREAMED = { timeoutMs: 200 };

test("a streamed call sends a body as it comes, and its response is passed on as it comes", async () => {
  const big = new Uint8Array(100_000).fill(97);
  await using asking = await mountCalling(
    (call, { request, exchange: { signal } }) =>
      call.stream({ method: "POST", body: request.body?.stream() ?? null }, {
        ...STREAMED,
        signal,
      }),
    { authz: [({ body }) => status(201, { "x-got": body }, big, big, "end")] },
  );
  const { status: code, headers, body, failure } = await asking.request({
    method: "POST",
    body: ["one", "two"],
  });
  assert.deepEqual([code, headers.get("x-got"), body.length, failure], [
    201,
    "onetwo",
    200_003,
    null,
  ]);
  assert.equal(asking.callees["authz"]?.requests[0]?.isComplete, true);
  assert.equal(asking.clock.pending, 0);
});

test("a streamed call whose body nobody reads ends after its time, and gives its place back", async () => {
  const big = new Uint8Array(100_000);
  let response: HttpResponse | undefined;
  await using asking = await mountCalling(
    (call) => call.stream({}, STREAMED),
    { authz: [ok(big, big)] },
  );
  const kept = mountCalling(async (call) => {
    response = await call.stream({}, STREAMED);
    return await new Promise<HttpResponse>(() => {});
  }, { authz: [ok(big, big)] });
  await using reading = await kept;
  void reading.request();
  await settle();
  assert.equal(response?.status, 200);
  await reading.clock.advance(200);
  await assert.rejects(async () => await response?.body?.bytes(1e6), /no byte for 200 ms/);
  assert.equal(reading.callees["authz"]?.requests[0]?.isGivenUp, true);
  assert.equal((await asking.request()).body.length, 200_000);
});

for (
  const [what, steps, code] of [
    ["no response begins in time", [hold()], "response_timed_out"],
    ["the connection is refused", [unreachable()], "endpoint_refused"],
  ] as const
) {
  test(`a streamed call resolves to a failure if ${what}`, async () => {
    let failure: HttpResponse["failure"] | undefined;
    await using asking = await mountCalling(async (call) => {
      const response = await call.stream({}, STREAMED);
      failure = response.failure;
      return response;
    }, { authz: steps });
    void asking.request();
    await asking.clock.advance(200);
    assert.equal(failure?.code, code);
  });
}

test("a plugin has at most 128 streamed calls, and the places of ended ones are free again", async () => {
  const held = hold();
  const codes: unknown[] = [];
  await using asking = await mountCalling(async (call) => {
    const calls = Array.from({ length: 129 }, () => call.stream({}, STREAMED));
    void calls[128]?.then(({ failure }) => codes.push(failure?.code));
    await Promise.all(calls.slice(0, 128));
    return await call.stream({}, STREAMED);
  }, { authz: [held] });
  const answer = asking.request();
  await settle();
  assert.deepEqual(codes, ["limit_reached"]);
  held.answer(status(204));
  await settle();
  held.answer(status(205));
  assert.equal((await answer).status, 205);
});

test("the health of a callee has its endpoints, and the last failure until a call succeeds", async () => {
  const seen: unknown[] = [];
  await using asking = await mountCalling(async (call) => {
    const { known, usable, lastFailure } = call.health();
    seen.push([known, usable, lastFailure?.code]);
    return await call({}, TERMS);
  }, { authz: [unreachable(), ok()] });
  for (let i = 0; i < 3; i++) await asking.request();
  assert.deepEqual(seen, [[1, 1, undefined], [1, 1, "endpoint_refused"], [1, 1, undefined]]);
});
