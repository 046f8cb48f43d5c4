import assert from "node:assert/strict";
import { test } from "node:test";
import { formatJson } from "../../../base/mod.ts";
import { mount, settle, status } from "../../../kit/mod.ts";
import type { Plugin, PluginDefinition } from "../../../plugin/mod.ts";
import { readLogLine } from "./dev_plugin.ts";
import { watched } from "./watched_plugin.ts";

const definition = (onRequest: NonNullable<Plugin["onRequest"]>): PluginDefinition => ({
  name: "odd",
  api: 1,
  phase: "filter",
  config: { "~standard": { version: 1, validate: (value) => ({ value }) } },
  create: () => ({ onRequest }),
});

async function logged(onRequest: NonNullable<Plugin["onRequest"]>): Promise<readonly string[]> {
  await using it = await mount(watched(definition(onRequest)), {
    upstream: [status(200, { server: "app" }, "text")],
  });
  await it.request({ path: "/a", headers: { "x-a": "1", "x-b": "2" }, body: "asked" });
  await settle();
  return it.logs.map((line) => readLogLine(formatJson(line))?.text ?? "").filter((text) =>
    text !== ""
  );
}

const HEAD = "GET /a -> 200 (0 ms, asked by web)\n";
for (
  const [name, onRequest, wanted] of [
    ["nothing", (_, next) => next(), [`${HEAD}    unchanged\n`]],
    [
      "a change of the request",
      ({ request }, next) => {
        const headers = { remove: ["x-a"], set: { "x-b": "3", "x-c": "4" } };
        return next({ request: request.with({ path: "/b", headers, body: null }) });
      },
      [
        `${HEAD}    request   ~ path: /a -> /b
              - x-a: 1
              ~ x-b: 2 -> 3
              + x-c: 4
              - body
`,
      ],
    ],
    [
      "a change of the response, awaited",
      async (_, next) => {
        const response = await next();
        return response.with({ status: 201, headers: { remove: ["server"] }, body: "else" });
      },
      [
        `GET /a -> 201 (0 ms, asked by web)
    response  ~ status: 200 -> 201
              - server: app
              ~ body: 4 bytes
`,
      ],
    ],
    [
      "a change of the response, mapped",
      (_, next) =>
        next({ response: (response) => response.with({ headers: { add: { a: "b" } } }) }),
      [`${HEAD}    response  + a: b\n`],
    ],
    [
      "a failure",
      () => {
        throw new Error("odd");
      },
      [
        "failed in onRequest: odd\n",
        "GET /a -> 500 (0 ms, asked by web)\n    ended with plugin_failed\n",
      ],
    ],
  ] as readonly (readonly [string, NonNullable<Plugin["onRequest"]>, readonly string[]])[]
) test(`watched() logs ${name}`, async () => assert.deepEqual(await logged(onRequest), wanted));

test("watched() logs a response of the plugin, and a refusal", async () => {
  let host: Parameters<PluginDefinition["create"]>[0] | undefined;
  const plugin: PluginDefinition = {
    ...definition(() => {
      throw new Error("not this one");
    }),
    create: (given) => {
      host = given;
      const answer = ({ request }: { readonly request: { readonly path: string } }) =>
        request.path === "/no" ? given.refuse("denied", "no") : given.reply(418);
      return { onRequest: answer };
    },
  };
  await using it = await mount(watched(plugin), { source: null });
  await it.request();
  await it.request({ path: "/no" });
  await settle();
  assert.ok(host);
  const lines = it.logs.map((line) => readLogLine(formatJson(line)));
  assert.deepEqual(lines.map((line) => line?.kind), ["loaded", "request", "request"]);
  const answered = "    answered by the plugin; not sent to the upstream\n";
  assert.equal(lines[1]?.text, `GET / -> 418 (0 ms)\n${answered}`);
  assert.equal(lines[2]?.text, `GET /no -> 403 (0 ms)\n${answered}    ended with plugin_denied\n`);
});

test("watched() returns a value that is no plugin, or a plugin without onRequest, as it is", async () => {
  const nothing = undefined as unknown as PluginDefinition;
  assert.equal(watched(nothing), nothing);
  const quiet = { close() {} };
  const made = await watched({ ...definition(() => quiet as never), create: () => quiet })
    .create({ log: { info() {} }, worker: { index: 0, count: 1 } } as never, {});
  assert.equal(made, quiet);
});

for (
  const [name, line, wanted] of [
    ["a plugin's own line", {
      level: "info",
      message: "seen",
      plugin: "odd",
      listener: "inbound",
      user: "a",
    }, { kind: "line", text: 'info: seen user="a"\n' }],
    ["a fault of a file", {
      level: "error",
      message: "snapshot refused",
      reason: "plugins[0].use names a plugin that cannot be loaded:\n    a.ts:1:2: no\n      x",
    }, { kind: "refused", text: "    a.ts:1:2: no\n    x\n" }],
    ["a failure with its place", {
      level: "warn",
      message: "plugin failed",
      plugin: "odd",
      hook: "response",
      reason: "no (/a.ts:1:2: throw no();)",
    }, { kind: "fault", text: "failed in response: no\n    at /a.ts:1:2\n       throw no();\n" }],
    ["a line that is not the plugin's", { level: "info", message: "ready" }, undefined],
  ] as const
) {
  test(`readLogLine() of ${name}`, () => {
    assert.deepEqual(readLogLine(JSON.stringify({ time: "now", ...line })), wanted);
  });
}
