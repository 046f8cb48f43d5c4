import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { httpRules, snapshotOf, withInbound } from "../../../test/kit/engine/snapshots.ts";
import type { ExposedPart } from "../../snapshot/mod.ts";
import { Stats } from "../../base/mod.ts";
import { type DownstreamFacts, ExchangeRecord, FLAG } from "../../http/mod.ts";
import { HttpStats } from "./http_stats.ts";

const DOWNSTREAM: DownstreamFacts = {
  id: 1,
  remote: "10.0.0.7:40312",
  local: "10.0.0.8:20000",
  requestedServerName: "",
  tlsVersion: "",
  peer: undefined,
  localUri: "",
};

function ended(given: Partial<ExchangeRecord>): ExchangeRecord {
  const record = new ExchangeRecord(DOWNSTREAM, undefined, { wallMs: 0, monotonicMs: 1_000 });
  return Object.assign(record, { endAt: 1_000, ...given });
}

function rig(speaksGrpc = false) {
  const stats = new Stats();
  const http = new HttpStats(stats, {
    direction: "inbound",
    listener: "inbound",
    speaksGrpc: () => speaksGrpc,
  });
  const shown = () =>
    stats.samples().filter(({ value, counts }) => value !== 0 || counts?.some((n) => n > 0))
      .map(({ name, labels, value }) => {
        const { direction: _, listener: __, ...rest } = labels;
        return [name, ...Object.values(rest), value].join(" ");
      }).sort();
  return { stats, http, shown };
}

test("HttpStats counts a successful exchange", () => {
  const { http, shown } = rig();
  http.began();
  assert.deepEqual(shown(), ["http_requests_active 1", "http_requests_total 1"]);
  const behind = http.of("local_app");
  behind.reached();
  behind.left();
  http.ended(ended({
    status: 200,
    receivedBytes: 5,
    sentBytes: 25,
    upstreamCluster: "local_app",
    attempts: 1,
    requestEndAt: 1_003,
    upstreamFirstByteAt: 1_010,
    endAt: 1_012.5,
  }));
  assert.deepEqual(shown(), [
    "http_received_bytes_total 5",
    "http_request_duration_ms 12.5",
    "http_requests_total 1",
    "http_responses_total 200 1",
    "http_sent_bytes_total 25",
    "http_upstream_requests_total local_app 1",
    "http_upstream_responses_total local_app 200 1",
    "http_upstream_time_ms local_app 9.5",
  ]);
});

test("HttpStats counts a failed exchange by flags, code and side, and its retries", () => {
  const { http, shown } = rig();
  http.began();
  for (let attempt = 0; attempt < 3; attempt++) http.of("db").reached();
  http.ended(ended({
    status: 503,
    flags: FLAG.UF | FLAG.URX,
    code: "endpoint_refused",
    endedBy: "upstream",
    upstreamCluster: "db",
    attempts: 3,
  }));
  assert.deepEqual(shown(), [
    "http_request_duration_ms 0",
    "http_requests_failed_total endpoint_refused upstream 1",
    "http_requests_total 1",
    "http_response_flags_total UF 1",
    "http_response_flags_total URX 1",
    "http_responses_total 503 1",
    "http_retries_total db 2",
    "http_upstream_requests_active db 3",
    "http_upstream_requests_total db 3",
    "http_upstream_responses_total db 503 1",
  ]);
});

test("HttpStats counts an exchange without a response and without an upstream", () => {
  const { http, shown } = rig();
  http.began();
  http.ended(ended({ flags: FLAG.DC, code: "downstream_reset", endedBy: "downstream" }));
  assert.deepEqual(shown(), [
    "http_request_duration_ms 0",
    "http_requests_failed_total downstream_reset downstream 1",
    "http_requests_total 1",
    "http_response_flags_total DC 1",
  ]);
});

test("HttpStats limits the statuses with a counter of their own", () => {
  const { http, stats } = rig();
  for (let status = 200; status < 600; status++) {
    http.began();
    http.ended(ended({ status }));
  }
  const responses = stats.samples().filter(({ name }) => name === "http_responses_total");
  assert.ok(responses.length <= 45, String(responses.length));
  assert.equal(responses.reduce((sum, { value }) => sum + value, 0), 400);
  assert.equal(responses.find(({ labels }) => labels["status"] === "4xx")?.value, 100);
});

test("HttpStats.forget() removes all metrics", () => {
  const { http, stats } = rig();
  http.began();
  http.ended(ended({ status: 503, flags: FLAG.UH, code: "no_endpoint", upstreamCluster: "x" }));
  assert.ok(stats.samples().length > 10);
  http.forget();
  assert.deepEqual(stats.samples(), []);
});

test("the counters of an HTTP listener exist, as zero, before the first request", async () => {
  const local = { kind: "tcp", host: "127.0.0.1", port: 9090 } as const;
  const http = httpRules("http");
  const mesh = snapshotOf({
    ca: createAuthority(),
    service: "db",
    local,
    upstreams: [{ name: "pay", http }],
  });
  const exposed: ExposedPart = {
    version: 1,
    bind: { kind: "tcp", host: "127.0.0.1", port: 21_500 },
    path: "/health",
    local,
    localConnectTimeoutMs: 1_000,
    http,
  };
  await using path = await startMemoryPath({ ...mesh, exposed: { "exposed:21500": exposed } });
  const counted = () =>
    path.path.stats.samples().flatMap(({ name, labels, value }) =>
      name === "http_requests_total" ? [`${labels["listener"]} ${value}`] : []
    ).sort();
  assert.deepEqual(counted(), ["exposed:21500 0", "service:default/default/pay 0"]);
  // The public listener speaks HTTP from here on.
  await path.set(withInbound({ ...mesh, exposed: { "exposed:21500": exposed } }, { http }));
  assert.deepEqual(counted(), ["exposed:21500 0", "inbound 0", "service:default/default/pay 0"]);
});
