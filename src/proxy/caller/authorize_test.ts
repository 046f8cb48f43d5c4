import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import type { End } from "../../../test/kit/engine/memory_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { caValidation, inboundBy, withOwn } from "../../../test/kit/secrets/own_credentials.ts";
import {
  httpRules,
  intention,
  policyOf,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import { type AuthorizationSubject, isAllowed } from "./authorize.ts";
import type { Connection, Host, Plugin } from "../../plugin/api.ts";
import type { AnyPlugin } from "../../plugin/mod.ts";
import type { HttpRules, PluginUse } from "../../snapshot/mod.ts";

const CA = createAuthority();
const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;

type Hook = (connection: Connection, host: Host) => ReturnType<NonNullable<Plugin["onConnection"]>>;

function looking(onConnection: Hook, more: Plugin = {}): AnyPlugin {
  return {
    name: "own",
    api: 1,
    phase: "filter",
    config: ANYTHING,
    create: (host: Host) => ({
      ...more,
      onConnection: (connection: Connection) => onConnection(connection, host),
    }),
  };
}

async function start(plugin: AnyPlugin, options: {
  readonly http?: HttpRules;
  readonly onFailure?: PluginUse["onFailure"];
} = {}): Promise<MemoryPath> {
  const { http = null, onFailure = "refuse" } = options;
  const base = snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  });
  const plugins = [{ plugin: "own", config: {}, onFailure, at: "inbound.plugins[0]" }];
  return await startMemoryPath(withInbound(base, { http, plugins }), {
    loadPlugin: () => Promise.resolve(plugin),
  });
}

function call({ engine, port }: MemoryPath, service = "web") {
  return engine.callSecurely(port()).prove(presented(CA.issueLeaf({ service })));
}

test("a connection is dialled in the same turn if no plugin waits", async () => {
  const seen: Connection[] = [];
  await using path = await start(looking((connection) => void seen.push(connection)));
  const caller = call(path);
  assert.equal(path.engine.dials.length, 1);
  assert.deepEqual(
    seen.map(({ listener, direction, source }) => [listener, direction, source?.service]),
    [["inbound", "inbound", "web"]],
  );
  const app = path.engine.lastDial.connect();
  caller.send("hello");
  await settle();
  assert.equal(app.received, "hello");
  caller.connection.reset();
  await settle();
});

test("onConnection is not called for a denied caller", async () => {
  await using path = await start(looking(() => assert.fail("asked")));
  call(path, "other");
  await settle();
  assert.deepEqual(path.endings, ["intention_denied"]);
});

for (
  const [what, hook, code, reason] of [
    ["refuses", (_, host) => host.refuse("denied", "not today"), "plugin_denied", "own: not today"],
    [
      "refuses with a promise",
      (_, host) => Promise.resolve(host.refuse("rate_limited", "ten a second")),
      "rate_limited",
      "own: ten a second",
    ],
    [
      "throws",
      () => {
        throw new Error("oh no");
      },
      "plugin_failed",
      "own: oh no",
    ],
    ["rejects", () => Promise.reject(new Error("oh no")), "plugin_failed", "own: oh no"],
    [
      "returns a value that is not a refusal",
      (_, host) => host.reply(200) as never,
      "plugin_failed",
      "own: onConnection gave back neither a refusal nor nothing",
    ],
  ] as readonly (readonly [string, Hook, string, string])[]
) {
  for (const http of [undefined, httpRules("http")]) {
    test(`a plugin that ${what} ends ${http ? "an HTTP" : "a"} connection, with its name`, async () => {
      await using path = await start(looking(hook), http ? { http } : {});
      const caller = call(path);
      caller.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
      await settle();
      assert.equal(path.engine.dials.length, 0);
      assert.notEqual(caller.over, "no");
      const { stage, code: was, reason: why } = path.lastEnd;
      assert.deepEqual([stage, was, why], ["plugins", code, reason]);
      const ended = path.path.stats.samples().filter(({ name, labels }) =>
        name === "connections_ended_total" && labels["outcome"] === code
      );
      assert.deepEqual(ended.map(({ value }) => value), [1]);
    });
  }
}

