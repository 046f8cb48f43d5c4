import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../base/mod.ts";
import { AgentClient } from "../../test/kit/consul/agent_client.ts";
import { inTurn } from "../../test/kit/consul/scripted_agent.ts";
import { registrationOfFlags } from "../source/consul/flag_registration.ts";
import type { RegisterRequest } from "./model/consul.ts";

const PROXY: RegisterRequest = {
  registration: registrationOfFlags({
    proxyId: "web-proxy-x1",
    service: "web",
    upstreams: [],
    serviceAddress: { kind: "tcp", host: "127.0.0.1", port: 80 },
    listen: { host: "0.0.0.0", port: 21 },
  }),
  applicationId: "web-x1",
  nodeAddress: "",
  httpCheckPath: "",
};

test("keepRegistered() registers, sends heartbeats, registers again after a 404, and deregisters", async () => {
  let forgotten = false;
  await using client = await AgentClient.start((asked) => {
    if (!forgotten || !asked.path.includes("/check/pass/")) return { text: "" };
    forgotten = false;
    return { status: 404, text: 'Unknown check ID "web-proxy-x1-ttl"' };
  });
  const paths = () => client.script.requests.map(({ path }) => path.replace("/v1/agent/", ""));
  const stop = new AbortController();
  const done = client.agent.keepRegistered(PROXY, { signal: stop.signal });
  await client.asked(1);
  assert.deepEqual(JSON.parse(client.script.requests[0]?.body ?? ""), {
    Kind: "connect-proxy",
    ID: "web-proxy-x1",
    Name: "web-proxy",
    Address: "",
    Port: 21,
    Proxy: { DestinationServiceName: "web" },
    Check: { CheckID: "web-proxy-x1-ttl", Name: "proxy heartbeat", TTL: "30s", Status: "passing" },
  });
  await client.passUntil(() => paths().length >= 2, { what: "a heartbeat", limitMs: 10_500 });
  forgotten = true;
  await client.passUntil(() => paths().length >= 4, { what: "registered again" });
  stop.abort();
  await done;
  assert.deepEqual(paths(), [
    "service/register",
    "check/pass/web-proxy-x1-ttl",
    "check/pass/web-proxy-x1-ttl",
    "service/register",
    "service/deregister/web-proxy-x1",
  ]);
});

test("keepRegistered() reports readiness and drain at once", async () => {
  await using client = await AgentClient.start(() => ({ text: "" }));
  const paths = () => client.script.requests.map(({ path }) => path.replace("/v1/agent/", ""));
  const [stop, serving, draining] = [
    new AbortController(),
    new AbortController(),
    new AbortController(),
  ];
  let left = 0;
  const done = client.agent.keepRegistered(PROXY, {
    signal: stop.signal,
    serving: serving.signal,
    draining: draining.signal,
    onLeft: () => left++,
  });
  await client.asked(1);
  const { Check } = JSON.parse(client.script.requests[0]?.body ?? "") as {
    Check: { Status: string };
  };
  assert.equal(Check.Status, "critical");
  await client.clock.advance(0);
  serving.abort();
  await client.asked(2);
  await client.clock.advance(0);
  draining.abort();
  await client.asked(3);
  await client.passUntil(() => left > 0, { what: "the report of the drain", limitMs: 0 });
  // Heartbeats go on, and the check stays critical.
  await client.passUntil(() => paths().length >= 4, { what: "a heartbeat", limitMs: 10_500 });
  stop.abort();
  await done;
  assert.deepEqual(paths(), [
    "service/register",
    "check/pass/web-proxy-x1-ttl",
    "check/fail/web-proxy-x1-ttl",
    "check/fail/web-proxy-x1-ttl",
    "service/deregister/web-proxy-x1",
  ]);
});

test("keepRegistered() ends when the token may not register", async () => {
  await using client = await AgentClient.start(inTurn({ status: 403, text: "Permission denied" }));
  await assert.rejects(
    client.agent.keepRegistered(PROXY, { signal: new AbortController().signal }),
    (error) =>
      error instanceof ProxyError && error.code === "agent_forbidden" &&
      /register the proxy/.test(error.message),
  );
});

test("keepRegistered() gives up deregistering after three tries", async () => {
  let down = false;
  await using client = await AgentClient.start(() => down ? { status: 500 } : { text: "" });
  const stop = new AbortController();
  const done = client.agent.keepRegistered(PROXY, { signal: stop.signal });
  await client.asked(1);
  await client.clock.advance(0);
  down = true;
  let ended = false;
  void done.then(() => ended = true);
  stop.abort();
  await client.passUntil(() => ended, { what: "the end", limitMs: 3_000 });
  assert.equal(client.script.requests.length, 4);
});
