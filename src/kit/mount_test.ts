import assert from "node:assert/strict";
import { test } from "node:test";
import type { Plugin, PluginDefinition, Schema } from "../plugin/api.ts";
import { hold, mount, ok, reset, settle, status, unreachable } from "./mod.ts";

const ANYTHING: Schema = { "~standard": { version: 1, validate: (value) => ({ value }) } };

function plugin(
  create: PluginDefinition["create"],
  phase: PluginDefinition["phase"] = "filter",
): PluginDefinition {
  return { name: "own", api: 1, phase, config: ANYTHING, create };
}

function hook(onRequest: NonNullable<Plugin["onRequest"]>, phase?: PluginDefinition["phase"]) {
  return plugin(() => ({ onRequest }), phase);
}

test("mount() carries a request to an endpoint and the response back, with bodies", async () => {
  await using own = await mount(hook((_, next) => next()), {
    upstream: [status(201, { "X-A": "b" }, "one", "two")],
  });
  const answer = await own.request({
    method: "POST",
    path: "/a?b",
    headers: { via: ["x", "y"] },
    body: ["three", "four"],
  });
  assert.deepEqual([answer.status, answer.headers.get("x-a"), answer.body, answer.failure], [
    201,
    "b",
    "onetwo",
    null,
  ]);
  const [seen] = own.upstream.requests;
  assert.deepEqual([seen?.method, seen?.path, seen?.authority, seen?.body], [
    "POST",
    "/a?b",
    "db",
    "threefour",
  ]);
  assert.deepEqual(seen?.headers("via"), ["x", "y"]);
});

test("mount() takes one step for each attempt, and repeats the last", async () => {
  const again = hook(async ({ request }, next) => {
    request.body?.keep(100);
    let response = await next();
    while (response.failure || response.status >= 500) response = await next();
    return response;
  }, "retry");
  await using own = await mount(again, {
    upstream: [unreachable(), reset(), status(503, {}, "no"), ({ body }) => ok(`got ${body}`)],
  });
  assert.equal((await own.request({ method: "PUT", body: "abc" })).body, "got abc");
  assert.deepEqual(own.upstream.requests.map(({ endpoint, body }) => [endpoint, body]), [
    ["10.0.0.2:8080", "abc"],
    ["10.0.0.3:8080", "abc"],
    ["10.0.0.4:8080", "abc"],
  ]);
  assert.equal((await own.request({ method: "PUT", body: "d" })).body, "got d");
});

test("mount() reports an attempt without a response", async () => {
  await using own = await mount(hook((_, next) => next()), { upstream: [unreachable(), reset()] });
  const failures = [(await own.request()).failure, (await own.request()).failure];
  assert.deepEqual(failures.map((failure) => failure?.code), [
    "endpoint_refused",
    "endpoint_reset",
  ]);
});

test("mount() moves time only by its clock, and fails a plugin that holds a request for ten seconds", async () => {
  const slow = hold();
  await using own = await mount(
    plugin((host) => ({
      async onRequest({ request }, next) {
        if (request.path === "/never") return await new Promise(() => {});
        await host.clock.sleep(5_000);
        return next();
      },
    })),
    { upstream: [slow] },
  );
  const late = own.request();
  await own.clock.advance(4_999);
  assert.equal(own.upstream.requests.length, 0);
  await own.clock.advance(1);
  assert.equal(own.upstream.requests.length, 1);
  await own.clock.advance(60_000);
  slow.answer(ok("late"));
  assert.equal((await late).body, "late");
  const never = own.request({ path: "/never" });
  await own.clock.advance(12_000);
  const { status: code, failure } = await never;
  assert.deepEqual([code, failure?.code], [500, "plugin_failed"]);
  assert.match(failure?.reason ?? "", /^own: no answer after 10000 ms/);
  assert.equal(own.clock.pending, 0);
});

test("mount() signals a caller that leaves to plugin and endpoint", async () => {
  const codes: unknown[] = [];
  await using own = await mount(
    hook(({ exchange }, next) => {
      exchange.signal.addEventListener("abort", () => codes.push("aborted"));
      exchange.onEnd(({ code }) => codes.push(code));
      return next();
    }),
    { upstream: [hold()] },
  );
  const leaving = new AbortController();
  const pending = own.request({ signal: leaving.signal });
  await settle();
  leaving.abort();
  assert.equal((await pending).status, 0);
  assert.deepEqual(codes, ["aborted", "downstream_reset"]);
  assert.equal(own.upstream.requests[0]?.isGivenUp, true);
});

