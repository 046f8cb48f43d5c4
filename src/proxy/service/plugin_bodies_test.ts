import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { callAs, sendThrough } from "../../../test/kit/engine/memory_caller.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Plugin } from "../../plugin/api.ts";
import type { AnyPlugin } from "../../plugin/mod.ts";

const CA = createAuthority();
const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;
const HEAD = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
const GET = "GET / HTTP/1.1\r\nHost: db\r\n\r\n";

async function start(onRequest: NonNullable<Plugin["onRequest"]>, heldBytes?: number) {
  const base = snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow"), intention("pay", "allow")],
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
    { loadPlugin: () => Promise.resolve(definition), ...heldBytes && { heldBytes } },
  );
  const failures = () => path.path.view({ connections: false }).plugins[0]?.failures;
  const caller = callAs("web", path, CA);
  return {
    path,
    caller,
    failures,
    async [Symbol.asyncDispose]() {
      caller.connection.reset();
      await settle();
      await path[Symbol.asyncDispose]();
    },
  };
}

test("a reset by the endpoint while a plugin reads is not a failure of the plugin", async () => {
  await using it = await start(async (_, next) => {
    const response = await next();
    return response.with({ body: await response.body?.bytes(100) ?? null });
  });
  const app = await sendThrough(it.caller, GET, it.path);
  app.send(`${HEAD}half`);
  app.connection.reset();
  await settle();
  assert.match(it.caller.received, /^HTTP\/1.1 503 /);
  const line = it.path.lines.find(({ message }) => message === "request failed");
  assert.equal(line?.fields.code, "endpoint_reset");
  assert.equal(it.failures(), 0);
});

test("a reset by the endpoint while a plugin streams is not a failure of the plugin", async () => {
  await using it = await start((_, next) =>
    next({
      response: (response) => {
        const body = response.body?.stream().pipeThrough(new TransformStream()) ?? null;
        return response.with({ body });
      },
    })
  );
  const app = await sendThrough(it.caller, GET, it.path);
  app.send(`${HEAD}half`);
  await settle();
  app.connection.reset();
  await settle();
  assert.match(it.caller.received, /^HTTP\/1.1 200 [^]*half/);
  const line = it.path.lines.find(({ message }) => message === "request failed");
  assert.equal(line?.fields.code, "endpoint_reset");
  assert.equal(it.failures(), 0);
});

test("a response that a plugin opened and did not read to the end is reset", async () => {
  await using it = await start(async (_, next) => {
    const response = await next();
    const reader = response.body?.stream().getReader();
    await reader?.read();
    return response.with({ body: "enough" });
  });
  const app = await sendThrough(it.caller, GET, it.path);
  app.send(`${HEAD}half`);
  await settle();
  assert.match(it.caller.received, /enough$/);
  assert.equal(app.over, "reset");
  assert.equal(it.failures(), 0);
});

const POST = "POST / HTTP/1.1\r\nHost: db\r\nContent-Length: 100\r\n\r\n";

test("waiting for slow callers does not count as time of a plugin", async () => {
  await using it = await start(async ({ request }, next) => {
    const body = await request.body?.bytes(100) ?? null;
    return await next({ request: request.with({ body }) });
  });
  const callers = Array.from({ length: 12 }, () => callAs("web", it.path, CA));
  for (const caller of callers) caller.send(POST);
  for (let second = 0; second < 30; second++) {
    for (const caller of callers) caller.send("x");
    await it.path.clock.advance(1_000);
  }
  assert.deepEqual(callers.map(({ received }) => received).join(""), "");
  assert.equal(it.failures(), 0);
  // Other requests are served meanwhile.
  const app = await sendThrough(it.caller, GET, it.path);
  app.send(`${HEAD}123456789`);
  await settle();
  assert.match(it.caller.received, /^HTTP\/1.1 200 [^]*123456789$/);
  for (const caller of callers) caller.connection.reset();
  await settle();
  assert.equal(it.failures(), 0);
});

test("waiting for a slow endpoint does not count as time of a plugin", async () => {
  await using it = await start(async (_, next) => {
    const response = await next();
    return response.with({ body: await response.body?.bytes(100) ?? null });
  });
  const app = await sendThrough(it.caller, GET, it.path);
  app.send(HEAD);
  for (let second = 0; second < 30; second++) await it.path.clock.advance(1_000);
  app.send("123456789");
  await settle();
  assert.match(it.caller.received, /^HTTP\/1.1 200 [^]*123456789$/);
  assert.equal(it.failures(), 0);
});

test("the time of a plugin counts once it has the body, or if it does not read it", async () => {
  for (const reads of [true, false]) {
    await using it = await start(async ({ request }) => {
      const stream = request.body?.stream();
      if (reads) { for await (const _ of stream ?? []); }
      return await new Promise(() => {});
    });
    it.caller.send(POST);
    for (let sent = 0; sent < 100; sent += 50) {
      it.caller.send("x".repeat(50));
      await settle();
    }
    await it.path.clock.advance(12_000);
    assert.match(it.caller.received, /^HTTP\/1.1 500 /, String(reads));
    assert.equal(it.failures(), 1);
  }
});

