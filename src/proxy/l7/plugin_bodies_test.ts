import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certificates.ts";
import { settle } from "../../../test/kit/clock.ts";
import { askThrough, callAs } from "../../../test/kit/memory_caller.ts";
import { startMemoryPath } from "../../../test/kit/memory_path.ts";
import { httpRules, intention, snapshotOf, withInbound } from "../../../test/kit/snapshots.ts";
import type { Plugin } from "../../plugin/api.ts";
import type { AnyPlugin } from "../../plugin/mod.ts";

const CA = createAuthority();
const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;
const HEAD = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
const GET = "GET / HTTP/1.1\r\nHost: db\r\n\r\n";

async function start(onRequest: NonNullable<Plugin["onRequest"]>) {
  const base = snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  });
  const plugins = [
    { plugin: "own", config: {}, onFailure: "refuse", at: "inbound.plugins[0]" },
  ] as const;
  const definition: AnyPlugin = {
    name: "own",
    api: 1,
    phase: "filter",
    config: ANYTHING,
    create: () => ({ onRequest }),
  };
  const path = await startMemoryPath(
    withInbound(base, { http: httpRules("http", { streamIdleTimeoutMs: 0 }), plugins }),
    { loadPlugin: () => Promise.resolve(definition) },
  );
  const failures = () => path.path.view({ connections: false }).plugins[0]?.failures;
  const caller = callAs("web", path, CA);
  return {
    ...{ path, caller, failures },
    async [Symbol.asyncDispose]() {
      caller.connection.reset();
      await settle();
      await path[Symbol.asyncDispose]();
    },
  };
}

test("an endpoint that breaks off while a plugin reads is at fault, and not the plugin", async () => {
  await using it = await start(async (_, next) => {
    const response = await next();
    return response.with({ body: await response.body?.bytes(100) ?? null });
  });
  const app = await askThrough(it.caller, GET, it.path);
  app.send(`${HEAD}half`);
  app.connection.reset();
  await settle();
  assert.match(it.caller.received, /^HTTP\/1.1 503 /);
  const line = it.path.lines.find(({ message }) => message === "request failed");
  assert.equal(line?.fields.code, "endpoint_reset");
  assert.equal(it.failures(), 0);
});

test("an endpoint that breaks off what passes through a plugin's stream is at fault", async () => {
  await using it = await start((_, next) =>
    next({
      response: (response) => {
        const body = response.body?.stream().pipeThrough(new TransformStream()) ?? null;
        return response.with({ body });
      },
    })
  );
  const app = await askThrough(it.caller, GET, it.path);
  app.send(`${HEAD}half`);
  await settle();
  app.connection.reset();
  await settle();
  assert.match(it.caller.received, /^HTTP\/1.1 200 [^]*half/);
  const line = it.path.lines.find(({ message }) => message === "request failed");
  assert.equal(line?.fields.code, "endpoint_reset");
  assert.equal(it.failures(), 0);
});

test("a response that a plugin opened and did not read to its end is given up", async () => {
  await using it = await start(async (_, next) => {
    const response = await next();
    const reader = response.body?.stream().getReader();
    await reader?.read();
    return response.with({ body: "enough" });
  });
  const app = await askThrough(it.caller, GET, it.path);
  app.send(`${HEAD}half`);
  await settle();
  assert.match(it.caller.received, /enough$/);
  assert.equal(app.over, "reset");
  assert.equal(it.failures(), 0);
});
