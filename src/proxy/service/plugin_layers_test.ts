import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { callAs, sendThrough } from "../../../test/kit/engine/memory_caller.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { ExchangeSummary, Plugin, PluginDefinition } from "../../plugin/api.ts";
import type { AnyPlugin } from "../../plugin/mod.ts";
import { diffSnapshots, type PluginUse } from "../../snapshot/mod.ts";

const CA = createAuthority();
const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;

type OnRequest = NonNullable<Plugin["onRequest"]>;

function definitionOf(create: PluginDefinition["create"]): AnyPlugin {
  return { name: "own", api: 1, phase: "filter", config: ANYTHING, create };
}

function snapshotWith(
  config: unknown,
  version = 1,
  onFailure: PluginUse["onFailure"] = "refuse",
) {
  const base = snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  });
  const plugins = [{ plugin: "own", config, onFailure, at: "inbound.plugins[0]" }] as const;
  const http = httpRules("http", { streamIdleTimeoutMs: 0 });
  const snapshot = withInbound(base, { http, plugins, version });
  return { ...snapshot, version };
}

async function start(
  definition: AnyPlugin,
  onFailure?: PluginUse["onFailure"],
): Promise<MemoryPath> {
  return await startMemoryPath(snapshotWith({}, 1, onFailure), {
    loadPlugin: (name) => Promise.resolve(name === "own" ? definition : undefined),
  });
}

const call = (path: MemoryPath) => callAs("web", path, CA);

/** Returns and clears the received bytes. */
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

