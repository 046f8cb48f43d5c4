/**
 * The proxy of db tells that of web why it refused a request. Nobody else learns it, and nobody else is
 * believed.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Intention } from "../../src/policy/mod.ts";
import type { HttpRules, PluginUse, ShownDenials, Snapshot } from "../../src/snapshot/mod.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import { httpRules, intention } from "../kit/engine/snapshots.ts";
import { freePort } from "../kit/process/ports.ts";
import { answerOf, RawClient, startRawOrigin, statusOf, valuesOf } from "../kit/wire/http_raw.ts";
import { GRPC_MESSAGE } from "../kit/wire/response_plans.ts";
import { sendHttp2 } from "../kit/wire/send_request.ts";

const FIELD = "x-postern-denied-by";
const ASK = "GET /a?secret=1 HTTP/1.1\r\nHost: db\r\n\r\n";

function pairOf(
  localPort: number,
  { intentions = [intention("web", "deny")], db, web, protocol = "http", plugins = [] }: {
    readonly intentions?: readonly Intention[];
    readonly db?: Partial<HttpRules>;
    readonly web?: Partial<HttpRules>;
    readonly protocol?: HttpRules["protocol"];
    readonly plugins?: readonly PluginUse[];
  } = {},
): Promise<PathPair> {
  return startPathPair({
    localPort,
    intentions,
    inbound: { http: httpRules(protocol, db), plugins },
    upstream: { http: httpRules(protocol, web) },
  });
}

const outboundOf = ({ web }: PathPair) =>
  web.path.view({ connections: false }).traffic.refusals.filter(({ direction }) =>
    direction === "outbound"
  );

for (
  const [name, db, web, application, deniedBy, rule] of [
    ["the code", "code", "code", ["intention_denied"], "db", undefined],
    [
      "the rule as well",
      "rule",
      "code",
      ["intention_denied default/web => test (deny)"],
      "db: default/web => test (deny)",
      "default/web => test (deny)",
    ],
    ["the code, which the application does not get", "code", "off", [], "db", undefined],
  ] as const satisfies readonly (readonly [
    string,
    ShownDenials,
    ShownDenials,
    readonly string[],
    string,
    string | undefined,
  ])[]
) {
  test(`the caller's proxy learns ${name}`, async () => {
    await using origin = await startRawOrigin();
    await using pair = await pairOf(origin.port, {
      db: { showDenials: db },
      web: { showDenials: web },
    });
    const answer = await RawClient.ask({ host: "127.0.0.1", port: pair.port }, ASK);
    assert.equal(statusOf(answer), 403);
    assert.deepEqual(valuesOf(answer, FIELD), application);
    const { level, fields } = await pair.line(({ message }) =>
      message === "request refused by the upstream"
    );
    assert.equal(level, "warn");
    assert.deepEqual([fields.code, fields.denied_by, fields.upstream_rule, fields.path], [
      "intention_denied",
      "db",
      rule,
      "/a",
    ]);
    const [refusal, ...others] = outboundOf(pair);
    assert.equal(others.length, 0);
    assert.deepEqual([refusal?.code, refusal?.deniedBy, refusal?.rule, refusal?.listener], [
      "intention_denied",
      deniedBy,
      "",
      "db",
    ]);
    const counted = pair.web.path.stats.samples()
      .filter(({ name }) => name === "http_upstream_refusals_total");
    assert.deepEqual(counted.map(({ labels, value }) => [labels["code"], value]), [
      ["intention_denied", 1],
    ]);
  });
}

test("the caller's proxy learns nothing where the refusing one is not to tell", async () => {
  await using origin = await startRawOrigin();
  await using pair = await pairOf(origin.port, { db: { showDenials: "off" } });
  const answer = await RawClient.ask({ host: "127.0.0.1", port: pair.port }, ASK);
  assert.deepEqual([statusOf(answer), valuesOf(answer, FIELD)], [403, []]);
  assert.deepEqual(outboundOf(pair), []);
});

for (const status of ["200 OK", "403 Forbidden", "503 Service Unavailable"]) {
  test(`an application cannot pass for the proxy with a ${status}`, async () => {
    await using origin = await startRawOrigin(() =>
      answerOf("forged", `HTTP/1.1 ${status}\r\nX-Postern-Denied-By: intention_denied`)
    );
    await using pair = await pairOf(origin.port, { intentions: [intention("web", "allow")] });
    const answer = await RawClient.ask({ host: "127.0.0.1", port: pair.port }, ASK);
    assert.deepEqual([answer.body, valuesOf(answer, FIELD)], ["forged", []]);
    assert.deepEqual(outboundOf(pair), []);
  });
}

test("an application cannot pass for the proxy in early hints and in trailers", async () => {
  const forged = "X-Postern-Denied-By: intention_denied\r\n";
  await using origin = await startRawOrigin(() =>
    `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n${forged}\r\n` +
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Own: 1\r\n${forged}\r\n`
  );
  await using pair = await pairOf(origin.port, { intentions: [intention("web", "allow")] });
  await using client = await RawClient.open({ host: "127.0.0.1", port: pair.port });
  client.send(ASK.replace("\r\n\r\n", "\r\nTE: trailers\r\nConnection: TE\r\n\r\n"));
  const hints = await client.response();
  const answer = await client.response();
  assert.deepEqual([statusOf(hints), valuesOf(hints, FIELD)], [103, []]);
  assert.match(answer.trailers, /^x-own: 1$/im);
  assert.doesNotMatch(answer.raw, /denied-by/i);
});

test("the caller's proxy learns that the application is down", async () => {
  const origin = await startRawOrigin();
  await origin[Symbol.asyncDispose]();
  await using pair = await pairOf(origin.port, { intentions: [intention("web", "allow")] });
  const answer = await RawClient.ask({ host: "127.0.0.1", port: pair.port }, ASK);
  assert.deepEqual([statusOf(answer), valuesOf(answer, FIELD)], [503, ["local_refused"]]);
  assert.deepEqual(outboundOf(pair).map(({ code, deniedBy }) => [code, deniedBy]), [
    ["local_refused", "db"],
  ]);
});

test("a gRPC caller's proxy learns why as well", async () => {
  await using origin = await startRawOrigin();
  await using pair = await pairOf(origin.port, { protocol: "grpc" });
  const answer = await sendHttp2({ host: "127.0.0.1", port: pair.port }, {
    method: "POST",
    path: "/shop.Orders/Place",
    body: GRPC_MESSAGE,
    trailers: [],
    fields: ["content-type: application/grpc"],
    streamed: false,
    upgrade: false,
  });
  assert.ok(answer.fields.includes("grpc-status: 7"), answer.fields.join());
  assert.ok(answer.fields.includes(`${FIELD}: intention_denied`), answer.fields.join());
  assert.deepEqual(outboundOf(pair).map(({ code, deniedBy, status }) => [code, deniedBy, status]), [
    ["intention_denied", "db", 200],
  ]);
});

test("the caller's proxy learns that a plugin refuses", async () => {
  await using origin = await startRawOrigin(() => answerOf("ok"));
  const config = { limits: [{ requestsPerSecond: 0.01, burst: 1 }] };
  await using pair = await pairOf(origin.port, {
    intentions: [intention("web", "allow")],
    plugins: [{ plugin: "rate_limit", config, onFailure: "refuse", at: "plugins[0]" }],
  });
  const place = { host: "127.0.0.1", port: pair.port };
  await RawClient.ask(place, ASK);
  const answer = await RawClient.ask(place, ASK);
  assert.deepEqual([statusOf(answer), valuesOf(answer, FIELD)], [429, ["rate_limited"]]);
  assert.deepEqual(outboundOf(pair).map(({ code }) => code), ["rate_limited"]);
});

test("a stranger at an edge learns nothing, and the operator of the edge does", async () => {
  await using origin = await startRawOrigin();
  await using pair = await pairOf(origin.port);
  const id = "service:default/default/db";
  const { upstreams: { [id]: db } } = pair.webSnapshot;
  assert.ok(db);
  const port = await freePort("127.0.0.1");
  await pair.web.set({
    ...pair.webSnapshot,
    edges: {
      ingress: {
        id: "ingress",
        version: 900_001,
        bind: { kind: "tcp", host: "127.0.0.1", port },
        http: httpRules("http", { showDenials: "rule" }),
        plugins: [],
        listener: null,
        hosts: [{ names: ["*"], upstream: id }],
      },
    },
  } as Snapshot);
  const answer = await RawClient.ask({ host: "127.0.0.1", port }, ASK);
  assert.deepEqual([statusOf(answer), valuesOf(answer, FIELD)], [403, []]);
  assert.deepEqual(
    outboundOf(pair).map(({ listener, code, deniedBy }) => [listener, code, deniedBy]),
    [
      ["db", "intention_denied", "db"],
    ],
  );
  assert.deepEqual(
    pair.web.path.view({ connections: false }).refusing.map(({ upstream, caller, count }) => [
      upstream,
      caller,
      count,
    ]),
    [["db", "web", 1]],
  );
});
