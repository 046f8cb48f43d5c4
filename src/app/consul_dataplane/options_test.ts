import { strict as assert } from "node:assert";
import { DATAPLANE_FLAGS } from "../../consul/mod.ts";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { SETTINGS } from "./flags.ts";
import { type DataplaneInput, readDataplane } from "../../../test/kit/process/dataplane_options.ts";

const words = (text: string) => text.split(" ").filter((word) => word !== "");
const LEAST = words("-addresses consul.example -proxy-id web-proxy -proxy-node-name vm-1");

/** The value at a path such as `proxy.serversFlags?.node`. */
function at(options: unknown, path: string): unknown {
  return path.split(".").reduce((value, part) => (value as Record<string, unknown>)[part], options);
}

test("dataplaneOptions() has consul-dataplane's defaults", () => {
  const { proxy, lifecycle, metrics, ready } = readDataplane(LEAST);
  assert.deepEqual(proxy.serversFlags, {
    names: DATAPLANE_FLAGS,
    servers: "consul.example",
    node: "vm-1",
    grpcPort: 8_502,
    httpPort: 8_501,
    tlsDisabled: false,
    tlsInsecure: false,
    serverWatchDisabled: false,
    tlsServerName: "consul.example",
  });
  assert.deepEqual(proxy.mode, { kind: "agent", by: "proxy_id", id: "web-proxy" });
  assert.deepEqual(proxy.adminBind, { kind: "address", host: "127.0.0.1", port: 19_000 });
  assert.deepEqual([proxy.logLevel, proxy.logJson, proxy.workers], ["info", false, 1]);
  assert.deepEqual(proxy.warnings, []);
  assert.deepEqual(lifecycle, {
    host: "127.0.0.1",
    port: 20_300,
    drainListeners: false,
    startupPath: "/graceful_startup",
    startupGraceMs: 0,
    shutdownPath: "/graceful_shutdown",
    shutdownGraceMs: 0,
  });
  assert.deepEqual(metrics, { useCentralConfig: true, scrapePath: "/metrics", mergePort: 20_100 });
  assert.equal(ready, undefined);
});

const LOGIN = "-credential-type login -login-auth-method k8s -login-bearer-token-path /b";
const LOGGED_IN = "proxy.serversFlags.login";
const TLS =
  "-telemetry-prom-ca-certs-path /ca -telemetry-prom-cert-file /c -telemetry-prom-key-file /k";
