/** One trace over two sidecars: positions, decisions, forms of headers, and what the spans say. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { FinishedSpan } from "../../src/proxy/mod.ts";
import { tracingPart } from "../../src/source/parts/tracing.ts";
import type { PluginUse, TracingChoice, TracingPart } from "../../src/snapshot/mod.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { httpRules, intention } from "../kit/engine/snapshots.ts";
import { eventually } from "../kit/process/process.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../kit/wire/http_raw.ts";

const COLLECTOR = { format: "otlp_json", url: "http://127.0.0.1:1/", headers: {} } as const;

function partOf(choice: TracingChoice, version: number): TracingPart {
  const context = { previous: undefined, version, service: "any" };
  const part = tracingPart({ collector: COLLECTOR, ...choice }, undefined, context);
  assert.ok(part);
  return part;
}

let version = 0;

/** A pair that is traced with `choice`, its spans, and the heads that the application gets. */
async function startTracedPair(
  choice: TracingChoice,
  options: { readonly allow?: boolean; readonly plugins?: readonly PluginUse[] } = {},
) {
  const heads: string[] = [];
  const origin = await startRawOrigin(({ head }) => {
    heads.push(head);
    return answerOf("ok");
  });
  const spans = { web: [] as FinishedSpan[], db: [] as FinishedSpan[] };
  const pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http"), plugins: options.plugins ?? [] },
    upstream: { http: httpRules("http") },
    intentions: [intention("web", options.allow === false ? "deny" : "allow")],
    web: { takeSpan: (span) => void spans.web.push(span) },
    db: { takeSpan: (span) => void spans.db.push(span) },
  });
  const part = partOf(choice, ++version);
  await pair.db.set({ ...pair.dbSnapshot, tracing: part });
  await pair.web.set({ ...pair.webSnapshot, tracing: part });
  const client = await RawClient.open({ host: "127.0.0.1", port: pair.port });
  return {
    /** Number of spans of the last request. */
    get count(): number {
      return spans.web.length + spans.db.length;
    },
    /** The trace headers that the application gets, in the order of their names. */
    async ask(fields: readonly string[], path = "/x"): Promise<string[]> {
      spans.web.length = spans.db.length = 0;
      client.send(`GET ${path} HTTP/1.1\r\n${["Host: db", ...fields].join("\r\n")}\r\n\r\n`);
      const status = statusOf(await client.response());
      if (!options.plugins) assert.equal(status, options.allow === false ? 403 : 200);
      const lines = heads.at(-1)?.split("\r\n") ?? [];
      return lines.filter((line) => /^(trace|b3|x-b3|x-datadog)/i.test(line)).toSorted();
    },
    async both(): Promise<{ readonly web: FinishedSpan; readonly db: FinishedSpan }> {
      await eventually("both spans", () => spans.web.length > 0 && spans.db.length > 0);
      const [web, db] = [spans.web.at(-1), spans.db.at(-1)];
      assert.ok(web && db);
      return { web, db };
    },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await pair[Symbol.asyncDispose]();
      await origin[Symbol.asyncDispose]();
    },
  };
}

function attributeOf({ attributes }: FinishedSpan, name: string): unknown {
  const at = attributes.findIndex((item, index) => index % 2 === 0 && item === name);
  return at < 0 ? undefined : attributes[at + 1];
}

test("a request makes a client span of its caller and a server span below it", async () => {
  await using rig = await startTracedPair({ ratio: 1 });
  const headers = await rig.ask([], "/orders/7?token=secret");
  const { web, db } = await rig.both();
  assert.match(web.traceId, /^[0-9a-f]{32}$/);
  assert.deepEqual([web.kind, web.parentId, web.name], ["client", "", "egress db"]);
  assert.deepEqual([db.kind, db.parentId, db.name], ["server", web.spanId, "ingress db"]);
  assert.equal(db.traceId, web.traceId);
  assert.deepEqual(headers, [`traceparent: 00-${db.traceId}-${db.spanId}-01`]);
  for (const span of [web, db]) {
    assert.equal(attributeOf(span, "http.request.method"), "GET");
    assert.equal(attributeOf(span, "url.path"), "/orders/7");
    assert.equal(attributeOf(span, "http.response.status_code"), 200);
    assert.equal(attributeOf(span, "response_flags"), "-");
    assert.equal(span.error, "");
    assert.ok(!JSON.stringify(span).includes("secret"));
  }
  assert.ok(String(attributeOf(db, "postern.peer")).endsWith("/svc/web"));
  assert.ok(String(attributeOf(web, "postern.peer")).endsWith("/svc/db"));
  assert.equal(attributeOf(db, "upstream_cluster"), "local_app");
  assert.ok(web.durationMs >= db.durationMs);
});

test("a denied request has a span that says who denied it", async () => {
  await using rig = await startTracedPair({ ratio: 1 }, { allow: false });
  await rig.ask([]);
  const { db } = await rig.both();
  assert.equal(attributeOf(db, "http.response.status_code"), 403);
  assert.equal(attributeOf(db, "postern.code"), "intention_denied");
  assert.match(String(attributeOf(db, "postern.intention")), /web => test \(deny\)/);
});

