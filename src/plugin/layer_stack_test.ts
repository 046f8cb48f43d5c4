import assert from "node:assert/strict";
import { test } from "node:test";
import type { RequestHead } from "../http/mod.ts";
import type { Endpoint, Exchange, HttpResponse, Phase, Plugin } from "./api.ts";
import { failed, PluginRequest, PluginResponse } from "./messages.ts";
import { type ForwardedRequest, type Layer, LayerStack } from "./layer_stack.ts";

const HEAD: RequestHead = {
  method: "GET",
  scheme: "http",
  authority: "db",
  path: "/",
  upgrade: "",
  length: 0,
  saysLength: false,
  expectsContinue: false,
  version: "HTTP/1.1",
  fields: [],
};
const ROUTE = { name: "default", service: "db", match: null };

function responseOf(status: number): PluginResponse {
  return new PluginResponse({ status, length: 0, fields: [] }, null, {
    endpoint: { address: "10.0.0.9:80" },
    failure: null,
  });
}

type Hook = NonNullable<Plugin["onRequest"]>;

interface Rig {
  readonly stack: LayerStack;
  readonly sent: { readonly request: PluginRequest; readonly to: ForwardedRequest }[];
  readonly faults: string[];
  /** Layers that succeeded. */
  readonly passes: string[];
  /** Times for answers that begin, and what ends each. */
  readonly limits: { readonly timeoutMs: number; isCancelled: boolean; expire(): void }[];
  /** Statuses that the caller got. */
  readonly answers: PluginResponse[];
}

function run(
  layers: readonly (readonly [phase: Phase, hook: Hook, mayBeSkipped?: boolean])[],
  answers: readonly (PluginResponse | undefined)[] = [responseOf(200)],
): Rig {
  const sent: Rig["sent"] = [];
  const faults: string[] = [];
  const passes: string[] = [];
  const limits: Rig["limits"] = [];
  const all = layers.map(([phase, onRequest, mayBeSkipped = false], index): Layer => ({
    name: `p${index}`,
    phase,
    plugin: { onRequest },
    routeConfig: index,
    mayBeSkipped,
    health: {
      isBroken: false,
      whyBroken: "",
      mayBeCalled: () => true,
      failed: (what) => void faults.push(`p${index}: ${what}`),
      passed: () => void passes.push(`p${index}`),
      enter: () => 0,
      leave() {},
      resumed() {},
      begin: () => undefined,
      end() {},
      nowMs: () => 0,
    },
  }));
  const stack = new LayerStack({
    exchange: {} as Exchange,
    guards: all.filter(({ phase }) => phase === "guard"),
    planOf: ({ path }) => {
      const layers = all.filter(({ phase }) => phase !== "guard");
      return path === "/nowhere" ? undefined : { route: ROUTE, resolver: undefined, layers };
    },
    sendOn(request, to) {
      const answer = answers[sent.push({ request, to }) - 1];
      if (answer) to.outcome.settle(answer);
    },
    limit(outcome, timeoutMs) {
      const expire = () => outcome.settle(LATE);
      const limit = { timeoutMs, isCancelled: false, expire };
      limits.push(limit);
      return { cancel: () => void (limit.isCancelled = true) };
    },
    idleTimeoutMs: undefined,
  });
  const got: PluginResponse[] = [];
  stack.run(new PluginRequest(HEAD, null)).listen({ settle: (answer) => got.push(answer) });
  return { stack, sent, faults, passes, limits, answers: got };
}

const LATE = failed({
  code: "response_timed_out",
  reason: "late",
  wasSent: true,
  endpoint: null,
});
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test("LayerStack of synchronous layers answers in the same turn", () => {
  const { answers, sent } = run([
    ["guard", (_, next) => next()],
    ["filter", ({ request }, next) =>
      next({
        request: request.with({ headers: { set: { a: "1" } } }),
        response: (response) => response.with({ status: 201 }),
      })],
    ["attempt", (_, next) => next({ response: (response) => response.with({ status: 202 }) })],
  ]);
  assert.deepEqual(answers.map(({ status }) => status), [201]);
  assert.deepEqual(sent.map(({ request }) => [...request.headers]), [[["a", "1"]]]);
});

test("LayerStack gives a guard no route, and other layers their route", () => {
  const seen: unknown[] = [];
  const look: Hook = ({ route, routeConfig }, next) => {
    seen.push([route?.name, routeConfig]);
    return next();
  };
  run([["guard", look], ["filter", look]]);
  assert.deepEqual(seen, [[undefined, 0], ["default", 1]]);
});

test("LayerStack answers 404 if no route matches, and its guards see the response", () => {
  const seen: HttpResponse[] = [];
  const { answers, sent } = run([
    ["guard", ({ request }, next) =>
      next({
        request: request.with({ path: "/nowhere" }),
        response: (response) => {
          seen.push(response);
          return response;
        },
      })],
  ]);
  assert.deepEqual([answers[0]?.status, answers[0]?.failure?.code], [404, "route_not_found"]);
  assert.equal(seen.length, 1);
  assert.equal(sent.length, 0);
});