/** Flag, value, path in the options, expected value there, and further arguments. */
const EFFECTS: readonly (readonly [string, string, string, unknown, string?])[] = [
  ["addresses", "10.0.0.1", "proxy.serversFlags.servers", "10.0.0.1"],
  ["grpc-port", "9503", "proxy.serversFlags.grpcPort", 9_503],
  ["http-port", "9501", "proxy.serversFlags.httpPort", 9_501],
  ["server-watch-disabled", "true", "proxy.serversFlags.serverWatchDisabled", true],
  ["ca-certs", "/ca", "proxy.serversFlags.caPath", "/ca"],
  ["tls-cert", "/c.pem", "proxy.serversFlags.clientCert", "/c.pem"],
  ["tls-key", "/k.pem", "proxy.serversFlags.clientKey", "/k.pem"],
  ["tls-server-name", "s.dc1", "proxy.serversFlags.tlsServerName", "s.dc1"],
  ["tls-disabled", "true", "proxy.serversFlags.tlsDisabled", true],
  ["tls-insecure-skip-verify", "true", "proxy.serversFlags.tlsInsecure", true],
  ["credential-type", "static", "proxy.serversFlags.token", "t", "-static-token t"],
  ["static-token", "t", "proxy.serversFlags.token", "t", "-credential-type static"],
  ["login-auth-method", "k8s-2", `${LOGGED_IN}.authMethod`, "k8s-2", LOGIN],
  ["login-bearer-token-path", "/other", `${LOGGED_IN}.bearerTokenFile`, "/other", LOGIN],
  ["login-bearer-token", "bearer", `${LOGGED_IN}.bearerToken`, "bearer", LOGIN],
  ["login-datacenter", "dc2", `${LOGGED_IN}.datacenter`, "dc2", LOGIN],
  ["login-namespace", "ns", `${LOGGED_IN}.namespace`, "ns", LOGIN],
  ["login-partition", "ap", `${LOGGED_IN}.partition`, "ap", LOGIN],
  ["proxy-id", "p-1", "proxy.mode.id", "p-1"],
  ["proxy-id-path", "/id", "proxy.mode.id", "web-from-file"],
  ["proxy-node-name", "n-1", "proxy.serversFlags.node", "n-1"],
  ["proxy-node-id", "9f2c", "proxy.serversFlags.node", "9f2c"],
  ["proxy-namespace", "ns", "proxy.serversFlags.namespace", "ns"],
  ["proxy-partition", "ap", "proxy.serversFlags.partition", "ap"],
  ["proxy-service-id", "p-1", "proxy.mode.id", "p-1"],
  ["proxy-service-id-path", "/id", "proxy.mode.id", "web-from-file"],
  ["service-node-name", "n-1", "proxy.serversFlags.node", "n-1"],
  ["service-node-id", "9f2c", "proxy.serversFlags.node", "9f2c"],
  ["service-namespace", "ns", "proxy.serversFlags.namespace", "ns"],
  ["service-partition", "ap", "proxy.serversFlags.partition", "ap"],
  ["envoy-admin-bind-address", "::1", "proxy.adminBind.host", "::1"],
  ["envoy-admin-bind-port", "19001", "proxy.adminBind.port", 19_001],
  ["envoy-ready-bind-address", "10.0.0.7", "ready.host", "10.0.0.7", "-envoy-ready-bind-port 1"],
  ["envoy-ready-bind-port", "21000", "ready.port", 21_000, "-envoy-ready-bind-address ::1"],
  ["envoy-drain-time-seconds", "9", "proxy.drainTimeoutMs", 9_000],
  ["envoy-concurrency", "3", "proxy.workers", 3],
  ["log-level", "WARN", "proxy.logLevel", "warn"],
  ["log-json", "true", "proxy.logJson", true],
  ["graceful-addr", "0.0.0.0", "lifecycle.host", "0.0.0.0"],
  ["graceful-port", "20600", "lifecycle.port", 20_600],
  ["graceful-startup-path", "/up", "lifecycle.startupPath", "/up"],
  ["startup-grace-period-seconds", "7", "lifecycle.startupGraceMs", 7_000],
  ["graceful-shutdown-path", "/down", "lifecycle.shutdownPath", "/down"],
  ["shutdown-grace-period-seconds", "30", "lifecycle.shutdownGraceMs", 30_000],
  ["shutdown-drain-listeners", "true", "lifecycle.drainListeners", true],
  ["telemetry-use-central-config", "false", "metrics.useCentralConfig", false],
  ["telemetry-prom-scrape-path", "/scrape", "metrics.scrapePath", "/scrape"],
  ["telemetry-prom-merge-port", "20101", "metrics.mergePort", 20_101],
  [
    "telemetry-prom-service-metrics-url",
    "http://127.0.0.1:9102/m",
    "metrics.serviceUrl.href",
    "http://127.0.0.1:9102/m",
  ],
  ["telemetry-prom-ca-certs-path", "/other", "metrics.tls.ca", "/other", TLS],
  [
    "telemetry-prom-ca-certs-file",
    "/other",
    "metrics.tls.ca",
    "/other",
    "-telemetry-prom-cert-file /c -telemetry-prom-key-file /k",
  ],
  ["telemetry-prom-cert-file", "/other", "metrics.tls.cert", "/other", TLS],
  ["telemetry-prom-key-file", "/other", "metrics.tls.key", "/other", TLS],
  ["xds-bind-addr", "127.0.0.1", "proxy.warnings.0", "DOES NOTHING: There is no xDS inside."],
  ["xds-bind-port", "0", "proxy.warnings.0", "DOES NOTHING: The same."],
  [
    "consul-dns-bind-addr",
    "127.0.0.1",
    "proxy.warnings.0",
    "DOES NOTHING: The DNS proxy is not there.",
  ],
  ["consul-dns-bind-port", "8600", "proxy.warnings.0", "DOES NOTHING: The DNS proxy is not there."],
  ["envoy-executable-path", "/envoy", "proxy.warnings.0", "DOES NOTHING: There is no Envoy."],
  [
    "envoy-drain-strategy",
    "gradual",
    "proxy.warnings.0",
    "DOES NOTHING: All callers are asked to leave at once.",
  ],
  [
    "dump-envoy-config-on-exit",
    "true",
    "proxy.warnings.0",
    "DOES NOTHING: See /config_dump of the admin server.",
  ],
  [
    "telemetry-prom-retention-time",
    "60s",
    "proxy.warnings.0",
    "DOES NOTHING: Metrics are kept as long as what they are about.",
  ],
];

