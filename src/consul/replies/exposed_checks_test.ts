import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient, Seen } from "../../../test/kit/consul/agent_client.ts";
import { fixture, type Reaction } from "../../../test/kit/consul/scripted_agent.ts";
import type { Registration } from "../model/values.ts";
import { readExposedChecks } from "./exposed_checks.ts";

const check = (more: Readonly<Record<string, unknown>>) => ({
  CheckID: "service:web",
  ServiceID: "web",
  Type: "http",
  Output: "",
  ExposedPort: 21_500,
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
      "whose connection was refused",
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
    assert.equal(read(check(more)).paths[0]?.path, path);
  });
}

test("readExposedChecks() remembers a path while an agent that restarted has no output", () => {
  const known = new Map<string, string>();
  read(check({ Output: "HTTP GET http://127.0.0.1:21500/debug: 200 OK Output: " }), known);
  assert.deepEqual(read(check({}), known).paths, [
    { listenerPort: 21_500, path: "/debug", localPort: 0, protocol: "http" },
  ]);
});

for (
  const [name, node, want] of [
    ["its address", { json: { Node: { Address: "10.0.0.1" } } }, ["10.0.0.1"]],
    ["its IPv6 address", { json: { Node: { Address: "2001:DB8:0::1" } } }, ["2001:db8::1"]],
    ["a host name as the node's address", { json: { Node: { Address: "host" } } }, /shows none/],
    ["no node", { json: null }, /of the node "n 1"; the token may need node:read on "n 1"/],
    ["a refusal", { status: 403, text: "Permission denied" }, /takes node:read on "n 1"/],
  ] as const
) {
  test(`watchRegistration() exposes checks only to the agent's address: ${name}`, async () => {
    const registration = fixture("agent_service") as { readonly Proxy: object };
    const Proxy = { ...registration.Proxy, Expose: { Checks: true } };
    const answers: Readonly<Record<string, Reaction>> = {
      "/v1/agent/checks": {
        json: { a: check({ ServiceID: "web-1", Node: "n 1", Type: "grpc" }) },
      },
      "/v1/catalog/node/n%201": node,
    };
    await using client = await AgentClient.start(({ path, query }) => {
      if (!path.startsWith("/v1/agent/service/")) {
        return answers[path] ?? { status: 500, text: path };
      }
      return query.has("hash") ? "hang" : { json: { ...registration, Proxy }, hash: "h1" };
    });
    const seen = new Seen<Registration>();
    const watch = client.agent.watchRegistration("web-1-sidecar-proxy", seen);
    const checks = () => seen.last?.exposed?.filter(({ listenerPort }) => listenerPort === 21_500);
    if (want instanceof RegExp) {
      await client.passUntil(() => watch.state.failures > 0, { what: "the failure" });
      assert.match(watch.state.lastError ?? "", want);
      assert.deepEqual(checks() ?? [], [], "the check is not exposed");
    } else {
      await client.passUntil(() => checks()?.length === 1, { what: "the check" });
      assert.deepEqual(checks()?.[0]?.onlyFrom, want);
    }
    watch.stop();
  });
}