test("mount() breaks the response off if its body breaks", async () => {
  await using own = await mount(hook(async (_, next) => {
    const response = await next();
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new Uint8Array([97])),
      pull: (controller) => controller.error(new Error("no more")),
    });
    return response.with({ body });
  }));
  const answer = await own.request();
  assert.deepEqual([answer.status, answer.failure?.code], [200, "plugin_failed"]);
});

test("mount() shows metrics and log lines, and returns the proxy's refusal", async () => {
  await using own = await mount(plugin((host, limit) => {
    const refused = host.stats.counter("refused", { help: "", labels: { by: ["a", "b"] } });
    return {
      onRequest({ exchange }, next) {
        const who = exchange.connection.source?.service ?? "nobody";
        if (who === limit) return next();
        refused.add(1, { by: "a" });
        host.log.warn("turned away", { who });
        return host.refuse("overloaded", "too many");
      },
    };
  }));
  const answer = await own.request();
  assert.deepEqual([answer.status, answer.failure], [503, {
    code: "limit_reached",
    reason: "too many",
  }]);
  assert.deepEqual([own.stat("refused"), own.stat("refused", { by: "b" })], [1, 0]);
  assert.throws(() => own.stat("other"), /there is no metric other/);
  assert.deepEqual(own.logs.map(({ message, fields }) => [message, fields.who]), [
    ["turned away", "web"],
  ]);
  await own.reload("web");
  assert.equal((await own.request()).status, 200);
});

test("mount() calls onConnection for a connection", async () => {
  const only = plugin((host) => ({
    onConnection: ({ source }) =>
      source?.service === "web" ? undefined : host.refuse("denied", "not web"),
  }));
  await using web = await mount(only);
  assert.deepEqual(await web.connect(), { refusal: null });
  await using nobody = await mount(only, { source: null });
  assert.equal((await nobody.connect()).refusal?.reason, "own: not web");
});

test("mount() keeps shared state over a reload, and closes the old generation after its last request", async () => {
  const log: string[] = [];
  const slow = hold();
  await using own = await mount(
    plugin((host, config) => {
      const shared = host.shared("count", () => ({ count: 0 }));
      return {
        onRequest: (_, next) =>
          next({ response: (response) => response.with({ status: 200 + ++shared.count }) }),
        close: () => void log.push(`close ${config}`),
      };
    }),
    { config: "first", upstream: [slow] },
  );
  const pending = own.request();
  await own.reload("second");
  assert.deepEqual(log, []);
  slow.answer(ok());
  assert.equal((await pending).status, 201);
  await settle();
  assert.deepEqual(log, ["close first"]);
  const more = own.request();
  await settle();
  slow.answer(ok());
  assert.equal((await more).status, 202);
});

test("mount() gives a plugin the files and variables of the test", async () => {
  const files = { "/etc/list": "web" };
  const config = plugin(async (host) => {
    const list = await host.file("/etc/list");
    const key = await host.secret({ env: "KEY" });
    return {
      onRequest: ({ request }, next) => {
        const headers = { set: { list: list.value, key: key.read() } };
        return next({ request: request.with({ headers }) });
      },
    };
  });
  await assert.rejects(mount(config, { files }), /the secret KEY: it is not set/);
  await using own = await mount(config, { files, env: { KEY: "k" } });
  await own.request();
  own.write("/etc/list", "web, shop");
  await own.clock.advance(2_000);
  await own.request();
  assert.deepEqual(own.upstream.requests.map((seen) => [seen.header("list"), seen.header("key")]), [
    ["web", "k"],
    ["web, shop", "k"],
  ]);
});

