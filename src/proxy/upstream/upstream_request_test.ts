import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  ClientExchange,
  Fields,
  RequestHead,
  ResponseEvents,
  ResponseHead,
} from "../../http/mod.ts";
import type { AttemptHandler } from "./attempt.ts";
import type { Context } from "../core/context.ts";
import type { RequestPool } from "./request_pools.ts";
import { UpstreamRequest } from "./upstream_request.ts";
import type { PooledConnection, PooledEndpoint } from "./connection_pool.ts";

const HEAD: RequestHead = {
  method: "POST",
  scheme: "http",
  authority: "db",
  path: "/",
  upgrade: "",
  length: 3,
  saysLength: true,
  expectsContinue: false,
  version: "HTTP/2",
  fields: [],
};

/** The callbacks of a POST whose body was partly sent when `break_` happens. */
function callbacksAfter(break_: (events: ResponseEvents) => void): unknown[] {
  const calls: unknown[] = [];
  let events: ResponseEvents | undefined;
  const exchange = { send: () => true, reset() {} } as Partial<ClientExchange> as ClientExchange;
  const connection: Pick<PooledConnection, "reached" | "isUsed" | "request"> = {
    reached: { host: "10.0.0.9:80" } as PooledEndpoint,
    isUsed: false,
    request(_head, _ends, own) {
      events = own;
      return exchange;
    },
  };
  const pool: RequestPool = {
    cluster: "",
    enter: () => true,
    leave() {},
    whyFull: () => "",
    endpoints: () => ({ known: 1, usable: 1 }),
    acquire(handler: AttemptHandler<PooledConnection>) {
      handler.onDialled(connection as PooledConnection);
      return { cancel() {} };
    },
  };
  const request = new UpstreamRequest(
    {
      reached() {},
      bodyWanted() {},
      informed() {},
      responseData() {},
      responseEnd() {},
      bodyHeld: () => void calls.push("holds"),
      responded: () => void calls.push("responded"),
      upstreamFailed: (code, _reason, tried) => void calls.push(code, tried),
    },
    { request: HEAD, endsWithHead: false, remote: "" },
    { pool, context: {} as Context },
  );
  request.start();
  request.send(new Uint8Array(1));
  assert.ok(events);
  break_(events);
  return calls;
}

for (
  const [what, break_, calls] of [
    // A server that refused it did not act on it (RFC 9113 8.7), but part of its body is gone.
    ["was refused", (events) => events.onReset("refused", ""), [
      "holds",
      "response_reset",
      "10.0.0.9:80",
    ]],
    ["was broken", (events) => events.onReset("connection", ""), ["endpoint_reset", ""]],
    ["was refused after an answer began", (events) => {
      events.onResponse({ status: 200, length: -1, fields: [] }, false);
      events.onReset("refused", "");
    }, ["responded", "response_reset", ""]],
  ] as readonly (readonly [string, (events: ResponseEvents) => void, readonly string[]])[]
) {
  test(`UpstreamRequest says whether an endpoint received a request that ${what}`, () => {
    assert.deepEqual(callbacksAfter(break_), calls);
  });
}

test("UpstreamRequest keeps its hash over retries, and adds the cookie once, to the response", () => {
  const hashes: (number | undefined)[] = [];
  let events: ResponseEvents | undefined;
  const connection = {
    reached: { host: "10.0.0.9:80" } as PooledEndpoint,
    isUsed: false,
    request(_head: RequestHead, _options: unknown, own: ResponseEvents) {
      events = own;
      return {} as ClientExchange;
    },
  };
  const pool: RequestPool = {
    cluster: "",
    enter: () => true,
    leave() {},
    whyFull: () => "",
    endpoints: () => ({ known: 1, usable: 1 }),
    acquire(handler: AttemptHandler<PooledConnection>, hash) {
      hashes.push(hash);
      handler.onDialled(connection as Partial<PooledConnection> as PooledConnection);
      return { cancel() {} };
    },
  };
  const received: Fields[] = [];
  const sink = {
    reached() {},
    bodyWanted() {},
    responseData() {},
    responseEnd() {},
    bodyHeld() {},
    informed: ({ fields }: ResponseHead) => void received.push(fields),
    responded: ({ fields }: ResponseHead) => void received.push(fields),
    upstreamFailed() {},
  };
  const made = { maxAgeSeconds: 0, path: "" };
  const hash = [{ kind: "cookie", name: "c", made, terminal: false } as const];
  const options = { request: { ...HEAD, fields: [] }, endsWithHead: true, remote: "10.0.0.1:1" };
  new UpstreamRequest(sink, options, { pool, hash, context: {} as Context }).start();
  events?.onReset("refused", "");
  events?.onInformational({ status: 103, length: 0, fields: [] });
  events?.onResponse({ status: 200, length: 0, fields: ["server", "db", "server"] }, true);
  assert.equal(hashes.length, 2);
  assert.equal(typeof hashes[0], "number");
  assert.equal(hashes[1], hashes[0]);
  const [informed, answered] = received;
  assert.deepEqual(informed, []);
  assert.deepEqual(answered?.filter((text) => text.startsWith("c=")).length, 1);
  assert.equal(answered?.filter((text) => text === "set-cookie").length, 2, "name and spelling");
});