test("LayerStack lets only the retry phase send again, and avoids the endpoints that it names", async () => {
  const avoid: Endpoint = { address: "10.0.0.9:80" };
  const twice: Hook = async (_, next) => {
    await next();
    return next({ avoid: [avoid] });
  };
  const retry = run([["retry", twice]], [responseOf(503), responseOf(200)]);
  await turn();
  assert.deepEqual(retry.answers.map(({ status }) => status), [200]);
  assert.deepEqual(retry.sent.map(({ to }) => to.avoid), [[], [avoid]]);
  const filter = run([["filter", twice]], [responseOf(503), responseOf(200)]);
  await turn();
  assert.deepEqual(filter.answers.map(({ failure }) => failure?.code), ["plugin_failed"]);
  assert.deepEqual(filter.faults, ["p0: next was called twice"]);
});

test("LayerStack applies timeoutMs until the inner response arrives", async () => {
  const slow: Hook = (_, next) => next({ timeoutMs: 5 });
  const { limits, answers, sent } = run([["filter", slow]], []);
  assert.deepEqual(limits.map(({ timeoutMs }) => timeoutMs), [5]);
  limits[0]?.expire();
  assert.deepEqual(answers.map(({ failure }) => failure?.code), ["response_timed_out"]);
  sent[0]?.to.outcome.settle(responseOf(200));
  await turn();
  assert.equal(answers.length, 1);
  const inTime = run([["filter", slow]]);
  assert.deepEqual(inTime.limits.map(({ isCancelled }) => isCancelled), [true]);
  assert.deepEqual(inTime.answers.map(({ status }) => status), [200]);
});

test("LayerStack does not let a layer retry after the timeout of an outer layer", async () => {
  let again: (() => unknown) | undefined;
  const { limits, sent, faults } = run([
    ["filter", (_, next) => next({ timeoutMs: 5, response: () => new Promise(() => {}) })],
    ["retry", (_, next) => {
      again = next;
      return next({ response: () => new Promise(() => {}) });
    }],
  ], [responseOf(503)]);
  limits[0]?.expire();
  await turn();
  assert.throws(() => again?.(), /next was called after an answer was given/);
  assert.deepEqual([sent.length, faults], [1, []]);
});

test("LayerStack does not let a layer call next after it answered", async () => {
  let late: (() => unknown) | undefined;
  const { answers, sent } = run([["guard", (_, next) => {
    late = next;
    return responseOf(418);
  }]]);
  await turn();
  assert.throws(() => late?.(), /next was called after an answer was given/);
  assert.deepEqual([answers.map(({ status }) => status), sent.length], [[418], 0]);
});

for (
  const [what, hook, sentTimes] of [
    ["before it went on", () => {
      throw new Error("no");
    }, 1],
    ["after it went on", (_, next) => {
      next();
      throw new Error("no");
    }, 1],
    ["on the way out", (_, next) =>
      next({
        response: () => {
          throw new Error("no");
        },
      }), 1],
    ["with a promise", () => Promise.reject(new Error("no")), 1],
  ] as readonly (readonly [string, Hook, number])[]
) {
  test(`LayerStack skips a layer that fails ${what}`, async () => {
    const { answers, faults, sent } = run([["filter", hook, true]]);
    await turn();
    assert.deepEqual(answers.map(({ status }) => status), [200]);
    assert.deepEqual([faults, sent.length], [["p0: no"], sentTimes]);
  });
}

test("LayerStack records success of each layer after it handled the response", async () => {
  const good = run([
    ["guard", (_, next) => next()],
    ["filter", async (_, next) => await next()],
    ["attempt", (_, next) => next({ response: (response) => response })],
  ]);
  await turn();
  assert.deepEqual(good.passes.sort(), ["p0", "p1", "p2"]);
  const bad: Hook = (_, next) =>
    next({
      response: () => {
        throw new Error("no");
      },
    });
  const late = run([
    ["filter", bad, true],
    ["filter", async (args, next) => await bad(args, next), true],
  ]);
  await turn();
  assert.deepEqual([late.faults.sort(), late.passes], [["p0: no", "p1: no"], []]);
});

test("LayerStack rejects requests and responses that the proxy did not make", async () => {
  for (
    const hook of [
      (_, next) => next({ request: { method: "GET" } as never }),
      () => ({ status: 200 }) as never,
      () => Promise.resolve(1 as never),
      () => 1 as never,
    ] as Hook[]
  ) {
    const { answers } = run([["filter", hook]]);
    await turn();
    assert.deepEqual(answers.map(({ failure }) => failure?.code), ["plugin_failed"]);
  }
});

test("LayerStack.holder is the layer that the exchange waits for", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { stack, sent } = run([
    ["guard", (_, next) => next()],
    ["filter", async (_, next) => {
      const response = await next();
      await promise;
      return response;
    }],
  ], []);
  const holder = () => stack.holder?.name;
  assert.equal(holder(), undefined);
  sent[0]?.to.outcome.settle(failed({
    code: "no_endpoint",
    reason: "",
    wasSent: false,
    endpoint: null,
  }));
  assert.equal(holder(), "p1");
  resolve();
  await turn();
});
