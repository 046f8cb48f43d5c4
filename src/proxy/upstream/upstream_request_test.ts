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
import { RequestHash } from "./request_hash.ts";
import type { RequestPool } from "./request_pools.ts";
import { UpstreamRequest } from "./upstream_request.ts";
import type { PooledConnection } from "./connection_pool.ts";

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

/** What an asker is told of a POST of which some was sent, when `break_` happens to it. */
function toldOf(break_: (events: ResponseEvents) => void): unknown[] {
  const told: unknown[] = [];
  let events: ResponseEvents | undefined;
  const exchange = { send: () => true, reset() {} } as Partial<ClientExchange> as ClientExchange;
  const way: Pick<PooledConnection, "host" | "isUsed" | "request"> = {
    host: "10.0.0.9:80",
    isUsed: false,
    request(_head, _ends, own) {
      events = own;
      return exchange;
    },
  };
  const ways: RequestPool = {
    cluster: "",
    enter: () => true,
    leave() {},
    whyFull: () => "",
    acquire(dialler: AttemptHandler<PooledConnection>) {
      dialler.onDialled(way as PooledConnection);
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
      bodyHeld: () => void told.push("holds"),
      responded: () => void told.push("responded"),
      upstreamFailed: (code, _reason, tried) => void told.push(code, tried),
    },
    { request: HEAD, endsWithHead: false, remote: "" },
    { pool: ways, context: {} as Context },
  );
  request.start();
  request.send(new Uint8Array(1));
  assert.ok(events);
  break_(events);
  return told;
}

for (
  const [what, break_, told] of [
    // Who had it and refused it did not act on it (RFC 9113 8.7), though some of its body is gone.
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
  test(`UpstreamRequest tells whether an endpoint had a request that ${what}`, () => {
    assert.deepEqual(toldOf(break_), told);
  });
}

test("what is hashed stays the same when it is sent again, and a cookie is told once, with the answer", () => {
  const hashes: (number | undefined)[] = [];
  let events: ResponseEvents | undefined;
  const way = {
    host: "10.0.0.9:80",
    isUsed: false,
    request(_head: RequestHead, _options: unknown, own: ResponseEvents) {
      events = own;
      return {} as ClientExchange;
    },
  };
  const ways: RequestPool = {
    cluster: "",
    enter: () => true,
    leave() {},
    whyFull: () => "",
    acquire(dialler: AttemptHandler<PooledConnection>, hash) {
      hashes.push(hash);
      dialler.onDialled(way as Partial<PooledConnection> as PooledConnection);
      return { cancel() {} };
    },
  };
  const told: Fields[] = [];
  const asker = {
    reached() {},
    bodyWanted() {},
    responseData() {},
    responseEnd() {},
    bodyHeld() {},
    informed: ({ fields }: ResponseHead) => void told.push(fields),
    responded: ({ fields }: ResponseHead) => void told.push(fields),
    upstreamFailed() {},
  };
  const made = { maxAgeSeconds: 0, path: "" };
  const hash = new RequestHash([{ kind: "cookie", name: "c", made, terminal: false }]);
  const asked = { request: { ...HEAD, fields: [] }, endsWithHead: true, remote: "10.0.0.1:1" };
  new UpstreamRequest(asker, asked, { pool: ways, hash, context: {} as Context }).start();
  events?.onReset("refused", "");
  events?.onInformational({ status: 103, length: 0, fields: [] });
  events?.onResponse({ status: 200, length: 0, fields: ["server", "db", "server"] }, true);
  assert.equal(hashes.length, 2);
  assert.equal(typeof hashes[0], "number");
  assert.equal(hashes[1], hashes[0]);
  const [informed, answered] = told;
  assert.deepEqual(informed, []);
  assert.deepEqual(answered?.filter((text) => text.startsWith("c=")).length, 1);
  assert.equal(answered?.filter((text) => text === "set-cookie").length, 2, "name and spelling");
});
