import assert from "node:assert/strict";
import { test } from "node:test";
import { parseFlags } from "./parse_flags.ts";
import { PROXY_FLAGS } from "./proxy_flags.ts";
import { readTelemetry } from "./trace_options.ts";

function read(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const flags = parseFlags(argv, PROXY_FLAGS, { command: "postern proxy", env });
  return readTelemetry(flags, env);
}

const OTLP = { format: "otlp_protobuf", headers: {} } as const;

for (
  const [name, argv, env, wanted] of [
    ["nothing", [], {}, undefined],
    ["flags", ["-trace-to", "http://c:4318", "-trace-sample", "0.5%", "-trace-connections"], {}, {
      collector: { ...OTLP, url: "http://c:4318/v1/traces" },
      ratio: 0.005,
      connections: true,
    }],
    ["an address for all signals", [], { OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318/base/" }, {
      collector: { ...OTLP, url: "http://c:4318/base/v1/traces" },
    }],
    ["an address for traces before it", [], {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://a",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://c/x",
      OTEL_EXPORTER_OTLP_HEADERS: "a=1,B=x%3Dy",
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: "a=2",
      OTEL_EXPORTER_OTLP_CERTIFICATE: "/ca.pem",
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    }, {
      collector: {
        format: "otlp_json",
        url: "https://c/x",
        headers: { a: "2", b: "x=y" },
        files: { ca: "/ca.pem" },
      },
    }],
    ["gRPC", [], {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4317",
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
    }, { collector: { format: "otlp_grpc", url: "http://c:4317/", headers: {} } }],
    ["Zipkin", [], { OTEL_TRACES_EXPORTER: "zipkin" }, {
      collector: { format: "zipkin_json", url: "http://localhost:9411/api/v2/spans", headers: {} },
    }],
    [
      "a flag before a variable",
      ["-trace-to", "off"],
      { OTEL_EXPORTER_OTLP_ENDPOINT: "http://c" },
      {
        collector: "off",
      },
    ],
    ["a sampler and names", [], {
      OTEL_TRACES_SAMPLER: "traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0.25",
      OTEL_PROPAGATORS: "b3,baggage",
      OTEL_RESOURCE_ATTRIBUTES: "service.name=web,zone=a",
    }, {
      ratio: 0.25,
      obeysCaller: false,
      propagation: { read: ["b3"], write: ["b3"], writesCarried: false },
      service: "web",
      resource: { zone: "a" },
    }],
    ["a disabled SDK", [], { OTEL_SDK_DISABLED: "true", OTEL_SERVICE_NAME: "x" }, {
      collector: "off",
    }],
  ] as const
) {
  test(`readTelemetry() reads ${name}`, () => {
    const { tracing, warnings } = read(argv, env);
    assert.deepEqual(warnings, []);
    assert.deepEqual(tracing, wanted);
  });
}

for (
  const [name, argv, env, wanted] of [
    [
      "flags",
      [
        "-metrics-to",
        "http://c:4318",
        "-metrics-interval",
        "5s",
        "-logs-to",
        "http://d",
        "-logs-access",
      ],
      {},
      {
        metrics: { collector: { ...OTLP, url: "http://c:4318/v1/metrics" }, intervalMs: 5_000 },
        logs: { collector: { ...OTLP, url: "http://d/v1/logs" }, access: true },
      },
    ],
    ["an address for all signals", [], {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318",
      OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "grpc",
      OTEL_METRIC_EXPORT_INTERVAL: "10000",
      OTEL_LOGS_EXPORTER: "none",
      OTEL_EXPORTER_OTLP_METRICS_HEADERS: "k=1",
    }, {
      metrics: {
        collector: { format: "otlp_grpc", url: "http://c:4318/", headers: { k: "1" } },
        intervalMs: 10_000,
      },
      logs: { collector: "off" },
    }],
    ["a flag before a variable", ["-metrics-to", "off"], {
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://c/m",
      OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: "http://c/l",
    }, {
      metrics: { collector: "off" },
      logs: { collector: { ...OTLP, url: "http://c/l" } },
    }],
    ["nothing", [], { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://c" }, undefined],
  ] as const
) {
  test(`readTelemetry() reads metrics and logs of ${name}`, () => {
    const { telemetry, warnings } = read(argv, env);
    assert.deepEqual(warnings, []);
    assert.deepEqual(telemetry, wanted);
  });
}

for (
  const [env, reason] of [
    [{
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://c",
      OTEL_METRIC_EXPORT_INTERVAL: "1s",
    }, 'OTEL_METRIC_EXPORT_INTERVAL is ignored: "1s" is no number of milliseconds'],
    [{
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://c",
      OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "delta",
    }, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE is ignored: only cumulative is sent"],
    [{ OTEL_LOGS_EXPORTER: "console" }, 'OTEL_LOGS_EXPORTER is ignored: "console" is neither otlp'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "c:4318" }, "OTEL_EXPORTER_OTLP_ENDPOINT is ignored: want an"],
    [{ OTEL_PROPAGATORS: "jaeger,b3" }, '"jaeger" in OTEL_PROPAGATORS is ignored: want some of'],
    [{ OTEL_TRACES_SAMPLER: "xray" }, 'OTEL_TRACES_SAMPLER is ignored: "xray" is none of'],
    [{ OTEL_TRACES_EXPORTER: "console" }, 'OTEL_TRACES_EXPORTER is ignored: "console" is none'],
    [{
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://c",
      OTEL_EXPORTER_OTLP_HEADERS: "secret",
    }, "an entry of OTEL_EXPORTER_OTLP_HEADERS is ignored: it is no key=value"],
  ] as const
) {
  test(`readTelemetry() names ${Object.keys(env).at(-1)} that it cannot use`, () => {
    const { warnings } = read([], env);
    assert.equal(warnings.length, 1);
    assert.ok(warnings[0]?.startsWith(reason), warnings.join());
    assert.doesNotMatch(warnings.join(), /secret/);
  });
}

for (
  const [argv, reason] of [
    [["-trace-to", "c:1"], /Cannot read -trace-to "c:1": want an address/],
    [["-trace-to", "http://c", "-trace-sample", "101%"], /Cannot read -trace-sample "101%"/],
    [["-metrics-to", "c:1"], /Cannot read -metrics-to "c:1": want an address/],
    [["-logs-to", "http://c/api/v2/spans"], /-logs-to .*Zipkin takes spans only/],
    [["-metrics-interval", "10ms"], /metrics-interval/],
    [["-trace-sample", "0.1"], /want a share from 0% to 100%, such as 1%/],
  ] as const
) {
  test(`readTelemetry() refuses ${argv.join(" ")}`, () => assert.throws(() => read(argv), reason));
}