test("a plugin without an answer fails after ten seconds, and the log names it", async () => {
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

test("a plugin does not fail while it waits for a slow endpoint", async () => {
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

test("a caller that leaves aborts the plugin's signal, and its exchange ends once", async () => {
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

test("a generation serves its exchanges to the end, and is closed after the last", async () => {
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
  // The plugin configuration has not changed.
  await path.set(snapshotWith("new", 3));
  assert.equal(log.length, 3);
  caller.connection.reset();
  await settle();
});

/** Logs creation and closing, in order. */
function logged(log: string[], plugin: Partial<Plugin> = {}): AnyPlugin {
  return definitionOf((_host, config) => {
    log.push(`create ${config}`);
    return { ...plugin, close: () => void log.push(`close ${config}`) };
  });
}

test("a prepared generation that is not published is closed", async () => {
  const log: string[] = [];
  const update = (config: string, version: number) =>
    diffSnapshots(undefined, snapshotWith(config, version));
  {
    await using started = await start(logged(log));
    const { path } = started;
    assert.deepEqual(log.splice(0), ["create [object Object]"]);
    await path.prepare(update("a", 2));
    await path.prepare(update("b", 3));
    await settle();
    assert.deepEqual(log.splice(0), ["create a", "close a", "create b"]);
    path.abandon();
    await settle();
    assert.deepEqual(log.splice(0), ["close b"]);
    await assert.rejects(path.publish({}), /nothing is prepared/);
    await path.prepare(update("c", 4));
    log.length = 0;
  }
  assert.deepEqual(log, ["close c", "close [object Object]"]);
});

test("a generation or plugin that is created too late is closed", async () => {
  const log: string[] = [];
  const late = Promise.withResolvers<void>();
  let isSlow = false;
  const slow = logged(log);
  await using started = await start({
    ...slow,
    async create(host, config) {
      const plugin = await slow.create(host, config);
      if (isSlow) await late.promise;
      return plugin;
    },
  });
  isSlow = true;
  const preparing = started.path.prepare(diffSnapshots(undefined, snapshotWith("new", 2)));
  const refused = assert.rejects(preparing, /create\(\): not done after 5000 ms/);
  await settle();
  await started.clock.advance(5_000);
  await refused;
  assert.deepEqual(log.splice(0), ["create [object Object]", "create new"]);
  late.resolve();
  await settle();
  assert.deepEqual(log, ["close new"]);
});

test("a plugin that holds the thread is logged, and not the layer around it", async () => {
  let spin = () => {};
  const around: AnyPlugin = { ...with_((_, next) => next()), name: "around", phase: "guard" };
  const own = with_(({ request }, next) => {
    spin();
    return next({ request });
  });
  const snapshot = snapshotWith({});
  const inbound = snapshot.inbound["inbound"] ?? assert.fail();
  const plugins = ["around", "own"].map((plugin, index) => ({
    plugin,
    config: {},
    onFailure: "refuse" as const,
    at: `inbound.plugins[${index}]`,
  }));
  await using path = await startMemoryPath(
    { ...snapshot, inbound: { inbound: { ...inbound, plugins } } },
    { loadPlugin: (name) => Promise.resolve(name === "own" ? own : around) },
  );
  spin = () => path.clock.advanceNow(100);
  const caller = call(path);
  caller.send(GET);
  await settle();
  const lines = path.lines.filter(({ message }) => /held the thread/.test(message));
  assert.deepEqual(lines.map(({ fields: { plugin, hook, ms } }) => [plugin, hook, ms]), [
    ["own", "onRequest", 100],
  ]);
  path.engine.lastDial.connect();
  await settle();
  caller.connection.reset();
  await settle();
});

test("a hundred generations leave no timers, metrics or views", async () => {
  let open = 0;
  const signals: AbortSignal[] = [];
  await using started = await start(definitionOf((host) => {
    open++;
    signals.push(host.signal);
    host.stats.counter("seen", { help: "Seen" }).add(1);
    host.shared("counts", () => ({ count: 0 }));
    host.spawn("waits", (signal) => host.clock.sleep(3_600_000, signal));
    return { onRequest: (_, next) => next(), close: () => void open-- };
  }));
  const { path, clock } = started;
  const caller = call(started);
  caller.send(GET);
  await settle();
  const app = started.engine.lastDial.connect();
  await settle();
  app.send(OK);
  await settle();
  const left = () => [
    clock.pending,
    path.stats.samples().length,
    path.view({ connections: false }).plugins.length,
  ];
  const before = left();
  for (let turn = 0; turn < 100; turn++) {
    caller.send(GET);
    await settle();
    await started.set(snapshotWith(`${turn}`, turn + 2));
    app.send(OK);
    await settle();
  }
  assert.deepEqual([open, left()], [1, before]);
  assert.deepEqual(signals.map(({ aborted }) => aborted).indexOf(false), 100);
  assert.equal(taken(caller).match(/HTTP\/1.1 200/g)?.length, 101);
  caller.connection.reset();
  await settle();
});

test("metrics of a plugin are removed when its listener no longer has it", async () => {
  await using started = await start(logged([]));
  const counted = () =>
    started.path.stats.samples().filter(({ labels }) => labels["plugin"] === "own").length;
  assert.equal(counted(), 3);
  const snapshot = snapshotWith({}, 2);
  await started.set(withInbound(snapshot, { plugins: [] }));
  assert.equal(counted(), 0);
});

test("a data path closes its plugins when it has drained", async () => {
  const log: string[] = [];
  await using started = await start(logged(log));
  await started.path.drain(1_000);
  assert.deepEqual(log, ["create [object Object]", "close [object Object]"]);
});

for (const waits of [true, false]) {
  test(`an old generation is closed after five minutes, and an exchange that ${waits ? "waits for it fails" : "does not wait for it continues"}`, async () => {
    const log: string[] = [];
    await using path = await start(logged(log, {
      onRequest: waits ? async (_, next) => await next() : (_, next) => next(),
    }));
    const caller = call(path);
    caller.send(GET);
    await settle();
    const app = path.engine.lastDial.connect();
    await settle();
    if (!waits) app.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
    await settle();
    taken(caller);
    await path.set(snapshotWith("new", 2));
    await path.clock.advance(299_000);
    assert.equal(log.length, 2);
    assert.deepEqual(
      path.path.view({ connections: false }).plugins.map(({ generation, state }) =>
        `${generation} ${state}`
      ),
      ["2 serving", "1 draining"],
    );
    await path.clock.advance(3_000);
    assert.deepEqual(log.slice(2), ["close [object Object]"]);
    if (waits) {
      assert.match(taken(caller), /^HTTP\/1.1 500 /);
      const line = path.lines.find(({ message }) => message === "request failed");
      assert.equal(line?.fields.code, "plugin_failed");
    } else {
      app.send("k");
      await settle();
      assert.equal(taken(caller), "k");
    }
    assert.equal(path.path.view({ connections: false }).plugins.length, 1);
    caller.connection.reset();
    await settle();
  });
}

for (
  const [what, onFailure, status] of [["refuses", "refuse", 500], ["skips", "skip", 200]] as const
) {
  test(`a plugin that failed five times in a row is not called: the listener ${what} at once`, async () => {
    let calls = 0;
    await using path = await start(
      with_(() => {
        calls++;
        throw new Error("oh no");
      }),
      onFailure,
    );
    const caller = call(path);
    let app: ReturnType<typeof path.engine.lastDial.connect> | undefined;
    for (let i = 0; i < 7; i++) {
      caller.send(GET);
      await settle();
      if (status === 200) {
        app ??= path.engine.lastDial.connect();
        await settle();
        app.send(OK);
        await settle();
      }
      assert.match(taken(caller), new RegExp(`^HTTP/1.1 ${status} `));
    }
    assert.equal(calls, 5);
    const [shown] = path.path.view({ connections: false }).plugins;
    assert.deepEqual(
      [shown?.state, shown?.exchanges, shown?.failures, shown?.lastFailure?.reason],
      ["broken", 7, 5, "oh no"],
    );
    assert.equal(path.lines.filter(({ message }) => /not asked any more/.test(message)).length, 1);
    caller.connection.reset();
    await settle();
  });
}

test("a plugin fails if it passes on a stream that it reads itself", async () => {
  for (const waits of [false, true]) {
    await using path = await start(with_(async ({ request }, next) => {
      const stream = new ReadableStream<Uint8Array>();
      stream.getReader();
      const response = await next(waits ? undefined : { request: request.with({ body: stream }) });
      return response.with({ body: stream });
    }));
    const caller = call(path);
    caller.send("POST / HTTP/1.1\r\nHost: db\r\nContent-Length: 0\r\n\r\n");
    await settle();
    if (waits) path.engine.lastDial.connect().send(OK);
    await settle();
    assert.match(taken(caller), /^HTTP\/1.1 500 /);
    caller.connection.reset();
    await settle();
  }
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
      "refuses its configuration",
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
  test(`a snapshot with a plugin that ${what} is refused, and the one in force stays`, async () => {
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

test("the access log shows a response of an endpoint as via_upstream, even with a body of a plugin", async () => {
  const lines: string[] = [];
  const accessLog = {
    version: 1,
    to: { kind: "stderr" as const },
    listeners: false,
    format: { kind: "text" as const, text: "%RESPONSE_CODE_DETAILS%" },
  };
  await using path = await startMemoryPath({ ...snapshotWith({}), accessLog }, {
    loadPlugin: () =>
      Promise.resolve(
        with_((_, next) => next({ response: (response) => response.with({ body: "mine" }) })),
      ),
    takeLine: (line) => void lines.push(line.trim()),
  });
  const caller = call(path);
  await sendThrough(caller, GET, path).then((app) => app.send(OK));
  await settle();
  assert.match(taken(caller), /^HTTP\/1.1 200 .*mine$/s);
  assert.deepEqual(lines, ["via_upstream"]);
  caller.connection.reset();
  await settle();
});
