import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClientExchange, RequestHead, ResponseEvents } from "../../http/mod.ts";
import type { Dialler } from "../attempt.ts";
import type { Context } from "../context.ts";
import type { RequestWays } from "./request_ways.ts";
import { UpstreamRequest } from "./upstream_request.ts";
import type { Way } from "./ways.ts";

const HEAD: RequestHead = {
  ...{ method: "POST", scheme: "http", authority: "db", path: "/", upgrade: "", length: 3 },
  ...{ saysLength: true, expectsContinue: false, version: "HTTP/2", fields: [] },
};

/** What an asker is told of a POST of which some was sent, when `break_` happens to it. */
function toldOf(break_: (events: ResponseEvents) => void): unknown[] {
  const told: unknown[] = [];
  let events: ResponseEvents | undefined;
  const exchange = { send: () => true, reset() {} } as Partial<ClientExchange> as ClientExchange;
  const way: Pick<Way, "host" | "isUsed" | "request"> = {
    ...{ host: "10.0.0.9:80", isUsed: false },
    request(_head, _ends, own) {
      events = own;
      return exchange;
    },
  };
  const ways: RequestWays = {
    ...{ cluster: "", limit: "", needsHash: false, enter: () => true, leave() {} },
    reach(dialler: Dialler<Way>) {
      dialler.onDialled(way as Way);
      return { cancel() {} };
    },
  };
  const request = new UpstreamRequest(
    {
      ...{ reached() {}, takesBody() {}, informed() {}, responseData() {}, responseEnd() {} },
      holdsBody: () => void told.push("holds"),
      responded: () => void told.push("responded"),
      upstreamFailed: (code, _reason, tried) => void told.push(code, tried),
    },
    { request: HEAD, endsWithHead: false, remote: "" },
    { ways, context: {} as Context },
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