test("a plugin without an answer fails after five seconds", async () => {
  await using path = await start(looking(() => new Promise(() => {})));
  const caller = call(path);
  await path.clock.advance(4_900);
  assert.equal(caller.over, "no");
  await path.clock.advance(300);
  assert.notEqual(caller.over, "no");
  assert.equal(path.lastEnd["reason"], "own: onConnection: no answer after 5000 ms");
});

for (const hangs of [false, true]) {
  test(`a plugin with onFailure skip is skipped if it ${hangs ? "hangs" : "throws"}`, async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const hook: Hook = () => {
      if (hangs) return promise;
      throw new Error("oh no");
    };
    await using path = await start(looking(hook), { onFailure: "skip" });
    const caller = call(path);
    if (hangs) await path.clock.advance(5_200);
    // A late result is ignored.
    resolve();
    await settle();
    assert.equal(path.engine.dials.length, 1);
    path.engine.lastDial.connect();
    await settle();
    caller.connection.reset();
    await settle();
  });
}

for (const http of [undefined, httpRules("http")]) {
  test(`nothing is dialled for ${http ? "an HTTP" : "a"} caller that left while a plugin waited`, async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    await using path = await start(looking(() => promise), http ? { http } : {});
    const caller = call(path);
    caller.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    await settle();
    caller.connection.reset();
    await settle();
    resolve();
    await settle();
    assert.equal(path.engine.dials.length, 0);
    assert.deepEqual(path.endings, ["downstream_reset"]);
  });
}

test("bytes that a caller sends while a plugin waits are kept", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const http = httpRules("http");
  await using path = await start(looking(() => promise), { http });
  const caller = call(path);
  caller.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  await settle();
  assert.equal(path.engine.dials.length, 0);
  resolve();
  await settle();
  const app = path.engine.lastDial.connect();
  await settle();
  assert.match(app.received, /^GET \/ HTTP/);
  caller.connection.reset();
  await settle();
});

test("a listener that carries bytes refuses a plugin that only handles requests", async () => {
  const onRequest: Plugin["onRequest"] = (_, next) => next();
  const plugin: AnyPlugin = { ...looking(() => {}), create: () => ({ onRequest }) };
  await assert.rejects(start(plugin), {
    message: "Cannot load the plugins of inbound: inbound.plugins[0]: own looks at requests, and " +
      "this listener carries bytes",
  });
  await using _both = await start(looking(() => {}, { onRequest }));
});

const WEB = CA.issueLeaf({ service: "web" });
const SNAPSHOT = snapshotOf({
  ca: CA,
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  intentions: [intention("web", "allow")],
});
const BOTH = withInbound(SNAPSHOT, { authorize: "both" });

const DENIED = policyOf([intention("web", "deny")]);

const prove = ({ engine, port }: MemoryPath, leaf = WEB): End =>
  engine.callSecurely(port()).prove(presented(leaf));

/** An agent that answers when the test calls `answer`. */
function agent() {
  const requests: object[] = [];
  let settled = Promise.withResolvers<{ readonly allowed: boolean; readonly reason: string }>();
  return {
    requests,
    answer: (allowed: boolean) => settled.resolve({ allowed, reason: "because" }),
    fail: () => settled.reject(new Error("no answer")),
    remoteAuthorize(request: object) {
      requests.push(request);
      settled = Promise.withResolvers();
      return settled.promise;
    },
  };
}

test("a denied caller is closed in order, and nothing is dialled or counted", async () => {
  await using path = await startMemoryPath({ ...SNAPSHOT, policy: DENIED });
  const caller = prove(path);
  await settle();
  assert.equal(caller.over, "end");
  assert.equal(path.lastEnd.code, "intention_denied");
  assert.equal(path.lastEnd.rule, "default/web => test (deny)");
  assert.equal(path.lastEnd.reason, undefined, "the rule says it all");
  assert.deepEqual([path.engine.dials.length, path.taken], [0, 0]);
});

test("a changed intention ends only the open connections that it denies", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const caller = prove(path);
  const app = path.engine.lastDial.connect();
  await path.set({
    ...SNAPSHOT,
    policy: policyOf([intention("other", "deny"), intention("web", "allow")]),
  });
  assert.deepEqual([caller.over, app.over], ["no", "no"]);
  await path.set({ ...SNAPSHOT, policy: DENIED });
  assert.deepEqual([caller.over, app.over], ["end", "end"]);
  assert.deepEqual(path.endings, ["intention_denied"]);
  assert.equal(path.lastEnd.ended_by, "proxy");
});

