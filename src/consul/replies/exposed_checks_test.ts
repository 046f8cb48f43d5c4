import assert from "node:assert/strict";
import { test } from "node:test";
import { readExposedChecks } from "./exposed_checks.ts";

const check = (more: Readonly<Record<string, unknown>>) => ({
  ...{ CheckID: "service:web", ServiceID: "web", Type: "http", Output: "", ExposedPort: 21_500 },
  ...more,
});
const read = (one: Readonly<Record<string, unknown>>, known = new Map<string, string>()) =>
  readExposedChecks({ one }, "web", known);

for (
  const [name, more, path] of [
    ["that ran", { Output: "HTTP GET http://127.0.0.1:21500/debug: 200 OK Output: ok" }, "/debug"],
    ["with a query", { Output: "HTTP GET http://[::1]:21500/a?b=1: 503 x Output: " }, "/a"],
    ["without a path", { Output: "HTTP HEAD http://127.0.0.1:21500: 200 OK Output: " }, "/"],
    [
      "that found nobody",
      { Output: 'Get "http://127.0.0.1:21500/debug": dial tcp 127.0.0.1:21500: refused' },
      "/debug",
    ],
    ["of gRPC", { Type: "grpc" }, "/grpc.health.v1.Health/Check"],
    ["that has not run", {}, undefined],
    ["of another service", { ServiceID: "db", Type: "grpc" }, undefined],
    ["that is not exposed", { ExposedPort: 0, Type: "grpc" }, undefined],
    ["at another port", { Output: "HTTP GET http://a:80/x: 200 OK Output: " }, undefined],
    [
      "whose application writes an address",
      { Output: 'dial: Get "http://127.0.0.1:21500/admin": no' },
      undefined,
    ],
  ] as const
) {
  test(`readExposedChecks() reads a check ${name}`, () => {
    assert.equal(read(check(more))[0]?.path, path);
  });
}

test("readExposedChecks() remembers a path while an agent that restarted has no output", () => {
  const known = new Map<string, string>();
  read(check({ Output: "HTTP GET http://127.0.0.1:21500/debug: 200 OK Output: " }), known);
  assert.deepEqual(read(check({}), known), [
    { listenerPort: 21_500, path: "/debug", localPort: 0, protocol: "http" },
  ]);
});
