/**
 * One plugin for each way in which a plugin can misbehave: it is named, the request that met it is answered,
 * and the next one is served.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { hold, mount, ok, settle } from "../../../src/kit/mod.ts";
import type {
  Host,
  HttpResponse,
  Plugin,
  PluginDefinition,
  Schema,
} from "../../../src/plugin/api.ts";

const ANYTHING: Schema = { "~standard": { version: 1, validate: (value) => ({ value }) } };

type OnRequest = NonNullable<Plugin["onRequest"]>;

function pluginOf(create: PluginDefinition["create"]): PluginDefinition {
  return { name: "bad", api: 1, phase: "filter", config: ANYTHING, create };
}

/** Misbehaves towards one path only. */
function badly(make: (host: Host) => OnRequest): PluginDefinition {
  return pluginOf((host) => {
    const bad = make(host);
    return {
      onRequest: (args, next) => args.request.path === "/bad" ? bad(args, next) : next(),
    };
  });
}

const failing = () =>
  new ReadableStream<Uint8Array>({
    pull: (controller) => controller.error(new Error("no more")),
  });
/** Another reader holds the stream's lock. */
const taken = () => {
  const stream = new ReadableStream<Uint8Array>();
  stream.getReader();
  return stream;
};
let another: HttpResponse | undefined;