test("a caller without a verified certificate is not the service that it claims to be", async () => {
  const claims = inboundBy(
    withOwn(SNAPSHOT, "anybody", {
      validation: caValidation([], { acceptUntrusted: true }),
      own: { trustDomains: [CA.trustDomain] },
    }),
    "anybody",
  );
  const { source, ...rule } = intention("web", "allow");
  const byName = {
    ...claims,
    policy: policyOf([{ ...rule, source: { ...source, uri: WEB.uri } }]),
  };
  await using path = await startMemoryPath(byName);
  prove(path);
  await settle();
  assert.equal(path.lastEnd.code, "intention_denied");
  assert.match(String(path.lastEnd.source), /^unverified /);
});

test("the agent decides about a caller that the intentions allow, which is counted meanwhile", async () => {
  const { requests, remoteAuthorize, answer, fail } = agent();
  await using path = await startMemoryPath(BOTH, { remoteAuthorize });
  for (
    const [end, code] of [
      [() => answer(false), "intention_denied"],
      [fail, "authorize_failed"],
    ] as const
  ) {
    const caller = prove(path);
    await settle();
    assert.deepEqual([path.taken, path.engine.dials.length], [1, 0]);
    end();
    await settle();
    assert.equal(caller.over, "end");
    assert.equal(path.lastEnd.code, code);
    assert.equal(path.taken, 0);
  }
  prove(path);
  answer(true);
  await settle();
  assert.equal(path.engine.dials.length, 1);
  assert.equal((requests[0] as { readonly uri: string }).uri, WEB.uri);
  assert.equal((requests[0] as { readonly target: string }).target, "db");
  // The agent is not asked about a caller that the intentions deny.
  await path.set({ ...BOTH, policy: DENIED });
  prove(path);
  assert.equal(requests.length, 3);
});

for (
  const [name, leave] of [
    ["a caller that leaves", (caller: End) => caller.connection.reset()],
    [
      "a caller that is denied",
      (_caller: End, path: MemoryPath) => path.set({ ...BOTH, policy: DENIED }),
    ],
  ] as const
) {
  test(`${name} while the agent is asked stays ended, whatever the agent answers`, async () => {
    const { remoteAuthorize, answer } = agent();
    await using path = await startMemoryPath(BOTH, { remoteAuthorize });
    await leave(prove(path), path);
    await settle();
    assert.equal(path.endings.length, 1);
    assert.equal(path.taken, 0);
    answer(true);
    await settle();
    assert.equal(path.engine.dials.length, 0);
    assert.equal(path.endings.length, 1);
  });

  test(`${name} during the local dial ends the dial, too`, async () => {
    await using path = await startMemoryPath(BOTH);
    const caller = prove(path);
    await settle();
    assert.ok(!path.engine.lastDial.cancelled);
    await leave(caller, path);
    await settle();
    assert.ok(path.engine.lastDial.cancelled);
    assert.equal(path.taken, 0);
    await path.clock.advance(10_000);
    assert.equal(path.endings.length, 1);
  });
}

test("a caller ends if the local application refuses or does not answer, each with its own code", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const refused = prove(path);
  path.engine.lastDial.fail("connection refused");
  await settle();
  assert.equal(refused.over, "end");
  assert.match(String(path.lastEnd.reason), /^Cannot dial the service at 127\.0\.0\.1:8080: conn/);
  const waiting = prove(path);
  await path.clock.advance(5_200);
  assert.equal(waiting.over, "end");
  assert.ok(path.engine.lastDial.cancelled);
  assert.deepEqual(path.endings, ["local_refused", "local_timed_out"]);
  // A completed dial does not time out.
  const served = prove(path);
  path.engine.lastDial.connect();
  await path.clock.advance(6_000);
  assert.equal(served.over, "no");
});

test("isAllowed() denies before there are intentions, except in mode nobody", () => {
  const ended: string[] = [];
  const applicant = {
    context: { facts: { policy: undefined } },
    end: (code: string, reason: string) => ended.push(`${code}: ${reason}`),
  } as unknown as AuthorizationSubject;
  assert.equal(isAllowed(applicant, "nobody"), true);
  assert.deepEqual(ended, []);
  assert.equal(isAllowed(applicant, "both"), false);
  assert.deepEqual(ended, ["not_ready: no intentions yet"]);
});