test("a plugin that decides a request is an event of its span", async () => {
  const limits = [{ requestsPerSecond: 0.01, burst: 1 }];
  const use = { plugin: "rate_limit", config: { limits }, onFailure: "refuse" } as const;
  await using rig = await startTracedPair({ ratio: 1 }, {
    plugins: [{ ...use, at: "plugins[0]" }],
  });
  await rig.ask([]);
  const passed = await rig.both();
  assert.deepEqual(passed.db.events, []);
  await rig.ask([]);
  const { db } = await rig.both();
  const [{ name, afterMs, attributes } = { name: "", afterMs: -1, attributes: [] }] = db.events;
  assert.deepEqual([name, ...attributes], [
    "plugin",
    ...["postern.plugin", "rate_limit", "postern.phase", "guard"],
    ...["postern.action", "refused", "postern.code", "rate_limited"],
  ]);
  assert.ok(afterMs >= 0 && afterMs <= db.durationMs);
});

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

test("the caller's decision counts before the ratio, and the position goes on", async () => {
  await using none = await startTracedPair({ ratio: 0 });
  const sampled = await none.ask([`traceparent: 00-${TRACE}-${PARENT}-01`, "tracestate: a=b"]);
  const { web, db } = await none.both();
  assert.deepEqual([web.traceId, web.parentId, db.parentId], [TRACE, PARENT, web.spanId]);
  assert.deepEqual(sampled, [`traceparent: 00-${TRACE}-${db.spanId}-01`, "tracestate: a=b"]);
  const [root = ""] = await none.ask([]);
  assert.match(root, /^traceparent: 00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
  assert.equal(none.count, 0);

  await using all = await startTracedPair({ ratio: 1 });
  const unsampled = [`traceparent: 00-${TRACE}-${PARENT}-00`];
  assert.deepEqual(await all.ask(unsampled), unsampled);
  assert.equal(all.count, 0);
  await using own = await startTracedPair({ ratio: 1, obeysCaller: false });
  await own.ask(unsampled);
  assert.equal((await own.both()).web.parentId, PARENT);
});

test("a trace in B3 goes on in B3, and one in Datadog's form in that", async () => {
  await using rig = await startTracedPair({
    propagation: { read: ["b3"], write: ["b3"], writesCarried: false },
    ratio: 0,
  });
  const single = await rig.ask([`b3: ${TRACE}-${PARENT}-1`]);
  const { web, db } = await rig.both();
  assert.deepEqual([web.traceId, web.parentId], [TRACE, PARENT]);
  assert.deepEqual(single, [`b3: ${TRACE}-${db.spanId}-1-${web.spanId}`]);

  await using multi = await startTracedPair({ ratio: 0 });
  const fields = [`X-B3-TraceId: ${PARENT}`, `X-B3-SpanId: ${PARENT}`, "X-B3-Sampled: 1"];
  const answer = await multi.ask(fields);
  const last = await multi.both();
  assert.deepEqual(
    answer,
    [
      `traceparent: 00-${"0".repeat(16)}${PARENT}-${last.db.spanId}-01`,
      `x-b3-parentspanid: ${last.web.spanId}`,
      "X-B3-Sampled: 1",
      `X-B3-SpanId: ${last.db.spanId}`,
      `X-B3-TraceId: ${PARENT}`,
    ].toSorted(),
  );

  const datadog = ["x-datadog-trace-id: 5", "x-datadog-parent-id: 6"];
  const seen = await multi.ask([...datadog, "x-datadog-sampling-priority: 1"]);
  const third = await multi.both();
  assert.equal(third.web.traceId, "5".padStart(32, "0"));
  assert.equal(third.web.parentId, "6".padStart(16, "0"));
  const spanId = BigInt(`0x${third.db.spanId}`).toString();
  assert.ok(seen.includes(`x-datadog-parent-id: ${spanId}`), seen.join());
  assert.ok(seen.includes("x-datadog-trace-id: 5"));
});

test("a connection that carries bytes has a span on each side where asked", async () => {
  await using origin = await startRawOrigin(() => answerOf("ok"));
  const spans: FinishedSpan[] = [];
  const takeSpan = (span: FinishedSpan) => void spans.push(span);
  await using pair = await startPathPair({
    localPort: origin.port,
    web: { takeSpan },
    db: { takeSpan },
  });
  const part = partOf({ connections: true }, ++version);
  await pair.db.set({ ...pair.dbSnapshot, tracing: part });
  await pair.web.set({ ...pair.webSnapshot, tracing: part });
  {
    await using client = await RawClient.open({ host: "127.0.0.1", port: pair.port });
    client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    assert.equal(statusOf(await client.response()), 200);
  }
  const both = await eventually("both spans", () => spans.length === 2 && spans);
  assert.deepEqual(both.map(({ name }) => name).toSorted(), ["egress db tcp", "ingress db tcp"]);
  const db = both.find(({ kind }) => kind === "server");
  assert.ok(db && String(attributeOf(db, "postern.peer")).endsWith("/svc/web"));
  assert.ok(Number(attributeOf(db, "postern.received_bytes")) > 20);
});
