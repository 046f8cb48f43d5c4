/** Callers cannot set the fields that the proxy sets, under any spelling or position. @module */

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
import type { HeaderChange, HttpRequest } from "../../plugin/api.ts";
import type { AnyPlugin } from "../../plugin/mod.ts";

const CA = createAuthority();
const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;

/** The header lines that the application receives from that caller. */
async function read(
  fields: readonly string[],
  trailers: readonly string[],
  change?: (request: HttpRequest) => HttpRequest,
): Promise<string[]> {
  const base = snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  });
  const definition: AnyPlugin = {
    name: "own",
    api: 1,
    phase: "filter",
    config: ANYTHING,
    create: () => ({
      onRequest: ({ request }, next) => next({ request: change?.(request) ?? request }),
    }),
  };
  const use = { plugin: "own", config: {}, onFailure: "refuse", at: "inbound.plugins[0]" } as const;
  const http = httpRules("http", { streamIdleTimeoutMs: 0 });
  const path = await startMemoryPath(
    withInbound(base, { http, plugins: change ? [use] : [] }),
    { loadPlugin: () => Promise.resolve(definition) },
  );
  const caller = callAs("web", path, CA);
  const head = ["POST / HTTP/1.1", "Host: db", "Transfer-Encoding: chunked", ...fields];
  const app = await sendThrough(caller, `${head.join("\r\n")}\r\n\r\n1\r\na\r\n`, path);
  caller.send(`0\r\n${trailers.map((line) => `${line}\r\n`).join("")}\r\n`);
  await settle();
  const lines = app.received.split("\r\n");
  caller.connection.reset();
  app.connection.reset();
  await settle();
  await path[Symbol.asyncDispose]();
  return lines;
}

const changed = (headers: HeaderChange) => (request: HttpRequest) => request.with({ headers });

for (
  const [what, change] of [
    ["removes", changed({ remove: ["X-Claims"] })],
    ["sets", changed({ set: { "X-Claims": "ours" } })],
    ["sets by a list of its own", (request: HttpRequest) => {
      const headers = request.headers.with({ set: { "x-claims": "ours" } });
      return request.with({ headers }).with({ path: "/" });
    }],
  ] as const
) {
  for (const name of ["X-Claims", "X_Claims", "x.claims", "x_CLAIMS"]) {
    test(`a field that a plugin ${what} cannot be set by the caller as ${name}`, async () => {
      const forged = `${name}: forged`;
      const lines = await read([forged, "x-other: a"], [forged, "x-sum: b"], change);
      assert.deepEqual(lines.filter((line) => line.includes("forged")), []);
      assert.ok(lines.includes("x-other: a"), lines.join("\n"));
      assert.ok(lines.includes("x-sum: b"), lines.join("\n"));
    });
  }
}

for (
  const name of [
    "x_forwarded_for",
    "X-Forwarded.For",
    "x-request-id",
    "x_request_id",
    "x-envoy-internal",
    "x-envoy-any",
    "X_Envoy_Any",
  ]
) {
  test(`${name} is removed from trailers of a caller`, async () => {
    const lines = await read([], [`${name}: forged`, "x-sum: b"]);
    assert.deepEqual(lines.filter((line) => line.includes("forged")), []);
    assert.ok(lines.includes("x-sum: b"), lines.join("\n"));
  });
}
