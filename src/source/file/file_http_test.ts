import assert from "node:assert/strict";
import { test } from "node:test";
import type { HttpRules } from "../../snapshot/mod.ts";
import { type FileConfig, parseFileConfig } from "./file_config.ts";
import { fileInboundHttp, fileUpstreamHttp } from "./file_http.ts";

const OPTIONS = { file: "/etc/postern/web.json", env: {} };

function parse(inbound: object, upstream: object) {
  const config = {
    service: "web",
    trustDomain: "mesh.example",
    credentials: { certFile: "a", keyFile: "b", rootsFile: "c" },
    inbound: { bind: ":20000", local: "127.0.0.1:8080", ...inbound },
    upstreams: [{
      name: "db",
      bind: "127.0.0.1:9191",
      addresses: ["10.0.0.7:20000"],
      identity: { service: "db" },
      ...upstream,
    }],
  };
  return parseFileConfig(JSON.stringify(config), OPTIONS);
}

function configOf(inbound: object, upstream: object = {}): FileConfig {
  const parsed = parse(inbound, upstream);
  assert.ok(parsed.kind === "valid", JSON.stringify(parsed));
  return parsed.config;
}

const inboundRules = (inbound: object): HttpRules | null => {
  const config = configOf(inbound).inbound;
  assert.ok(config);
  return fileInboundHttp(config);
};

const upstreamRules = (upstream: object): HttpRules | null => {
  const [config] = configOf({}, upstream).upstreams;
  assert.ok(config);
  return fileUpstreamHttp(config);
};

test("a listener without a protocol carries bytes", () => {
  assert.deepEqual([inboundRules({}), upstreamRules({})], [null, null]);
  assert.deepEqual([inboundRules({ protocol: "tcp" }), upstreamRules({ protocol: "tcp" })], [
    null,
    null,
  ]);
});

test("fileInboundHttp() has Consul's defaults, and no time for a request", () => {
  assert.deepEqual(inboundRules({ protocol: "http" }), {
    protocol: "http",
    path: { normalize: true, mergeSlashes: false, escapedSlashes: "keep", underscores: "allow" },
    sanitizeForwardedClientCert: false,
    headBytes: 61_440,
    requestTimeoutMs: 0,
    streamIdleTimeoutMs: 300_000,
    showDenials: "code",
  });
});

test("fileInboundHttp() takes the settings of the file", () => {
  const http = {
    requestTimeout: "30s",
    streamIdleTimeout: "0s",
    headBytes: 2_048,
    paths: { mergeSlashes: true, escapedSlashes: "redirect", underscores: "reject" },
    sanitizeForwardedClientCert: true,
    showDenials: "rule",
  };
  assert.deepEqual(inboundRules({ protocol: "http2", http }), {
    protocol: "http2",
    path: {
      normalize: true,
      mergeSlashes: true,
      escapedSlashes: "redirect",
      underscores: "reject",
    },
    sanitizeForwardedClientCert: true,
    headBytes: 2_048,
    requestTimeoutMs: 30_000,
    streamIdleTimeoutMs: 0,
    showDenials: "rule",
  });
});

test("a flag of earlier versions is a word of showDenials", () => {
  const shown = (showDenials: unknown) =>
    upstreamRules({ protocol: "http", http: { showDenials } })?.showDenials;
  assert.deepEqual([shown(true), shown(false), shown("off")], ["rule", "off", "off"]);
});

test("fileUpstreamHttp() changes a path only where it is configured", () => {
  const paths = { escapedSlashes: "reject" };
  const plain = upstreamRules({ protocol: "grpc", http: { requestTimeout: "1s" } });
  assert.deepEqual([plain?.protocol, plain?.path.normalize, plain?.requestTimeoutMs], [
    "grpc",
    false,
    1_000,
  ]);
  assert.deepEqual(upstreamRules({ protocol: "http", http: { paths } })?.path, {
    normalize: false,
    mergeSlashes: false,
    escapedSlashes: "reject",
    underscores: "allow",
  });
});

for (
  const [inbound, upstream, want] of [
    [{ protocol: "http3" }, {}, ["inbound.protocol must be tcp, http, http2 or grpc"]],
    [{ http: {} }, {}, [
      'inbound.http needs "protocol": "http", "http2" or "grpc" beside it',
    ]],
    [{}, { protocol: "tcp", http: {}, maxRequests: 1 }, [
      'upstreams[0].http needs "protocol": "http", "http2" or "grpc" beside it',
      'upstreams[0].maxRequests needs "protocol": "http", "http2" or "grpc" beside it',
    ]],
    [{ protocol: "grpc", http: { sanitizeForwardedClientCert: false } }, {}, [
      "inbound.http.sanitizeForwardedClientCert must be true or left out: a gRPC service is told " +
      "nothing of its callers",
    ]],
    [{ protocol: "http", http: { headBytes: 10 } }, {}, [
      "inbound.http.headBytes must be a whole number from 1024 to 8388608, not 10",
    ]],
    [{ protocol: "http", http: { paths: { escapedSlashes: "fold" } } }, {}, [
      "inbound.http.paths.escapedSlashes must be keep, reject, unescape or redirect",
    ]],
    [{ protocol: "http", http: { showDenials: "all" } }, {}, [
      "inbound.http.showDenials must be off, code or rule",
    ]],
    [{}, { protocol: "http", http: { sanitizeForwardedClientCert: true } }, [
      "upstreams[0].http.sanitizeForwardedClientCert is not known here; known are requestTimeout, " +
      "streamIdleTimeout, headBytes, paths, showDenials",
    ]],
  ] as const
) {
  test(`parseFileConfig() refuses ${JSON.stringify([inbound, upstream])}`, () => {
    const parsed = parse(inbound, upstream);
    assert.ok(parsed.kind === "invalid");
    const problems = parsed.problems.map(({ path, message }) => `${path} ${message}`);
    assert.deepEqual(problems, want);
  });
}