test("mount() shows the spans of a plugin, at most 16 of a request", async () => {
  const parents: string[] = [];
  await using own = await mount(plugin((host) => ({
    async onRequest({ exchange }, next) {
      const span = exchange.span("lookup");
      parents.push(span.traceparent);
      await host.clock.sleep(30);
      span.end({ hits: 2, table: "a".repeat(300) });
      span.end({ hits: 3 });
      for (let i = 0; i < 20; i++) exchange.span(`more ${i}`);
      parents.push(exchange.span("none").traceparent);
      return next();
    },
  })));
  const answer = own.request();
  await own.clock.advance(30);
  await answer;
  const [first, ...others] = own.spans;
  assert.deepEqual(first, {
    name: "lookup",
    durationMs: 30,
    attributes: { hits: 2, table: "a".repeat(256) },
  });
  assert.deepEqual([others.length, others[0]?.name], [15, "more 0"]);
  assert.match(parents[0] ?? "", /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  assert.equal(parents[1], "");
});

const V2 = { target: { subset: "v2" } };
const TARGETS = { v2: [status(202)], "other/v2": [status(203)], spare: [status(204)] };

for (
  const [what, phase, onRequest, want] of [
    ["that a filter chooses", "filter", (_, next) => next(V2), "202"],
    ["that a route plugin chooses", "route", (_, next) => next(V2), "202"],
    [
      "by several names",
      "filter",
      (_, next) => next({ target: { service: "other", subset: "v2" } }),
      "203",
    ],
    ["of the chain where none is chosen", "filter", (_, next) => next({}), "200"],
    [
      "that a retry chooses for one attempt",
      "retry",
      async (_, next) => `${(await next(V2)).status}` === "202" ? next() : next(V2),
      "200",
    ],
    [
      "that is not there",
      "filter",
      (_, next) => next({ target: { subset: "v3" } }),
      '503 target_not_found own chose {"subset":"v3"}, which is not there; the test has v2, other/v2, spare',
    ],
    [
      "of a guard",
      "guard",
      (_, next) => next(V2),
      /^500 plugin_failed .*phase guard cannot choose/,
    ],
    [
      "of an attempt",
      "attempt",
      (_, next) => next(V2),
      /^500 plugin_failed .*phase attempt cannot/,
    ],
    [
      "without a name",
      "filter",
      (_, next) => next({ target: {} }),
      /^500 plugin_failed .*the target has no name, or more than upstream, service, subset/,
    ],
  ] as readonly (readonly [
    string,
    PluginDefinition["phase"],
    NonNullable<Plugin["onRequest"]>,
    string | RegExp,
  ])[]
) {
  test(`mount() sends a request to the target ${what}`, async () => {
    await using own = await mount(hook(onRequest, phase), { targets: TARGETS });
    const { status: code, failure } = await own.request();
    const text = failure ? `${code} ${failure.code} ${failure.reason}` : String(code);
    if (typeof want === "string") assert.equal(text, want);
    else assert.match(text, want);
  });
}

test("mount() skips a plugin that chose a target in the wrong phase, and goes where the chain leads", async () => {
  const wrong = hook((_, next) => next(V2), "attempt");
  await using own = await mount(wrong, { targets: TARGETS, onFailure: "skip" });
  assert.equal((await own.request()).status, 200);
});

for (
  const [what, definition, reason] of [
    [
      "a module that is not a plugin",
      { name: "own", api: 2 },
      /the default export is for version 2/,
    ],
    [
      "a create() that throws",
      plugin(() => {
        throw new Error("no such file");
      }),
      /plugins\[0\]: create\(\): no such file/,
    ],
  ] as const
) {
  test(`mount() refuses ${what}`, async () => {
    await assert.rejects(mount(definition), reason);
  });
}

const throws = (): never => {
  throw new Error("no");
};
for (
  const [where, onRequest] of [
    ["onRequest", throws],
    ["response", (_, next) => next({ response: throws })],
  ] as readonly (readonly [string, NonNullable<Plugin["onRequest"]>])[]
) {
  test(`mount() reports the route and the configuration path of a failed ${where}`, async () => {
    await using own = await mount(hook(onRequest));
    await own.request();
    const [{ message, fields } = {}] = own.logs;
    assert.equal(message, "plugin failed");
    const place = { hook: where, route: "default", at: "plugins[0]" };
    assert.deepEqual(fields, { plugin: "own", listener: "inbound", ...place, reason: "no" });
  });
}
