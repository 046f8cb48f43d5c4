import assert from "node:assert/strict";
import { test } from "node:test";
import { inboundHttp, INCOMING_PATH, protocolOf, unjudgedHttp } from "./http_rules.ts";

for (
  const [written, want] of [
    ["tcp", "tcp"],
    ["http", "http"],
    ["HTTP2", "http2"],
    ["grpc", "grpc"],
    ["http3", undefined],
    ["constructor", undefined],
  ] as const
) {
  test(`protocolOf() takes "${written}" as ${want}`, () => assert.equal(protocolOf(written), want));
}

test("inboundHttp() normalises paths and ends no exchange but a silent one", () => {
  assert.equal(inboundHttp("tcp"), null);
  assert.deepEqual(inboundHttp("http"), {
    protocol: "http",
    path: { normalize: true, mergeSlashes: false, escapedSlashes: "keep", underscores: "allow" },
    sanitizeForwardedClientCert: false,
    headBytes: 60 * 1024,
    requestTimeoutMs: 0,
    streamIdleTimeoutMs: 300_000,
    showDenials: "code",
  });
  assert.equal(inboundHttp("grpc")?.sanitizeForwardedClientCert, true);
});

test("inboundHttp() takes what is configured", () => {
  const settings = {
    path: { ...INCOMING_PATH, mergeSlashes: true },
    sanitizeForwardedClientCert: true,
    headBytes: 1_024,
    requestTimeoutMs: 1_500,
    streamIdleTimeoutMs: 0,
    showDenials: "rule" as const,
  };
  assert.deepEqual(inboundHttp("http2", settings), { protocol: "http2", ...settings });
});

test("unjudgedHttp() leaves paths as they are and sanitizes the forwarded client certificate", () => {
  assert.equal(unjudgedHttp("tcp"), null);
  const rules = unjudgedHttp("http2");
  assert.deepEqual([rules?.path.normalize, rules?.sanitizeForwardedClientCert], [false, true]);
});