test("a body above the limit of a plugin is refused with 413 or 502, without a failure of the plugin", async () => {
  await using it = await start(async ({ request }, next) => {
    const body = await request.body?.bytes(10) ?? null;
    const response = await next({ request: request.with({ body }) });
    try {
      return response.with({ body: await response.body?.bytes(4) ?? null });
    } catch (cause) {
      throw new Error("it cannot be read", { cause });
    }
  });
  it.caller.send(`${POST}${"x".repeat(100)}`);
  await settle();
  assert.match(it.caller.received, /^HTTP\/1.1 413 /);
  const other = callAs("web", it.path, CA);
  const app = await sendThrough(other, GET, it.path);
  app.send(`${HEAD}123456789`);
  await settle();
  assert.match(other.received, /^HTTP\/1.1 502 /);
  assert.equal(it.failures(), 0);
  other.connection.reset();
});

test("bodies that a plugin holds only refuse requests of the caller that sent most of them", async () => {
  const limitBytes = 1 << 20;
  // Like a plugin that calls a service without an answer.
  await using it = await start(async ({ request, exchange }, next) => {
    const body = await request.body?.bytes(limitBytes) ?? null;
    const isSilent = request.path === "/silent" && body !== null;
    if (isSilent) await new Promise((ok) => exchange.signal.addEventListener("abort", ok));
    return await next({ request: request.with({ body }) });
  }, limitBytes);
  const held = () =>
    it.path.path.view({ connections: false }).samples.filter(({ name }) => name === "held_bytes")
      .reduce((sum, { value }) => sum + value, 0);
  const size = limitBytes / 8;
  const upload = `POST /silent HTTP/1.1\r\nHost: db\r\nContent-Length: ${size}\r\n\r\n`;
  const greedy = Array.from({ length: 24 }, () => callAs("web", it.path, CA));
  const modest = callAs("pay", it.path, CA);
  for (const caller of [modest, ...greedy]) {
    caller.send(`${upload}${"x".repeat(size)}`);
    await settle();
    assert.ok(held() <= limitBytes, `${held()} bytes are held`);
  }
  assert.ok(held() > limitBytes / 2, `${held()} bytes are held`);
  const refused = greedy.filter(({ received }) => received.startsWith("HTTP/1.1 503 "));
  assert.ok(refused.length >= 24 - 8, `${refused.length} are refused`);
  // A caller with few held bytes still waits, and other requests are served.
  assert.equal(modest.received, "");
  const other = callAs("pay", it.path, CA);
  const app = await sendThrough(other, `${POST}${"x".repeat(100)}`, it.path);
  assert.match(app.received, /x{100}$/);
  app.send(`${HEAD}123456789`);
  await settle();
  assert.match(other.received, /^HTTP\/1.1 200 /);
  for (const caller of [other, modest, ...greedy]) caller.connection.reset();
  await settle();
  assert.equal(held(), 0);
});

test("a request fails when a plugin reads more than half of the account and sends nothing on", async () => {
  const limitBytes = 1 << 20;
  await using it = await start(async ({ request }, next) => {
    const body = await request.body?.bytes(4 * limitBytes) ?? null;
    return await next({ request: request.with({ body }) });
  }, limitBytes);
  const size = 3 * limitBytes / 4;
  it.caller.send(`POST / HTTP/1.1\r\nHost: db\r\nContent-Length: ${size}\r\n\r\n`);
  const chunk = "x".repeat(size / 48);
  for (let sent = 0; sent < size && it.caller.received === ""; sent += chunk.length) {
    it.caller.send(chunk);
    await settle();
  }
  assert.match(it.caller.received, /^HTTP\/1.1 503 /);
  const line = it.path.lines.find(({ message }) => message === "request failed");
  assert.deepEqual([line?.fields.code, line?.fields.reason], [
    "overloaded",
    "too many bytes wait on its connection for a slower side",
  ]);
  assert.deepEqual(it.path.engine.dials, []);
  assert.equal(it.failures(), 0);
});

test("a plugin that streams can pass on more bytes than the account", async () => {
  const limitBytes = 1 << 20;
  await using it = await start((args, next) => {
    const { request } = args;
    const body = request.body?.stream().pipeThrough(new TransformStream()) ?? null;
    return next({ request: request.with({ body }) });
  }, limitBytes);
  const size = 2 * limitBytes;
  const chunk = "x".repeat(32_768);
  const head = `POST / HTTP/1.1\r\nHost: db\r\nContent-Length: ${size}\r\n\r\n`;
  const app = await sendThrough(it.caller, head, it.path);
  for (let sent = 0; sent < size; sent += chunk.length) {
    it.caller.send(chunk);
    await settle();
  }
  assert.equal(it.caller.received, "");
  assert.ok(app.received.length > size, `${app.received.length} came`);
  app.send(`${HEAD}123456789`);
  await settle();
  assert.match(it.caller.received, /^HTTP\/1.1 200 /);
});
