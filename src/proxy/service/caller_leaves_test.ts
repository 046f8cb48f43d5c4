/** Plugins whose caller leaves while they wait: each `next` ends, so that they can clean up. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { callAs } from "../../../test/kit/engine/memory_caller.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Next, Phase, Plugin } from "../../plugin/api.ts";
import type { AnyPlugin } from "../../plugin/mod.ts";

const CA = createAuthority();
const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;
const GET = "GET / HTTP/1.1\r\nHost: db\r\n\r\n";

type OnRequest = NonNullable<Plugin["onRequest"]>;
type Hooks = Readonly<Record<string, readonly [Phase, OnRequest]>>;

/** The plugins, outermost first. */
async function start(hooks: Hooks) {
  const base = snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  });
  const plugins = Object.keys(hooks).map((plugin) => ({
    plugin,
    config: {},
    onFailure: "refuse" as const,
    at: plugin,
  }));
  return await startMemoryPath(withInbound(base, { http: httpRules("http"), plugins }), {
    loadPlugin(name): Promise<AnyPlugin | undefined> {
      const [phase, onRequest] = hooks[name] ?? assert.fail(name);
      const create = () => ({ onRequest });
      return Promise.resolve({ name, api: 1, phase, config: ANYTHING, create });
    },
  });
}

/** A hook that notes what its `next` gave. */
function notes(said: string[], name: string): OnRequest {
  return async (_, next) => {
    try {
      const response = await next();
      said.push(`${name} got ${response.failure?.code ?? response.status}`);
      return response;
    } finally {
      said.push(`${name} cleaned up`);
    }
  };
}

const never = () => new Promise<never>(() => {});

for (
  const [name, hooks, isSent, want] of [
    [
      "an endpoint is slow",
      (said) => ({ outer: ["filter", notes(said, "outer")] }),
      true,
      ["outer got downstream_reset", "outer cleaned up"],
    ],
    [
      "an inner plugin works",
      (said) => ({ outer: ["filter", notes(said, "outer")], inner: ["filter", never] }),
      false,
      ["outer got downstream_reset", "outer cleaned up"],
    ],
    [
      "an inner plugin works on the response",
      (said) => ({
        outer: ["filter", notes(said, "outer")],
        inner: ["filter", async (_: unknown, next: Next) => {
          const { failure } = await next();
          said.push(`inner got ${failure?.code}`);
          return await never();
        }],
      }),
      true,
      ["inner got downstream_reset", "outer got downstream_reset", "outer cleaned up"],
    ],
    [
      "a response is changed on its way out",
      (said) => ({
        outer: ["filter", (_: unknown, next: Next) =>
          next({
            response(response) {
              said.push(`outer changes ${response.failure?.code}`);
              return response;
            },
          })],
      }),
      true,
      ["outer changes downstream_reset"],
    ],
    [
      "a retry would try again",
      (said) => ({
        again: ["retry", async (_: unknown, next: Next) => {
          for (let attempt = 1; attempt < 3; attempt++) {
            const { failure } = await next();
            said.push(`attempt ${attempt} got ${failure?.code}`);
          }
          return await never();
        }],
      }),
      true,
      ["attempt 1 got downstream_reset"],
    ],
  ] as readonly (readonly [string, (said: string[]) => Hooks, boolean, readonly string[]])[]
) {
  test(`next() ends when the caller leaves while ${name}, and no plugin has failed`, async () => {
    const said: string[] = [];
    await using path = await start(hooks(said));
    const caller = callAs("web", path, CA);
    caller.send(GET);
    await settle();
    if (isSent) path.engine.lastDial.connect();
    await settle();
    assert.deepEqual(said, []);
    caller.connection.reset();
    await settle();
    assert.deepEqual(said.toSorted(), want.toSorted());
    const failed = path.path.view({ connections: false }).plugins.filter(({ failures }) =>
      failures > 0
    );
    assert.deepEqual(failed, []);
  });
}