/** The required flags, without those that the setting under test replaces. */
function leastFor(name: string): readonly string[] {
  if (/^(?:proxy-service|service)-/.test(name)) {
    const others = ["-addresses", "consul.example"];
    if (!name.includes("node")) others.push("-service-node-name", "vm-1");
    if (!name.includes("-id") || name.includes("node")) others.push("-proxy-service-id", "web");
    return others;
  }
  return name === "proxy-id-path" ? [...LEAST.slice(0, 2), ...LEAST.slice(4)] : LEAST;
}

test("EFFECTS has every setting", () => {
  const tested = new Set(EFFECTS.map(([name]) => name));
  const others = ["login-meta", "mode", "config-file", "check-proxy-health", "version"];
  for (const { name } of SETTINGS) assert.ok(tested.has(name) || others.includes(name), name);
});

for (const [name, value, path, want, more = ""] of EFFECTS) {
  const setting = SETTINGS.find((one) => one.name === name);
  assert.ok(setting);
  const { keys: [key], env, inFile, kind } = setting;
  const wanted = (origin: string) =>
    typeof want === "string" ? want.replace("DOES NOTHING", `${origin} does nothing`) : want;
  const files = { "/id": " web-from-file\n" };
  const rest = [...leastFor(name), ...words(more)];
  /** Without the flag itself, which would take precedence. */
  const without = rest.flatMap((word, index) =>
    word === `-${name}` || rest[index - 1] === `-${name}` ? [] : [word]
  );

  test(`dataplaneOptions() takes -${name}`, () => {
    for (
      const given of [
        [`-${name}=${value}`],
        kind === "switch" ? [`--${name}`] : [`--${name}`, value],
      ]
    ) {
      if (kind === "switch" && value === "false" && given[0] === `--${name}`) continue;
      assert.deepEqual(at(readDataplane([...rest, ...given], { files }), path), wanted(`-${name}`));
    }
  });

  if (env !== undefined) {
    test(`dataplaneOptions() takes ${env}`, () => {
      const options = readDataplane(without, { env: { [env]: value }, files });
      assert.deepEqual(at(options, path), wanted(env));
    });
  }

  if (key !== undefined) {
    test(`dataplaneOptions() takes ${key} of the file`, () => {
      const inJson = inFile === "number"
        ? Number(value)
        : kind === "switch"
        ? value === "true"
        : value;
      const json = key.split(".").reduceRight<unknown>(
        (inner, part) => ({ [part]: inner }),
        inJson,
      );
      const options = readDataplane([...without, "-config-file", "c.json"], {
        files: { ...files, "c.json": JSON.stringify(json) },
      });
      assert.deepEqual(at(options, path), wanted(`${key} of -config-file`));
    });
  }
}

