import assert from "node:assert/strict";
import { test } from "node:test";
import { registration } from "../../../test/kit/consul/snapshot_facts.ts";
import type { ExposedPath, Registration } from "../../consul/mod.ts";
import type { Refusal, Snapshot } from "../../snapshot/mod.ts";
import { exposedParts } from "./listener_parts.ts";

const HEALTH: ExposedPath = {
  listenerPort: 21_500,
  path: "/health",
  localPort: 8_081,
  protocol: "http",
};

function parts(
  exposed: readonly ExposedPath[],
  overrides: Partial<Registration> = {},
): { readonly parts: Snapshot["exposed"]; readonly refused: readonly Refusal[] } {
  const refused: Refusal[] = [];
  const registered = registration({ exposed, ...overrides });
  return {
    parts: exposedParts(registered, { previous: undefined, version: 1, refused }),
    refused,
  };
}

test("exposedParts() serves one path of the local service without intentions", () => {
  const got = parts([HEALTH]);
  assert.deepEqual(got.refused, []);
  const { http, ...part } = got.parts["exposed:21500"] ?? {};
  assert.deepEqual(part, {
    version: 1,
    bind: { kind: "tcp", host: "127.0.0.1", port: 21_500 },
    path: "/health",
    local: { kind: "tcp", host: "127.0.0.1", port: 8_081 },
    localConnectTimeoutMs: 5_000,
  });
  assert.deepEqual([http?.protocol, http?.path.normalize], ["http", false]);
});

for (
  const [name, path, overrides, want] of [
    ["the service's own port", { localPort: 0 }, {}, {
      kind: "tcp",
      host: "127.0.0.1",
      port: 8080,
    }],
    ["the service's own socket", {}, { local: { kind: "unix", path: "/run/web" } }, {
      kind: "unix",
      path: "/run/web",
    }],
    ["the service's own host", {}, { local: { kind: "tcp", host: "127.0.0.5", port: 80 } }, {
      kind: "tcp",
      host: "127.0.0.5",
      port: 8_081,
    }],
  ] as const
) {
  test(`exposedParts() goes to ${name}`, () => {
    const [part] = Object.values(parts([{ ...HEALTH, ...path }], overrides).parts);
    assert.deepEqual(part?.local, want);
  });
}

test("exposedParts() limits the callers", () => {
  const [part] = Object.values(parts([{ ...HEALTH, onlyFrom: ["10.0.0.1"] }]).parts);
  assert.deepEqual(part?.onlyFrom, ["10.0.0.1"]);
});

for (const [written, want] of [["", "http"], ["HTTP2", "http2"]]) {
  test(`exposedParts() takes protocol "${written}" for ${want}`, () => {
    const [part] = Object.values(parts([{ ...HEALTH, protocol: written ?? "" }]).parts);
    assert.equal(part?.http.protocol, want);
  });
}

for (
  const [name, path, reason] of [
    ["no path", { path: "" }, /it is no path/],
    ["a path with a query", { path: "/a?b" }, /it is no path/],
    ["a listener port of 0", { listenerPort: 0 }, /its listener port 0 is none/],
    ["a local port above all", { localPort: 70_000 }, /its local port 70000 is none/],
    ["the public listener's port", { listenerPort: 21_000 }, /is taken by an earlier listener/],
    ["a port twice", { listenerPort: 21_500 }, /is taken by an earlier listener/],
    ["tcp", { protocol: "tcp" }, /its protocol "tcp" is not http or http2/],
    ["grpc", { protocol: "grpc" }, /its protocol "grpc" is not http or http2/],
    ["what nobody knows", { protocol: "http3" }, /its protocol "http3" is not/],
  ] as const
) {
  test(`exposedParts() refuses ${name}, and it alone`, () => {
    const got = parts([HEALTH, { ...HEALTH, listenerPort: 21_501, ...path }]);
    assert.deepEqual(Object.keys(got.parts), ["exposed:21500"]);
    assert.match(got.refused[0]?.reason ?? "", reason);
  });
}
