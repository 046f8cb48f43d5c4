import assert from "node:assert/strict";
import { test } from "node:test";
import { inboundHttp, outboundHttp, protocolOf } from "./http_rules.ts";

for (
  const [written, want] of [
    ["tcp", "tcp"],
    ["http", "http"],
    ["HTTP2", "http2"],
    ["grpc", "grpc"],
    ["http3", "tcp"],
    ["", "tcp"],
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
    requestTimeoutMs: 0,
    streamIdleTimeoutMs: 300_000,
    showDenials: false,
  });
  assert.equal(inboundHttp("grpc")?.sanitizeForwardedClientCert, true);
});

test("outboundHttp() leaves paths as they are and takes nobody's word for who calls", () => {
  assert.equal(outboundHttp("tcp"), null);
  const rules = outboundHttp("http2");
  assert.deepEqual([rules?.path.normalize, rules?.sanitizeForwardedClientCert], [false, true]);
});