test("dataplaneOptions() prefers the flag to the variable, and the variable to the file", () => {
  const files = {
    "c.json": JSON.stringify({ consul: { grpcPort: 1 }, logging: { logJSON: true } }),
  };
  const given = [...LEAST, "-config-file=c.json"];
  const env = { DP_CONSUL_GRPC_PORT: "2" };
  const port = (argv: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    readDataplane(argv, { env, files }).proxy.serversFlags?.grpcPort;
  assert.deepEqual(
    [port(given), port(given, env), port([...given, "-grpc-port=3"], env)],
    [1, 2, 3],
  );
  assert.equal(readDataplane([...given, "-log-json=false"], { files }).proxy.logJson, false);
  // An empty flag hides its variable but not the file, as with consul-dataplane.
  assert.equal(port([...given, "-grpc-port="], env), 1);
});

test("dataplaneOptions() warns of a token on the command line", () => {
  const argv = [...LEAST, "-credential-type=static"];
  const [warning = "", ...others] =
    readDataplane([...argv, "-static-token", "secret"]).proxy.warnings;
  assert.match(warning, /can read -static-token: it is on the command line/);
  assert.ok(!warning.includes("secret"));
  assert.deepEqual(others, []);
  assert.deepEqual(
    readDataplane(argv, { env: { DP_CREDENTIAL_STATIC_TOKEN: "s" } }).proxy.warnings,
    [],
  );
});

test("dataplaneOptions() does not warn of a DNS proxy that is off", () => {
  const warningsOf = (...argv: readonly string[]) =>
    readDataplane([...LEAST, ...argv]).proxy.warnings;
  assert.deepEqual(warningsOf("-consul-dns-bind-port=-1", "-dump-envoy-config-on-exit=false"), []);
  assert.equal(warningsOf("-xds-bind-port=-1").length, 1);
});

test("dataplaneOptions() joins -login-meta, its variables and the file", () => {
  const login = { meta: { pod: "file", uid: "file", ns: "file" } };
  const { proxy } = readDataplane([
    ...LEAST,
    ...words(LOGIN),
    "-login-meta",
    "pod=a=b",
    "-config-file=c.json",
  ], {
    env: { DP_CREDENTIAL_LOGIN_META: "x=y", DP_CREDENTIAL_LOGIN_META9: "uid=env" },
    files: { "c.json": JSON.stringify({ consul: { credentials: { login } } }) },
  });
  assert.deepEqual(proxy.serversFlags?.login?.meta, { ns: "file", uid: "env", pod: "a=b" });
});

test("dataplaneOptions() uses old names only when no new one is given", () => {
  const { proxy } = readDataplane([...LEAST, "-proxy-service-id=old"], {
    env: { DP_SERVICE_NODE_NAME: "old", DP_SERVICE_NAMESPACE: "old" },
  });
  assert.deepEqual([proxy.mode.kind === "agent" && proxy.mode.id], ["web-proxy"]);
  assert.equal(proxy.serversFlags?.node, "vm-1");
  assert.equal(proxy.serversFlags?.namespace, undefined);
  assert.equal(proxy.warnings.length, 3);
  assert.match(proxy.warnings.join(), /DP_SERVICE_NODE_NAME does nothing: -proxy-id is given/);
});

for (
  const [name, argv, want, given] of [
    ["no address", "-proxy-id p", /consul addresses not specified/],
    ["no proxy", "-addresses a -proxy-node-name n", /proxy ID not specified; give -proxy-id/],
    ["no node", "-addresses a -proxy-id p", /proxy node not specified; give -proxy-node-name/],
    [
      "a file without an id",
      "-addresses a -proxy-node-name n -proxy-id-path /id",
      /want one line/,
      {
        files: { "/id": "\n" },
      },
    ],
    [
      "a missing id",
      "-addresses a -proxy-node-name n -proxy-id-path /id",
      /Cannot read -proxy-id-p/,
    ],
    ["another credential", `${LEAST.join(" ")} -credential-type foo`, /unknown credential type/],
    [
      "a login without a bearer token",
      `${LEAST.join(" ")} -credential-type login -login-auth-method m`,
      /bearer token \(or path to a file containing a bearer token\) is required for login/,
    ],
    ["DNS alone", `${LEAST.join(" ")} -mode dns-proxy`, /-mode "dns-proxy": there is no DNS proxy/],
    ["a bad level", `${LEAST.join(" ")} -log-level loud`, /want trace, debug, info, warn, error/],
    ["a mistyped flag", `${LEAST.join(" ")} -adresses a`, /did you mean -addresses\?/],
    [
      "an unknown flag",
      `${LEAST.join(" ")} -telemetry-otel`,
      /flag -telemetry-otel: there is none/,
    ],
    ["a bare word", `${LEAST.join(" ")} web`, /Cannot take the argument "web"/],
    ["a switch with a malformed value", `${LEAST.join(" ")} -log-json=maybe`, /want true or false/],
    [
      "a variable of a switch with a malformed value",
      LEAST.join(" "),
      /DP_LOG_JSON "maybe": want true or false/,
      {
        env: { DP_LOG_JSON: "maybe" },
      },
    ],
    ["port 0", `${LEAST.join(" ")} -graceful-port 0`, /from 1 to 65535/],
    [
      "one path for both",
      `${LEAST.join(" ")} -graceful-startup-path /graceful_shutdown`,
      /already/,
    ],
    ["a path with a query", `${LEAST.join(" ")} -telemetry-prom-scrape-path /m?a`, /want a path/],
    ["half of TLS", `${LEAST.join(" ")} -telemetry-prom-cert-file /c`, /give all of/],
    [
      "another scheme",
      `${LEAST.join(" ")} -telemetry-prom-service-metrics-url file:///etc/passwd`,
      /want an http:\/\//,
    ],
    [
      "meta that could forge lines",
      `${LEAST.join(" ")} ${LOGIN} -login-meta a=b\x07`,
      /control character/,
    ],
    ["meta without a key", `${LEAST.join(" ")} ${LOGIN} -login-meta =x`, /want KEY=VALUE/],
    ["no .json", `${LEAST.join(" ")} -config-file c.yaml`, /want a \.json file/],
    ["no JSON", `${LEAST.join(" ")} -config-file c.json`, /"c\.json": it is no JSON$/, {
      files: { "c.json": '{"consul": {"token": sec' },
    }],
    ["no object", `${LEAST.join(" ")} -config-file c.json`, /it must hold one object/, {
      files: { "c.json": "[]" },
    }],
    [
      "an unknown key",
      `${LEAST.join(" ")} -config-file c.json`,
      /no key "consul\.tls\.caCertPath"; did you mean consul\.tls\.caCertsPath\?/,
      { files: { "c.json": '{"consul": {"tls": {"caCertPath": "/ca"}}}' } },
    ],
    [
      "a section that is no object",
      `${LEAST.join(" ")} -config-file c.json`,
      /"consul" must be an obj/,
      {
        files: { "c.json": '{"consul": 7}' },
      },
    ],
    [
      "a text for a number",
      `${LEAST.join(" ")} -config-file c.json`,
      /grpcPort" must be a number/,
      {
        files: { "c.json": '{"consul": {"grpcPort": "8502"}}' },
      },
    ],
    ["a control character", `${LEAST.join(" ")} -config-file c.json`, /control character/, {
      files: { "c.json": '{"consul": {"tls": {"serverName": "a\\nb"}}}' },
    }],
  ] as readonly (readonly [string, string, RegExp, DataplaneInput?])[]
) {
  test(`dataplaneOptions() refuses ${name}`, () => {
    assert.throws(() => readDataplane(words(argv), given), (error: unknown) => {
      assert.ok(error instanceof ProxyError && ["usage", "config_invalid"].includes(error.code));
      assert.match(error.message, want);
      return true;
    });
  });
}
