import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certificates.ts";
import { settle } from "../../../test/kit/clock.ts";
import { presented } from "../../../test/kit/fake_tls_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/memory_path.ts";
import { httpRules, intention, snapshotOf, withInbound } from "../../../test/kit/snapshots.ts";
import type { ExchangeSummary, Plugin, PluginDefinition } from "../../plugin/api.ts";
import type { AnyPlugin } from "../../plugin/mod.ts";

const CA = createAuthority();
const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;

type OnRequest = NonNullable<Plugin["onRequest"]>;

function definitionOf(create: PluginDefinition["create"]): AnyPlugin {
  return { name: "own", api: 1, phase: "filter", config: ANYTHING, create };
}

function snapshotWith(config: unknown, version = 1) {
  const base = snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  });
  const plugins = [{
    plugin: "own",
    config,
    onFailure: "refuse",
    at: "inbound.plugins[0]",
  }] as const;
  const snapshot = withInbound(base, { http: httpRules("http"), plugins, version });
  return { ...snapshot, version };
}

async function start(definition: AnyPlugin): Promise<MemoryPath> {
  return await startMemoryPath(snapshotWith({}), {
    loadPlugin: (name) => Promise.resolve(name === "own" ? definition : undefined),
  });
}

function call({ path, engine }: MemoryPath) {
  const port = Number(path.listeners()[0]?.address.split(":").at(-1));
  return engine.callSecurely(port).prove(presented(CA.issueLeaf({ service: "web" })));
}

/** What came since it was asked last. */
function taken(end: { received: string }): string {
  const { received } = end;
  end.received = "";
  return received;
}

const GET = "GET / HTTP/1.1\r\nHost: db\r\n\r\n";
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

function with_(onRequest: OnRequest): AnyPlugin {
  return definitionOf(() => ({ onRequest }));
}

test("a plugin that never answers is given up after ten seconds, by its name", async () => {
  await using path = await start(with_(() => new Promise(() => {})));
  const caller = call(path);
  caller.send(GET);
  await settle();
  await path.clock.advance(9_000);
  assert.equal(taken(caller), "");
  await path.clock.advance(3_000);
  assert.match(taken(caller), /^HTTP\/1.1 500 /);
  const line = path.lines.find(({ message }) => message === "request failed");
  assert.deepEqual(
    [line?.fields.code, line?.fields.reason],
    ["plugin_failed", "own: no answer after 10000 ms"],
  );
  caller.connection.reset();
  await settle();
});

test("an endpoint may take its time where a plugin waits for it", async () => {
  await using path = await start(with_(async (_, next) => await next()));
  const caller = call(path);
  caller.send(GET);
  await settle();
  const app = path.engine.lastDial.connect();
  await settle();
  await path.clock.advance(60_000);
  app.send(OK);
  await settle();
  assert.match(taken(caller), /^HTTP\/1.1 200 /);
  caller.connection.reset();
  await settle();
});

test("who leaves is told to the plugin by its signal, and its exchange ends once", async () => {
  let signal: AbortSignal | undefined;
  const ends: ExchangeSummary[] = [];
  await using path = await start(with_(({ exchange }, next) => {
    signal = exchange.signal;
    exchange.onEnd((summary) => void ends.push(summary));
    return next();
  }));
  const caller = call(path);
  caller.send(GET);
  await settle();
  const app = path.engine.lastDial.connect();
  await settle();
  assert.equal(signal?.aborted, false);
  caller.connection.reset();
  await settle();
  assert.equal(signal?.aborted, true);
  assert.equal(app.over, "reset");
  assert.deepEqual(ends.map(({ status, code, attempts }) => [status, code, attempts]), [
    [0, "downstream_reset", 1],
  ]);
});

test("a generation serves what began on it, and is closed after its last exchange", async () => {
  const log: string[] = [];
  await using path = await start(definitionOf((_host, config) => {
    log.push(`create ${config}`);
    return {
      onRequest: (_, next) =>
        next({
          response: (response) => response.with({ headers: { set: { by: String(config) } } }),
        }),
      close: () => void log.push(`close ${config}`),
    };
  }));
  const caller = call(path);
  caller.send(GET);
  await settle();
  const app = path.engine.lastDial.connect();
  await settle();
  await path.set(snapshotWith("new", 2));
  assert.deepEqual(log, ["create [object Object]", "create new"]);
  app.send(OK);
  await settle();
  assert.match(taken(caller), /by: \[object Object\]/);
  assert.deepEqual(log.slice(2), ["close [object Object]"]);
  caller.send(GET);
  await settle();
  app.send(OK);
  await settle();
  assert.match(taken(caller), /by: new/);
  // Nothing of it has changed.
  await path.set(snapshotWith("new", 3));
  assert.equal(log.length, 3);
  caller.connection.reset();
  await settle();
});

for (
  const [what, definition, reason] of [
    [
      "throws when it is created",
      definitionOf(() => {
        throw new Error("no such file");
      }),
      "Cannot load the plugins of inbound: inbound.plugins[0]: create(): no such file",
    ],
    [
      "does not take its configuration",
      {
        ...definitionOf(() => ({})),
        config: {
          "~standard": {
            version: 1,
            validate: () => ({ issues: [{ message: "is not a number", path: ["a", 0] }] }),
          },
        },
      } as AnyPlugin,
      "Cannot load the plugins of inbound: inbound.plugins[0].config.a[0]: is not a number",
    ],
  ] as const
) {
  test(`a snapshot with a plugin that ${what} is refused whole, and what serves goes on`, async () => {
    let isBad = false;
    const good = with_((_, next) => next());
    await using path = await startMemoryPath(snapshotWith({}), {
      loadPlugin: () => Promise.resolve(isBad ? definition : good),
    });
    isBad = true;
    await assert.rejects(path.set(snapshotWith("new", 2)), { message: reason });
    const caller = call(path);
    caller.send(GET);
    await settle();
    path.engine.lastDial.connect().send(OK);
    await settle();
    assert.match(taken(caller), /^HTTP\/1.1 200 /);
    caller.connection.reset();
    await settle();
  });
}

for (const waits of [false, true]) {
  test(`an upgrade goes through a plugin that ${waits ? "waits" : "does not wait"}`, async () => {
    await using path = await start(with_(
      waits
        ? async (_, next) => {
          const response = await next();
          await settle();
          return response.with({ headers: { set: { by: "own" } } });
        }
        : (_, next) =>
          next({ response: (response) => response.with({ headers: { set: { by: "own" } } }) }),
    ));
    const caller = call(path);
    caller.send("GET / HTTP/1.1\r\nHost: db\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n");
    await settle();
    const app = path.engine.lastDial.connect();
    await settle();
    app.send("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\nfirst");
    await settle();
    await settle();
    const answer = taken(caller);
    assert.match(answer, /^HTTP\/1.1 101 .*by: own.*first$/s);
    taken(app);
    caller.send("second");
    await settle();
    assert.equal(taken(app), "second");
    caller.connection.reset();
    await settle();
  });
}
