/** Requests that break the protocol, on each kind of listener: one line, one count, a bounded log. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import type { End } from "../../../test/kit/engine/memory_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  targetOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Snapshot } from "../../snapshot/mod.ts";

const CA = createAuthority();
const WEB = CA.issueLeaf({ service: "web" });
const HTTP = httpRules("http");
const LOCAL = { kind: "tcp", host: "127.0.0.1", port: 9090 } as const;
const at = (port: number) => ({ kind: "tcp", host: "127.0.0.1", port }) as const;
const MESH = snapshotOf({
  ca: CA,
  service: "db",
  local: LOCAL,
  intentions: [intention("web", "allow")],
  upstreams: [{ name: "pay", http: HTTP }],
  targets: [targetOf({ name: "pay", uris: ["spiffe://pay"], ports: [1] })],
});
const SNAPSHOT: Snapshot = {
  ...withInbound(MESH, { http: HTTP }),
  exposed: {
    "exposed:21500": {
      version: 1,
      bind: at(21_500),
      path: "/health",
      local: LOCAL,
      localConnectTimeoutMs: 1_000,
      http: HTTP,
    },
  },
  edges: {
    "ingress:8080": {
      id: "ingress:8080",
      version: 1,
      bind: at(8_080),
      http: HTTP,
      listener: null,
      plugins: [],
      hosts: [{ names: ["*"], upstream: "service:default/default/pay" }],
    },
  },
  accessLog: {
    version: 1,
    to: { kind: "stdout" },
    format: { kind: "default" },
    listeners: true,
  },
};

async function rig() {
  const taken: string[] = [];
  const path = await startMemoryPath(SNAPSHOT, { takeLine: (line) => void taken.push(line) });
  return {
    path,
    taken,
    count: (name: string, label: string) =>
      path.path.stats.samples().filter((sample) =>
        sample.name === name && Object.values(sample.labels).includes(label)
      ).reduce((sum, { value }) => sum + value, 0),
    linesOf: (message: string) => path.lines.filter((line) => line.message === message),
    [Symbol.asyncDispose]: () => path[Symbol.asyncDispose](),
  };
}

const LISTENERS: Readonly<Record<string, (path: MemoryPath) => End>> = {
  inbound: (path) => path.engine.callSecurely(path.port("")).prove(presented(WEB)),
  outbound: (path) => path.engine.call(path.port("pay")),
  exposed: (path) => path.engine.call(21_500),
  edge: (path) => path.engine.call(8_080),
};

for (const [kind, call] of Object.entries(LISTENERS)) {
  for (
    const [what, text, status, details] of [
      ["is no HTTP", "\x16\x03garbage\r\n\r\n", 400, "http1.codec_error"],
      [
        "has two lengths",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        400,
        "http1.codec_error",
      ],
      [
        "has too large a head",
        `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(70_000)}\r\n\r\n`,
        431,
        "http1.headers_too_large",
      ],
    ] as const
  ) {
    test(`a request that ${what} writes one line at a listener of kind ${kind}, as in Envoy`, async () => {
      await using it = await rig();
      const client = call(it.path);
      client.send(text);
      await settle();
      assert.match(client.received, new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.equal(it.taken.length, 1);
      const line = JSON.parse(it.taken[0] ?? "");
      assert.deepEqual(
        [line.method, line.response_code, line.response_flags, line.response_code_details],
        [null, status, "DPE", details],
      );
      assert.ok(line.connection_termination_details);
      assert.equal(it.count("http_requests_failed_total", "request_invalid"), 1);
      assert.equal(it.count("http_response_flags_total", "DPE"), 1);
      const [failed, more] = it.linesOf("request failed");
      assert.deepEqual([failed?.fields.code, failed?.fields.status], ["request_invalid", status]);
      assert.equal(failed?.fields.reason, line.connection_termination_details);
      assert.equal(more, undefined);
    });
  }
}

test("a flood of invalid requests writes one line and a sum to the log, and each is counted", async () => {
  await using it = await rig();
  for (let i = 0; i < 100; i++) {
    LISTENERS["exposed"]?.(it.path).send("garbage\r\n\r\n");
    await settle();
  }
  await it.path.clock.advance(1_000);
  assert.equal(it.taken.length, 100);
  assert.equal(it.count("http_requests_failed_total", "request_invalid"), 100);
  assert.equal(it.linesOf("request failed").length, 1);
  const sums = it.linesOf("more requests failed").map(({ fields }) => [fields.code, fields.count]);
  assert.deepEqual(sums, [["request_invalid", 99]]);
});

test("a request with an invalid body has one complete line", async () => {
  await using it = await rig();
  const client = LISTENERS["inbound"]?.(it.path) ?? assert.fail();
  client.send("POST /a?token=1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  await settle();
  it.path.engine.lastDial.connect();
  await settle();
  client.send("zz\r\n");
  await settle();
  assert.match(client.received, /^HTTP\/1\.1 400 /);
  const lines = it.taken.map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ method, response_code, response_flags, response_code_details, upstream_host }) => [
      method,
      response_code,
      response_flags,
      response_code_details,
      upstream_host,
    ]),
    [["POST", 400, "DPE", "http1.codec_error", "127.0.0.1:9090"]],
  );
  assert.equal(it.count("http_requests_failed_total", "request_invalid"), 1);
  const [failed] = it.linesOf("request failed");
  // The query is not logged.
  assert.deepEqual([failed?.fields.code, failed?.fields.path], ["request_invalid", "/a"]);
});
