import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnyPlugin, LoadPlugin } from "../../src/plugin/mod.ts";
import type { HttpRequest, Plugin, PluginDefinition, Schema } from "../../src/plugin/api.ts";
import type { HttpRules, PluginUse } from "../../src/snapshot/mod.ts";
import { answerOf, RawClient, startRawOrigin, statusOf, valuesOf } from "../kit/wire/http_raw.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import { httpRules } from "../kit/engine/snapshots.ts";

const ANYTHING: Schema = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
};

type OnRequest = NonNullable<Plugin["onRequest"]>;

function pluginOf(
  name: string,
  onRequest: OnRequest,
  phase: PluginDefinition["phase"] = "filter",
): AnyPlugin {
  return { name, api: 1, phase, config: ANYTHING, create: () => ({ onRequest }) };
}

interface Rig extends AsyncDisposable {
  readonly pair: PathPair;
  readonly heads: string[];
  ask(text: string): Promise<{ status: number; head: string; body: string }>;
}

/** The plugins stand on the inbound side. */
async function rig(
  plugins: readonly AnyPlugin[],
  options: {
    readonly protocol?: HttpRules["protocol"];
    readonly onFailure?: PluginUse["onFailure"];
    readonly answers?: (body: string) => string;
  } = {},
): Promise<Rig> {
  const { onFailure = "refuse", answers = (body) => answerOf(`got ${body}`) } = options;
  const heads: string[] = [];
  const origin = await startRawOrigin(({ head, body }) => {
    heads.push(head);
    return answers(body);
  });
  const loadPlugin: LoadPlugin = (name) =>
    Promise.resolve(plugins.find((plugin) => plugin.name === name));
  const uses = plugins.map(({ name }, index) => ({
    plugin: name,
    config: {},
    onFailure,
    at: `inbound.plugins[${index}]`,
  }));
  const pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http"), plugins: uses },
    upstream: { http: httpRules("http") },
    db: { loadPlugin },
  });
  const client = await RawClient.open({ host: "127.0.0.1", port: pair.port });
  return {
    pair,
    heads,
    async ask(text) {
      client.send(text);
      const answer = await client.response();
      return { status: statusOf(answer), head: answer.head, body: answer.body };
    },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await pair[Symbol.asyncDispose]();
      await origin[Symbol.asyncDispose]();
    },
  };
}

const GET = "GET /a HTTP/1.1\r\nHost: db\r\n\r\n";
const POST = "POST /a HTTP/1.1\r\nHost: db\r\nContent-Length: 3\r\n\r\nabc";

test("a plugin changes the request to the application and the response to the caller", async () => {
  await using it = await rig([
    pluginOf("marks", ({ request }, next) =>
      next({
        request: request.with({ path: "/b?c", headers: { set: { "X-In": "1" } } }),
        response: (response) => response.with({ headers: { add: { "x-out": "2" } } }),
      })),
  ]);
  const answer = await it.ask(POST);
  assert.equal(answer.status, 200);
  assert.equal(answer.body, "got abc");
  assert.match(it.heads[0] ?? "", /^POST \/b\?c HTTP\/1\.1/);
  assert.match(it.heads[0] ?? "", /x-in: 1/i);
  assert.match(answer.head, /x-out: 2/);
});

test("layers wrap each other in the order of their phases", async () => {
  const seen: string[] = [];
  const layer = (name: string, phase: PluginDefinition["phase"]) =>
    pluginOf(name, async (_, next) => {
      seen.push(`${name} in`);
      const response = await next();
      seen.push(`${name} out`);
      return response;
    }, phase);
  await using it = await rig([
    layer("last", "attempt"),
    layer("first", "guard"),
    layer("second", "filter"),
    layer("third", "filter"),
  ]);
  assert.equal((await it.ask(POST)).body, "got abc");
  assert.deepEqual(seen, [
    "first in",
    "second in",
    "third in",
    "last in",
    "last out",
    "third out",
    "second out",
    "first out",
  ]);
});

