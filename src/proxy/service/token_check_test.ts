import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { Deadlines } from "../../base/mod.ts";
import type { RequestHead } from "../../http/mod.ts";
import type { Generation, Layer } from "../../plugin/mod.ts";
import type { ExchangeValue } from "./exchange_value.ts";
import { TokenCheck } from "./token_check.ts";

const REQUEST: RequestHead = {
  method: "GET",
  scheme: "https",
  authority: "db",
  path: "/a",
  upgrade: "",
  length: 0,
  saysLength: false,
  expectsContinue: false,
  fields: [],
  version: "HTTP/1.1",
};

type OnRequest = NonNullable<Layer["plugin"]["onRequest"]>;

function rig(onRequest: OnRequest) {
  const clock = new FakeClock();
  const users = { count: 0 };
  const health = {
    mayBeCalled: () => true,
    begin: () => undefined,
    enter: () => 0,
    leave: () => {},
    resumed: () => {},
    passed: () => {},
    failed: () => {},
  };
  const layer = { name: "jwt_auth", phase: "guard", routeConfig: undefined };
  const generation = {
    guards: [{ ...layer, plugin: { onRequest }, mayBeSkipped: false, health }],
    enter: () => users.count++,
    leave: () => users.count--,
  } as unknown as Generation;
  const known: (string | undefined)[] = [];
  const check = new TokenCheck(generation, {} as ExchangeValue, {
    deadlines: new Deadlines(clock),
    onKnown: (request) => known.push(request?.path),
  });
  check.start(REQUEST);
  return { clock, users, known, check };
}

test("TokenCheck reports a synchronous result at once, with the changed request", () => {
  const { known, users } = rig(({ request }, next) =>
    next({ request: request.with({ path: "/b" }) })
  );
  assert.deepEqual([known, users.count], [["/b"], 0]);
});

test("TokenCheck reports a result later if the plugin waits for keys", async () => {
  const { known, users } = rig(async (_, next) => {
    await Promise.resolve();
    return next();
  });
  assert.deepEqual([known, users.count], [[], 1]);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([known, users.count], [["/a"], 0]);
});

for (
  const [what, onRequest] of [
    ["throws", () => {
      throw new Error("no");
    }],
    ["answers itself", () => ({}) as never],
  ] as [string, OnRequest][]
) {
  test(`TokenCheck reports a failure if the plugin ${what}`, () => {
    const { known, users } = rig(onRequest);
    assert.deepEqual([known, users.count], [[undefined], 0]);
  });
}

test("TokenCheck reports a failure after ten seconds without a result", async () => {
  const { clock, known } = rig(() => new Promise(() => {}));
  await clock.advance(9_000);
  assert.deepEqual(known, []);
  await clock.advance(2_000);
  assert.deepEqual(known, [undefined]);
});

test("TokenCheck reports nothing after the caller left", async () => {
  let goOn = () => {};
  const { check, known, users } = rig(async (_, next) => {
    await new Promise<void>((resolve) => goOn = resolve);
    return next();
  });
  check.leave();
  goOn();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([known, users.count], [[], 0]);
});
