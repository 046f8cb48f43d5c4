import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError, Stats } from "../../base/mod.ts";
import type { CallToken } from "./token.ts";
import type { WireReply, WireRequest } from "./carrier.ts";
import type { ConsulCall } from "./carrier.ts";
import { Client } from "./client.ts";

const CALL = { resource: "match", what: "read", path: "/v1/x", timeoutMs: 1_000 } as const;

/** A client whose server always sends the same reply, with the requests that were sent. */
function played(token: Partial<CallToken>, reply: Partial<WireReply> = {}) {
  const sent: (string | undefined)[] = [];
  const requests: WireRequest[] = [];
  const rejected: string[] = [];
  const client = new Client({
    pathPrefix: "",
    basicAuth: "",
    datacenter: "",
    namespace: "",
    partition: "",
    stale: false,
  }, {
    stats: new Stats(),
    token: {
      current: () => "t1",
      onChange: () => () => {},
      rejected: (secret) => void rejected.push(secret),
      ...token,
    },
    carrier: {
      peer: "server",
      where: "192.0.2.1",
      dropIdle() {},
      reloadFiles() {},
      close() {},
      send(request) {
        requests.push(request);
        sent.push(request.headers["x-consul-token"]);
        return Promise.resolve({ status: 200, headers: {}, body: "1", ...reply });
      },
    },
  });
  return { client, sent, requests, rejected };
}

test("Client.call() waits for the token of a running login", async () => {
  const coming = Promise.withResolvers<void>();
  let secret = "";
  const { client, sent } = played({ coming: coming.promise, current: () => secret });
  const answer = client.call(CALL);
  await Promise.resolve();
  assert.deepEqual(sent, []);
  secret = "t2";
  coming.resolve();
  await answer;
  assert.deepEqual(sent, ["t2"]);
});

test("Client.call() fails with the reason why there is no token, and sends nothing", async () => {
  const coming = Promise.reject(new ProxyError("agent_failed", "the file is empty"));
  const { client, sent } = played({ coming });
  await assert.rejects(client.call(CALL), { code: "agent_failed", message: "the file is empty" });
  assert.deepEqual(sent, []);
});

for (
  const [body, want] of [
    ["ACL not found", ["t1"]],
    ["rpc error making call: ACL not found", ["t1"]],
    ['ACL not found: auth method "jwt" not found', []],
    ["Permission denied: token with AccessorID 'a' lacks permission 'service:read'", []],
  ] as const
) {
  test(`Client.call() reads ${JSON.stringify(body)} as the refusal of ${want.length ? "an unknown" : "a known"} token`, async () => {
    const { client, rejected } = played({}, { status: 403, body });
    await assert.rejects(client.call(CALL), (error: Error) => {
      assert.equal(/does not know the token/.test(error.message), want.length > 0);
      return true;
    });
    assert.deepEqual(rejected, want);
  });
}

test("Client.call() removes the token from a quoted reply", async () => {
  const token = "dd0661f6-75d2-8492";
  const { client } = played({ current: () => token }, { status: 500, body: `no ${token} here` });
  await assert.rejects(client.call(CALL), (error: Error) => {
    return !error.message.includes(token) && /no \(not shown\) here/.test(error.message);
  });
});

test("Client.call() refuses a reply of nested brackets before it is parsed", async () => {
  const { client } = played({}, { status: 200, body: "[".repeat(1_000_000) });
  await assert.rejects(client.call(CALL), {
    code: "agent_reply_invalid",
    message: /the reply to \S+ is refused: it is nested too deeply$/,
  });
});

test("Client.call() recognizes the gRPC port by status 415", async () => {
  const { client } = played({}, { status: 415, body: "" });
  await assert.rejects(client.call(CALL), {
    code: "agent_failed",
    message: "Cannot read: 192.0.2.1 speaks gRPC; -http-port (POSTERN_HTTP_PORT) wants that of " +
      "the HTTP API",
  });
});

for (
  const [what, call, repeatable] of [
    ["a read", {}, true],
    ["a wait by index", { query: { index: "7" } }, false],
    ["a wait by hash", { query: { hash: "h" } }, false],
    ["a write", { method: "PUT" }, false],
    ["a read by POST", { method: "POST", changesNothing: true }, true],
  ] as readonly (readonly [string, Partial<ConsulCall>, boolean])[]
) {
  test(`Client.call() marks ${what} as ${repeatable ? "" : "not "}repeatable`, async () => {
    const { client, requests } = played({});
    await client.call({ ...CALL, ...call });
    assert.equal(requests[0]?.repeatable, repeatable);
  });
}

for (
  const [status, body, code] of [
    [429, "", "agent_overloaded"],
    [503, "rate limit exceeded, try again later", "agent_overloaded"],
    [503, "", "agent_failed"],
    [500, "rate limit exceeded", "agent_failed"],
    [500, "No cluster leader", "agent_failed"],
    [
      500,
      'Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature',
      "config_invalid",
    ],
  ] as const
) {
  test(`Client.call() fails with ${code} for status ${status} ${JSON.stringify(body)}`, async () => {
    const { client } = played({}, { status, body });
    await assert.rejects(client.call({ ...CALL, query: { dc: "dc7" } }), (error: Error) => {
      assert.equal((error as ProxyError).code, code);
      assert.doesNotMatch(error.message, /dc7/);
      return true;
    });
  });
}

test("Client.call() names an unknown datacenter only if the request names it", async () => {
  const { client } = played({}, { status: 500, body: "No path to datacenter" });
  await assert.rejects(client.call({ ...CALL, query: { dc: "dc7" } }), /datacenter "dc7"; is that/);
  await assert.rejects(client.call(CALL), /No path to datacenter$/);
});

test("Client.call() does not mention an agent in errors of servers", async () => {
  const body = "Connect must be enabled in order to use this endpoint";
  const { client } = played({}, { status: 500, body });
  await assert.rejects(client.call(CALL), (error: Error) => {
    return / enabled = true .* on the Consul servers$/.test(error.message) &&
      !error.message.includes("agent");
  });
});

test("Client.call() does not parse an equal body again, unless its status differs", async () => {
  const reply = { status: 200, headers: { "x-consul-index": "7" }, body: '{"a":1}' };
  const { client } = played({}, reply);
  const first = await client.call({ ...CALL, lastDigest: "" });
  assert.deepEqual([first.json, first.isSame], [{ a: 1 }, false]);
  const lastDigest = first.digest ?? "";
  const again = await client.call({ ...CALL, lastDigest });
  assert.deepEqual([again.json, again.isSame, again.index], [undefined, true, 7]);
  const { client: absent } = played({}, { ...reply, status: 404 });
  const gone = await absent.call({ ...CALL, lastDigest, absentIsAnswer: true });
  assert.deepEqual([gone.json, gone.isSame], [null, false]);
});