test("a retry sends a kept body again, to its end", async () => {
  let count = 0;
  await using it = await rig([
    pluginOf("again", async ({ request }, next) => {
      request.body?.keep(100);
      let response = await next();
      for (let i = 0; i < 2 && response.status === 503; i++) response = await next();
      return response;
    }, "retry"),
  ], {
    answers: (body) =>
      ++count < 3
        ? "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno"
        : answerOf(`${count}: ${body}`),
  });
  assert.equal((await it.ask(POST)).body, "3: abc");
  count = 3;
  assert.equal((await it.ask(POST)).body, "4: abc");
});

test("a plugin replaces the bodies of request and response", async () => {
  const upper = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, out) =>
      out.enqueue(new TextEncoder().encode(new TextDecoder().decode(chunk).toUpperCase())),
  });
  await using it = await rig([
    pluginOf("rewrites", async ({ request }, next) => {
      const body = await request.body?.bytes(10);
      const text = `<${new TextDecoder().decode(body)}>`;
      const response = await next({ request: request.with({ body: text }) });
      return response.with({ body: response.body?.stream().pipeThrough(upper) ?? null });
    }),
  ]);
  assert.equal((await it.ask(POST)).body, "GOT <ABC>");
});

for (
  const [what, onRequest, reason] of [
    ["throws", () => {
      throw new Error("oh no");
    }, "oh no"],
    ["rejects", () => Promise.reject(new Error("oh no")), "oh no"],
    ["calls next twice", async (_, next) => {
      await next();
      return next();
    }, "next was called twice"],
    ["gives nothing back", () => undefined as never, "the hook gave no response back"],
    [
      "writes a header that is not its to write",
      ({ request }: { request: HttpRequest }, next) =>
        next({ request: request.with({ headers: { set: { "content-length": "1" } } }) }),
      'header "content-length": no name that a plugin may write',
    ],
    [
      "writes a header that ends early",
      ({ request }: { request: HttpRequest }, next) =>
        next({ request: request.with({ headers: { set: { a: "b\r\nc: d" } } }) }),
      'header "a": its value has a character that no header has',
    ],
    ["hands an opened body on", async ({ request }, next) => {
      await request.body?.bytes(10);
      return next();
    }, "the body was opened, and handed on all the same"],
  ] as readonly (readonly [string, OnRequest, string])[]
) {
  test(`a plugin that ${what} is named, and others are served`, async () => {
    let isBad = true;
    await using it = await rig([
      pluginOf("bad", (args, next) => isBad ? onRequest(args, next) : next()),
    ]);
    const answer = await it.ask(POST);
    assert.equal(answer.status, 500);
    const line = await it.pair.line(({ message, fields }) =>
      message === "plugin failed" ||
      (message === "request failed" && fields.code === "plugin_failed")
    );
    assert.match(
      JSON.stringify(line.fields),
      new RegExp(JSON.stringify(reason).slice(1, -1).replaceAll("\\", "\\\\")),
    );
    isBad = false;
    assert.equal((await it.ask(POST)).body, "got abc");
  });
}

test("a plugin with onFailure skip is skipped where it fails", async () => {
  await using it = await rig([
    pluginOf("bad", () => {
      throw new Error("oh no");
    }),
  ], { onFailure: "skip" });
  assert.equal((await it.ask(POST)).body, "got abc");
});

test("a plugin that answers itself reaches no endpoint", async () => {
  await using it = await rig([
    {
      ...pluginOf("teapot", () => assert.fail()),
      create: (host) => ({ onRequest: () => host.reply(418, { "x-by": "me" }, "short and stout") }),
    },
  ]);
  const answer = await it.ask(GET);
  assert.deepEqual([answer.status, answer.body, it.heads.length], [418, "short and stout", 0]);
  assert.match(answer.head, /x-by: me/);
});

test("an unreachable endpoint is a response with a failure", async () => {
  const failures: unknown[] = [];
  await using it = await rig([
    pluginOf("looks", async (_, next) => {
      const response = await next();
      failures.push(response.failure?.code, response.failure?.wasSent);
      return response.with({ headers: { set: { "x-seen": "1" } } });
    }),
  ], { answers: () => "garbage\r\n\r\n" });
  const answer = await it.ask(GET);
  assert.equal(answer.status, 502);
  assert.match(answer.head, /x-seen: 1/);
  assert.deepEqual(failures, ["response_invalid", true]);
  assert.ok(valuesOf);
});
