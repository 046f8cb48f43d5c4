/** Requests during and after the verification of their tokens. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { callAs } from "../../../test/kit/engine/memory_caller.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  policyOf,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Plugin } from "../../plugin/api.ts";
import { type AnyPlugin, TOKEN_FAULTS, VERIFIED_CLAIMS } from "../../plugin/mod.ts";
import type { PluginUse } from "../../snapshot/mod.ts";

const CA = createAuthority();
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const POST =
  "POST /a HTTP/1.1\r\nHost: db\r\nContent-Length: 5\r\nx-token: good\r\nx-claims: forged\r\n\r\n";

const USE: PluginUse = { plugin: "own", config: {}, onFailure: "refuse", at: "jwt-provider" };
const DEMANDING = {
  ...intention("web", "allow"),
  tokens: [{ provider: "okta", claims: [{ path: ["role"], value: "admin" }] }],
};

const base = snapshotOf({
  ca: CA,
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  intentions: [DEMANDING],
});
const http = httpRules("http", { streamIdleTimeoutMs: 0 });
const SNAPSHOT = { ...withInbound(base, { http, tokens: USE }), version: 1 };

const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;

type OnRequest = NonNullable<Plugin["onRequest"]>;

function start(onRequest: OnRequest, close = () => {}): Promise<MemoryPath> {
  const definition: AnyPlugin = {
    name: "own",
    api: 1,
    phase: "guard",
    config: ANYTHING,
    create: () => ({ onRequest, close }),
  };
  return startMemoryPath(SNAPSHOT, {
    loadPlugin: (name) => Promise.resolve(name === "own" ? definition : undefined),
  });
}

/** Verifies any `x-token`, with that `role` as its claim, once `ready`. */
function verifying(ready?: Promise<void>, role = "admin"): OnRequest {
  return ({ request, exchange }, next) => {
    const goOn = () => {
      if (request.headers.get("x-token")) {
        exchange.set(VERIFIED_CLAIMS, new Map([["okta", { role }]]));
      }
      const set = { "x-claims": role };
      return next({ request: request.with({ headers: { remove: ["x-token"], set } }) });
    };
    return ready ? ready.then(goOn) : goOn();
  };
}

for (const isLate of [false, true]) {
  test(`a request with a verified token is sent on, with its whole body${isLate ? ", later" : ""}`, async () => {
    const ready = Promise.withResolvers<void>();
    await using path = await start(verifying(isLate ? ready.promise : undefined));
    const caller = callAs("web", path, CA);
    caller.send(`${POST}hel`);
    await settle();
    if (isLate) {
      assert.equal(path.engine.dials.length, 0, "nothing is dialled before the verdict");
      caller.send("lo");
      ready.resolve();
      await settle();
    }
    const app = path.engine.lastDial.connect();
    if (!isLate) caller.send("lo");
    await settle();
    assert.match(app.received, /^POST \/a HTTP\/1\.1\r\n.*x-claims: admin\r\n.*\r\n\r\nhello$/s);
    assert.doesNotMatch(app.received, /x-token|forged/);
    app.send(OK);
    await settle();
    assert.match(caller.received, /^HTTP\/1\.1 200 /);
    caller.connection.reset();
    await settle();
  });
}

for (
  const [what, onRequest, want, rule] of [
    [
      "has another claim",
      verifying(undefined, "guest"),
      403,
      /without a token of okta with role$/,
    ],
    ["has no claims", (_, next) => next(), 403, /without a token of okta with role$/],
    ["could not be verified", () => Promise.reject(new Error("no")), 500, undefined],
  ] as [string, OnRequest, number, RegExp | undefined][]
) {
  test(`a request whose token ${what} is not sent on`, async () => {
    await using path = await start(onRequest);
    const caller = callAs("web", path, CA);
    caller.send(`${POST}hello`);
    await settle();
    assert.match(caller.received, new RegExp(`^HTTP/1\\.1 ${want} `));
    assert.equal(path.engine.dials.length, 0);
    const line = path.lines.find(({ message }) => message === "request failed");
    if (rule) assert.match(String(line?.fields["rule"]), rule);
    caller.connection.reset();
    await settle();
  });
}

test("the log says why a required token was refused", async () => {
  const faults = new Map([["okta", "Jwt is expired"]]);
  await using path = await start(({ exchange }, next) => {
    exchange.set(TOKEN_FAULTS, faults);
    return next();
  });
  const caller = callAs("web", path, CA);
  caller.send(`${POST}hello`);
  await settle();
  const line = path.lines.find(({ message }) => message === "request failed");
  assert.equal(line?.fields["reason"], "okta: Jwt is expired");
  assert.match(String(line?.fields["rule"]), /without a token of okta with role$/);
  caller.connection.reset();
  await settle();
});

test("a request is judged by the intentions in force when its token is verified", async () => {
  const ready = Promise.withResolvers<void>();
  await using path = await start(verifying(ready.promise));
  const caller = callAs("web", path, CA);
  caller.send(`${POST}hello`);
  await settle();
  await path.set({ ...SNAPSHOT, version: 2, policy: policyOf([intention("web", "deny")]) });
  assert.equal(caller.received, "");
  ready.resolve();
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 403 /);
  assert.equal(path.engine.dials.length, 0);
  caller.connection.reset();
  await settle();
});

test("a request under way keeps its claims, and ends when intentions require others", async () => {
  await using path = await start(verifying());
  const caller = callAs("web", path, CA);
  caller.send(`${POST}hello`);
  await settle();
  const app = path.engine.lastDial.connect();
  await settle();
  const demanding = (value: string) => ({
    ...DEMANDING,
    tokens: [{ provider: "okta", claims: [{ path: ["role"], value }] }],
    rule: value,
  });
  await path.set({ ...SNAPSHOT, version: 2, policy: policyOf([demanding("admin")]) });
  assert.deepEqual([caller.received, app.over], ["", "no"]);
  await path.set({ ...SNAPSHOT, version: 3, policy: policyOf([demanding("owner")]) });
  assert.match(caller.received, /^HTTP\/1\.1 403 /);
  assert.notEqual(app.over, "no");
  caller.connection.reset();
  await settle();
});

test("a caller that leaves while its token is verified leaves no state", async () => {
  let closed = 0;
  await using path = await start(() => new Promise(() => {}), () => void closed++);
  const caller = callAs("web", path, CA);
  caller.send(`${POST}hello`);
  await settle();
  caller.connection.reset();
  await settle();
  assert.equal(path.engine.dials.length, 0);
  await path.set({ ...withInbound(base, { http }), version: 2 });
  assert.equal(closed, 1, "the plugin that verifies tokens is unused");
});
