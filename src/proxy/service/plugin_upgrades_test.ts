/** Plugins around requests that ask for another protocol. @module */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { callAs } from "../../../test/kit/engine/memory_caller.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Plugin } from "../../plugin/api.ts";
import type { AnyPlugin } from "../../plugin/mod.ts";

const CA = createAuthority();
const UPGRADE = "GET / HTTP/1.1\r\nHost: db\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n";
const ACCEPTED = "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\nfirst";
const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;

function with_(onRequest: NonNullable<Plugin["onRequest"]>): AnyPlugin {
  return { name: "own", api: 1, phase: "filter", config: ANYTHING, create: () => ({ onRequest }) };
}

/** The sidecar of db with that plugin. */
function start(definition: AnyPlugin): Promise<MemoryPath> {
  const base = snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  });
  const plugins = [{
    plugin: "own",
    config: {},
    onFailure: "refuse",
    at: "inbound.plugins[0]",
  }] as const;
  const http = httpRules("http", { streamIdleTimeoutMs: 0 });
  return startMemoryPath(withInbound(base, { http, plugins }), {
    loadPlugin: () => Promise.resolve(definition),
  });
}

const call = (path: MemoryPath) => callAs("web", path, CA);

/** Returns and clears the received bytes. */
function taken(end: { received: string }): string {
  const { received } = end;
  end.received = "";
  return received;
}

for (const waits of [false, true]) {
  test(`an upgrade passes a plugin that ${waits ? "waits" : "does not wait"}`, async () => {
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
    caller.send(UPGRADE);
    await settle();
    const app = path.engine.lastDial.connect();
    await settle();
    app.send(ACCEPTED);
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

for (
  const [what, change, want, reason] of [
    ["a body in place of its bytes", { body: "mine" }, 500, /own: body: .* plugins cannot change/],
    ["another status", { status: 403 }, 403, undefined],
    ["another status with a body", { status: 403, body: "no" }, 403, undefined],
  ] as const
) {
  for (const waits of [false, true]) {
    test(`an upgrade ends if a plugin that ${waits ? "waits" : "does not wait"} gives it ${what}`, async () => {
      await using path = await start(with_(
        waits
          ? async (_, next) => {
            const response = await next();
            await settle();
            return response.with(change);
          }
          : (_, next) => next({ response: (response) => response.with(change) }),
      ));
      const caller = call(path);
      caller.send(UPGRADE);
      await settle();
      const app = path.engine.lastDial.connect();
      await settle();
      app.send(ACCEPTED);
      await settle();
      await settle();
      const answer = taken(caller);
      assert.match(answer, new RegExp(`^HTTP/1.1 ${want} `));
      assert.doesNotMatch(answer, /first/);
      assert.equal(app.over, "reset");
      const line = path.lines.find(({ message }) => message === "request failed");
      if (reason) assert.match(String(line?.fields.reason), reason);
      else assert.equal(line, undefined);
      caller.connection.reset();
      await settle();
    });
  }
}

test("a plugin sees no body of an accepted upgrade, and learns the number of its bytes at the end", async () => {
  const seen: unknown[] = [];
  await using path = await start(with_(({ exchange }, next) => {
    exchange.onEnd(({ receivedBytes, sentBytes }) => seen.push([receivedBytes, sentBytes]));
    return next({
      response(response) {
        seen.push(response.body);
        return response;
      },
    });
  }));
  const caller = call(path);
  caller.send(UPGRADE);
  await settle();
  const app = path.engine.lastDial.connect();
  await settle();
  app.send(ACCEPTED);
  await settle();
  caller.send("second");
  await settle();
  caller.connection.reset();
  await settle();
  assert.deepEqual(seen, [null, [6, 5]]);
});