const KINDS: Readonly<Record<string, readonly [make: (host: Host) => OnRequest, reason: RegExp]>> =
  {
    "throws": [() => () => {
      throw new Error("oh no");
    }, /oh no/],
    "rejects": [() => () => Promise.reject(new Error("oh no")), /oh no/],
    "rejects with nothing": [() => () => Promise.reject(), /undefined/],
    "throws on the way out": [() => (_, next) =>
      next({
        response: () => {
          throw new Error("oh no");
        },
      }), /oh no/],
    "gives nothing back": [() => () => undefined as never, /gave no response back/],
    "gives back what is no response": [() => () => ({ status: 200 }) as never, /no response/],
    "calls next twice": [() => async (_, next) => {
      await next();
      return next();
    }, /next was called twice/],
    "hands on a request of its own making": [
      () => (_, next) => next({ request: { method: "GET" } as never }),
      /not made by request\.with/,
    ],
    "hands on a body that it opened": [() => async ({ request }, next) => {
      await request.body?.bytes(100);
      return next();
    }, /opened, and handed on/],
    "reads a body twice": [() => async ({ request }, next) => {
      await request.body?.bytes(100);
      await request.body?.bytes(100);
      return next();
    }, /opened before/],
    "hands back a body that it opened": [() => async (_, next) => {
      const response = await next();
      await response.body?.bytes(100);
      return response;
    }, /opened, and handed on/],
    "hands back the body of another response": [() => async (_, next) => {
      const response = await next();
      if (another) return response.with({ body: another.body });
      another = response;
      throw new Error("not yet another's");
    }, /another message's/],
    "sends a body that fails": [
      () => ({ request }, next) => next({ request: request.with({ body: failing() }) }),
      /no more/,
    ],
    "sends a body that another reader holds": [
      () => ({ request }, next) => next({ request: request.with({ body: taken() }) }),
      /the request's body: .*locked/,
    ],
    "writes framing": [
      () => ({ request }, next) =>
        next({ request: request.with({ headers: { set: { "transfer-encoding": "x" } } }) }),
      /no name that a plugin may write/,
    ],
    "writes a second header into a value": [
      () => (_, next) =>
        next({ response: (response) => response.with({ headers: { set: { a: "b\r\nc: d" } } }) }),
      /no header has/,
    ],
    "writes a status that is none": [(host) => () => host.reply(99), /from 200 to 599/],
    "writes a path that is none": [
      () => ({ request }, next) => next({ request: request.with({ path: "a b" }) }),
      /begins with \//,
    ],
    "adds to a metric by a label that it did not list": [(host) => {
      const counter = host.stats.counter("n", { help: "", labels: { by: ["a"] } });
      return (_, next) => {
        counter.add(1, { by: "b" as "a" });
        return next();
      };
    }, /no such label/],
    "makes metrics without end": [(host) => (_, next) => {
      for (let i = 0; i < 101; i++) host.stats.counter(`n${i}`, { help: "" });
      return next();
    }, /more than 100 metrics/],
    "shares without end": [(host) => (_, next) => {
      for (let i = 0; i < 101; i++) host.shared(`${i}`, () => ({}));
      return next();
    }, /more than 100 keys/],
    "logs an exchange of its own making": [(host) => (_, next) => {
      host.accessLog("")({
        status: 200,
        code: "",
        attempts: 1,
        durationMs: 0,
        receivedBytes: 0,
        sentBytes: 0,
        endpoint: null,
      });
      return next();
    }, /not told by onEnd/],
    "starts more tasks than it may": [(host) => (_, next) => {
      for (let i = 0; i < 17; i++) host.spawn("many", () => new Promise(() => {}));
      return next();
    }, /more than 16 tasks/],
  };

for (const [what, [make, reason]] of Object.entries(KINDS)) {
  test(`a plugin that ${what} is named, and the next request is served`, async () => {
    await using bad = await mount(badly(make), { upstream: [ok("fine")] });
    const ask = (path: string) => bad.request({ method: "POST", path, body: ["ab", "c"] });
    if (what.startsWith("hands back the body of another")) await ask("/bad");
    const answer = await ask("/bad");
    assert.deepEqual([answer.status, answer.failure?.code], [500, "plugin_failed"]);
    assert.match(answer.failure?.reason ?? "", /^bad: /);
    assert.match(answer.failure?.reason ?? "", reason);
    const failures = bad.logs.filter(({ message }) => message === "plugin failed");
    assert.match(String(failures.at(-1)?.fields["reason"]), reason);
    assert.equal(failures.at(-1)?.fields["plugin"], "bad");
    const next = await ask("/good");
    assert.deepEqual([next.status, next.body], [200, "fine"]);
    assert.equal(bad.upstream.requests.at(-1)?.body, "abc");
  });

  test(`a plugin that ${what} five times in a row is not called any more`, async () => {
    await using bad = await mount(badly(make), { upstream: [ok("fine")] });
    const asked = { method: "POST", path: "/bad", body: ["ab", "c"] };
    for (let i = 0; i < 5; i++) await bad.request(asked);
    const { failure } = await bad.request({ path: "/good" });
    assert.match(failure?.reason ?? "", /^bad: failed 5 times in a row/);
  });

  test(`a plugin that ${what} may be skipped where nothing was spoilt`, async () => {
    await using bad = await mount(badly(make), { upstream: [ok("fine")], onFailure: "skip" });
    const answer = await bad.request({ method: "POST", path: "/bad", body: ["ab", "c"] });
    assert.ok(answer.status === 200 || answer.failure?.code === "plugin_failed");
    if (answer.status === 200) assert.equal(answer.body, "fine");
  });
}

for (const [what, body] of Object.entries({ "fails": failing, "another reader holds": taken })) {
  test(`a plugin that answers with a body that ${what} is named, and the next request is served`, async () => {
    await using bad = await mount(badly((host) => () => host.reply(200).with({ body: body() })));
    const answer = await bad.request({ path: "/bad" });
    assert.equal(answer.failure?.code, "plugin_failed");
    assert.match(answer.failure?.reason ?? "", /^bad: the response's body: /);
    assert.equal((await bad.request()).status, 200);
    for (let i = 0; i < 5; i++) await bad.request({ path: "/bad" });
    assert.match((await bad.request()).failure?.reason ?? "", /^bad: failed 5 times in a row/);
  });
}

test("a plugin that opens a response and answers without it leaves nothing open", async () => {
  const upstream = [ok("one", "two", "three")];
  await using bad = await mount(
    badly((host) => async (_, next) => {
      const { body } = await next();
      await body?.stream().getReader().read();
      return host.reply(200, {}, "other");
    }),
    { upstream },
  );
  assert.equal((await bad.request({ path: "/bad" })).body, "other");
  assert.equal(bad.upstream.requests[0]?.isGivenUp, true);
  assert.equal((await bad.request()).body, "onetwothree");
});

test("a plugin's stream of values other than bytes is cancelled, and the plugin named", async () => {
  let isLeft = false;
  const stream = () =>
    new ReadableStream({
      start: (controller) => controller.enqueue("text"),
      cancel: () => void (isLeft = true),
    });
  await using bad = await mount(badly((host) => () => host.reply(200).with({ body: stream() })));
  const { failure } = await bad.request({ path: "/bad" });
  assert.equal(failure?.reason, "bad: the response's body: the body's stream gave no bytes");
  assert.equal(isLeft, true);
});

test("a plugin's stream that will not be read is cancelled", async () => {
  const cancelled: unknown[] = [];
  const stream = () =>
    new ReadableStream<Uint8Array>({ cancel: () => void cancelled.push("left") });
  await using bad = await mount(badly((host) => () => host.reply(200).with({ body: stream() })));
  assert.equal((await bad.request({ method: "HEAD", path: "/bad" })).status, 200);
  const leaving = new AbortController();
  const asked = bad.request({ path: "/bad", signal: leaving.signal });
  await settle();
  leaving.abort();
  await asked;
  assert.deepEqual(cancelled, ["left", "left"]);
});

test("a plugin that never answers is given up after ten seconds", async () => {
  await using bad = await mount(badly(() => () => new Promise(() => {})));
  const asked = bad.request({ path: "/bad" });
  await bad.clock.advance(11_000);
  assert.equal((await asked).failure?.code, "plugin_failed");
  assert.equal((await bad.request()).status, 200);
});

test("a plugin that never answers on the way out is given up after ten seconds, by its name", async () => {
  await using bad = await mount(
    badly(() => (_, next) => next({ response: () => new Promise(() => {}) })),
  );
  const asked = bad.request({ path: "/bad" });
  await bad.clock.advance(11_000);
  assert.equal((await asked).failure?.reason, "bad: no answer after 10000 ms");
  assert.equal((await bad.request()).status, 200);
});

test("a plugin that floods the log writes ten lines a second", async () => {
  await using bad = await mount(badly((host) => (_, next) => {
    for (let i = 0; i < 1_000; i++) host.log.info("line", { i });
    return next();
  }));
  await bad.request({ path: "/bad" });
  assert.equal(bad.logs.length, 10);
  await bad.clock.advance(1_000);
  await bad.request({ path: "/bad" });
  assert.deepEqual(bad.logs[10]?.fields.lines, 990);
  assert.equal(bad.logs.length, 21);
});

test("a plugin that throws at the end of an exchange is named, and harms no exchange", async () => {
  const ends: number[] = [];
  await using bad = await mount(badly(() => ({ exchange }, next) => {
    exchange.onEnd(() => {
      throw new Error("oh no");
    });
    exchange.onEnd(({ status }) => ends.push(status));
    return next();
  }));
  assert.equal((await bad.request({ path: "/bad" })).status, 200);
  assert.deepEqual(ends, [200]);
  const [line] = bad.logs;
  assert.deepEqual([line?.message, line?.fields["plugin"], line?.fields["hook"]], [
    "plugin failed",
    "bad",
    "onEnd",
  ]);
  assert.equal(line?.fields["reason"], "oh no");
});

test("a plugin that blocks the thread in any of its hooks is named", async () => {
  const hooks = {
    onRequest: "onRequest",
    response: "response",
    onEnd: "onEnd",
    later: "onRequest",
  };
  for (const [place, hook] of Object.entries(hooks)) {
    let spin = (_hook: string) => {};
    await using bad = await mount(badly(() => ({ exchange }, next) => {
      exchange.onEnd(() => spin("onEnd"));
      spin("onRequest");
      if (place === "later") {
        return (async () => {
          const response = await next();
          spin("later");
          return response;
        })();
      }
      return next({
        response: (response) => {
          spin("response");
          return response;
        },
      });
    }));
    spin = (at) => {
      if (at === place) bad.clock.advanceNow(100);
    };
    // One call of so many is looked at.
    for (let i = 0; i < 61; i++) await bad.request({ path: "/bad" });
    const line = bad.logs.find(({ message }) => /^plugin held the thread/.test(message));
    const { plugin, listener, hook: named, ms } = line?.fields ?? {};
    assert.deepEqual([plugin, listener, named, ms], ["bad", "inbound", hook, 100]);
  }
});

test("a task that throws is started again, after a pause that grows, and ends with the plugin", async () => {
  const at: number[] = [];
  let signal: AbortSignal | undefined;
  const bad = await mount(pluginOf((host) => {
    host.spawn("task", (ends) => {
      signal = ends;
      at.push(host.clock.now());
      throw new Error("oh no");
    });
    return {};
  }));
  await bad.clock.advance(10_000);
  assert.ok(at.length > 3 && at.length < 20, `${at}`);
  await bad[Symbol.asyncDispose]();
  const before = at.length;
  await bad.clock.advance(60_000);
  assert.deepEqual([signal?.aborted, at.length, bad.clock.pending], [true, before, 0]);
});

test("a plugin that waits for a timer is not reported as blocking the thread", async () => {
  await using bad = await mount(badly((host) => async (_, next) => {
    const response = await next();
    await host.clock.sleep(100);
    return response;
  }));
  for (let i = 0; i < 61; i++) {
    const asked = bad.request({ path: "/bad" });
    await settle();
    await bad.clock.advance(100);
    await asked;
  }
  assert.deepEqual(bad.logs, []);
});

for (
  const [what, create, reason] of [
    ["throws", () => {
      throw new Error("oh no");
    }, /create\(\): oh no/],
    ["asks for too many labels", (host) => {
      const many = Array.from({ length: 1_001 }, (_, i) => `${i}`);
      host.stats.counter("n", { help: "", labels: { many } });
      return {};
    }, /more than 1000 combinations/],
  ] as readonly (readonly [string, PluginDefinition["create"], RegExp])[]
) {
  test(`a plugin that ${what} when it is made is not loaded`, async () => {
    await assert.rejects(mount(pluginOf(create)), reason);
  });
}

test("a plugin whose create() never ends is not waited for, and the loaded generation serves", async () => {
  const bad = await mount(
    pluginOf((_, config) => config === "slow" ? new Promise(() => {}) : {}),
  );
  const loading = assert.rejects(bad.reload("slow"), /not done after 5000 ms/);
  await bad.clock.advance(5_000);
  await loading;
  assert.equal((await bad.request()).status, 200);
  await bad[Symbol.asyncDispose]();
});

for (
  const [what, close, reason] of [
    ["throws", () => {
      throw new Error("oh no");
    }, /oh no/],
    ["never ends", () => new Promise<void>(() => {}), /not done after 5000 ms/],
  ] as readonly (readonly [string, () => void, RegExp])[]
) {
  test(`a plugin whose close() ${what} is named, and the next generation serves`, async () => {
    await using bad = await mount(pluginOf((_, config) => config === "next" ? {} : { close }));
    await bad.reload("next");
    await bad.clock.advance(5_000);
    assert.match(JSON.stringify(bad.logs.map(({ fields }) => fields)), reason);
    assert.equal((await bad.request()).status, 200);
  });
}

test("a plugin that goes on after its caller left sends no request upstream", async () => {
  let goOn = () => {};
  await using bad = await mount(
    badly(() => async (_, next) => {
      await new Promise<void>((resolve) => goOn = resolve);
      return await next();
    }),
    { upstream: [hold()] },
  );
  const leaving = new AbortController();
  const asked = bad.request({ path: "/bad", signal: leaving.signal });
  leaving.abort();
  assert.equal((await asked).status, 0);
  goOn();
  await settle();
  assert.equal(bad.upstream.requests.length, 0);
});
