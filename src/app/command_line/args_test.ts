import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import { type Command, parseCommand } from "./args.ts";

type Env = Record<string, string>;

function proxy(args: string, env: Env = {}): ProxyOptions {
  const command = parseCommand(["proxy", ...args.split(" ").filter(Boolean)], env);
  if (command.kind !== "proxy") assert.fail(`got ${command.kind}`);
  return command.options;
}

for (
  const [name, argv, want] of [
    ["runs a proxy under Consul's name for it", "connect proxy -sidecar-for web", "proxy"],
    ["runs a proxy for Envoy's command line", "connect envoy -sidecar-for web", "proxy"],
    ["checks", "check -config a.json", "check"],
    ["checks a file", "check a.json -log-level debug", "check"],
    ["runs the agent in memory", "dev", "dev"],
    ["waits", "wait-ready", "wait_ready"],
    ["prints its version", "version", "version"],
    ["prints its version, as a flag", "-version", "version"],
    ["shows help", "help", "help"],
    ["shows help, as a flag", "--help", "help"],
    ["takes a lone -- as the end", "dev --", "dev"],
  ] as const
) {
  test(`parseCommand() ${name}`, () => {
    assert.equal(parseCommand(argv.split(" "), {}).kind, want);
  });
}

test("parseCommand() takes flags that configure Envoy alone, with a warning each", () => {
  const words = "connect envoy -sidecar-for web -envoy-version 1.30.1 -grpc-addr 127.0.0.1:8502 " +
    "-envoy-binary=/usr/bin/envoy -ignore-envoy-compatibility -prometheus-scrape-path /m " +
    "-- -l trace --base-id 2";
  const command = parseCommand(words.split(" "), {});
  if (command.kind !== "proxy") assert.fail(`got ${command.kind}`);
  const { mode, warnings } = command.options;
  assert.deepEqual(mode, proxy("-sidecar-for web").mode);
  assert.deepEqual(
    warnings.map((line) => line.slice(0, line.indexOf(":"))),
    [
      "-envoy-binary",
      "-envoy-version",
      "-grpc-addr",
      "-ignore-envoy-compatibility",
      "-prometheus-scrape-path",
      "what follows --",
    ].map((what) => `${what} does nothing`),
  );
  assert.match(warnings.at(-1) ?? "", /: -l trace --base-id 2: .*-log-level/);
});

for (
  const [argv, topic] of [
    ["proxy -h", "proxy"],
    ["proxy -sidecar-for web --help", "proxy"],
    ["check -help", "check"],
    ["dev -help", "dev"],
    ["wait-ready -help", "wait-ready"],
    ["version -help", "version"],
    ["help proxy", "proxy"],
    ["help connect envoy", "proxy"],
    ["help", ""],
  ] as const
) {
  test(`parseCommand() finds help for ${argv}`, () => {
    assert.deepEqual(parseCommand(argv.split(" "), {}), { kind: "help", topic });
  });
}

for (const form of ["-sidecar-for web", "--sidecar-for web", "-sidecar-for=web"]) {
  test(`parseCommand() takes ${form}`, () => {
    assert.deepEqual(proxy(form).mode, { kind: "agent", by: "sidecar_for", id: "web" });
  });
}

for (
  const [form, want] of [
    ["", false],
    ["-log-json", true],
    ["-log-json=true", true],
    ["-log-json=false", false],
    ["--log-json=0", false],
    ["-log-json=T", true],
    ["-log-json -log-json=false", false],
  ] as const
) {
  test(`parseCommand() reads the switch ${form || "when it is absent"}`, () => {
    assert.equal(proxy(`-sidecar-for web ${form}`).logJson, want);
  });
}

test("parseCommand() keeps = and spaces in a value", () => {
  const command = parseCommand(["proxy", "-sidecar-for=a=b c"], {});
  if (command.kind !== "proxy" || command.options.mode.kind !== "agent") assert.fail();
  assert.equal(command.options.mode.id, "a=b c");
});

const AGENT_ENV = { CONNECT_PROXY_ID: "env-proxy", CONNECT_SIDECAR_FOR: "env-service" };
for (
  const [name, args, env, id, warnings] of [
    ["-proxy-id before -sidecar-for", "-proxy-id p -sidecar-for s", {}, "p", 1],
    ["CONNECT_PROXY_ID before -sidecar-for", "-sidecar-for s", AGENT_ENV, "env-proxy", 1],
    ["an empty flag hides its variable", "-proxy-id= -sidecar-for s", AGENT_ENV, "s", 0],
    ["CONNECT_SIDECAR_FOR", "", { CONNECT_SIDECAR_FOR: "s" }, "s", 0],
    ["an empty variable is none", "-sidecar-for s", { CONNECT_PROXY_ID: "" }, "s", 0],
    ["-sidecar-for before -service", "-sidecar-for s -service w -upstream a:1", {}, "s", 1],
  ] as const
) {
  test(`parseCommand() order of modes: ${name}`, () => {
    const { mode, warnings: said } = proxy(args, env);
    assert.equal(mode.kind === "agent" && mode.id, id);
    assert.equal(said.length, warnings, said.join("; "));
  });
}

for (
  const [args, want, warnings] of [
    ["-gateway ingress", { by: "gateway", id: "" }, 0],
    ["-gateway=ingress -service igw", { by: "gateway", id: "igw" }, 0],
    ["-gateway ingress -proxy-id igw-1", { by: "proxy_id", id: "igw-1" }, 0],
    ["-gateway ingress -proxy-id igw-1 -service igw -upstream a:1", {
      by: "proxy_id",
      id: "igw-1",
    }, 1],
  ] as const
) {
  test(`parseCommand() reads ${args}`, () => {
    const { mode, warnings: said } = proxy(args);
    assert.deepEqual(mode, { kind: "agent", ...want });
    assert.equal(said.length, warnings, said.join("; "));
  });
}

test("parseCommand() reads every flag of flag mode", () => {
  const { mode } = proxy(
    "-service web -service-addr 127.0.0.1:8080 -listen :8443 -register -register-id x1 " +
      "-upstream db:9191 -upstream cache.query:[::1]:0x10",
  );
  assert.deepEqual(mode, {
    kind: "flags",
    service: "web",
    serviceAddress: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    listen: { kind: "tcp", host: "0.0.0.0", port: 8443 },
    register: true,
    applicationId: "web-x1",
    nodeAddress: "",
    httpCheckPath: "",
    proxyId: "web-proxy-x1",
    upstreams: [
      { name: "cache", type: "prepared_query", host: "::1", port: 16 },
      { name: "db", type: "service", host: "127.0.0.1", port: 9191 },
    ],
  });
});

test("parseCommand() takes a unix socket as the local application", () => {
  const { mode } = proxy("-service web -listen :1 -service-addr unix:///run/web.sock");
  assert.deepEqual(mode.kind === "flags" && mode.serviceAddress, {
    kind: "unix",
    path: "/run/web.sock",
  });
});

test("parseCommand() reads the defaults", () => {
  const { agentFlags, mode: _, ...rest } = proxy("-sidecar-for web");
  assert.deepEqual(agentFlags, {});
  assert.deepEqual(rest, {
    agentConnections: 120,
    preparedQueryIntervalMs: 10_000,
    authorize: "match",
    strictSpiffeChain: false,
    adminBind: { kind: "default" },
    ready: "all",
    drainTimeoutMs: 8_000,
    stopTimeoutMs: 8_000,
    settleMs: 2_000,
    idleTimeoutMs: 3_600_000,
    lifetimeMs: 0,
    maxConnections: 65_536,
    workers: 1,
    logLevel: "info",
    logJson: false,
    watchPlugins: false,
    warnings: [],
  });
});

test("parseCommand() reads every flag of the proxy", () => {
  const { agentFlags, mode: _, ...rest } = proxy(
    "-sidecar-for web -agent-connections 20 -prepared-query-interval 1m -authorize BOTH " +
      "-strict-spiffe-chain -state-dir /var/lib/postern -admin-bind localhost:19001 -ready any -admin-token-file t " +
      "-drain-timeout 1m30s -settle-time 3s -idle-timeout 0 -max-connection-lifetime 24h -max-connections 10 " +
      "-workers 4 -log-level ERR -log-json -watch-plugins -pprof-addr :6060",
  );
  assert.deepEqual(agentFlags, {});
  assert.match(rest.warnings.join(), /-pprof-addr/);
  assert.deepEqual({ ...rest, warnings: [] }, {
    agentConnections: 20,
    preparedQueryIntervalMs: 60_000,
    authorize: "both",
    strictSpiffeChain: true,
    stateDir: "/var/lib/postern",
    adminBind: { kind: "address", host: "localhost", port: 19_001 },
    adminTokenFile: "t",
    ready: "any",
    drainTimeoutMs: 90_000,
    stopTimeoutMs: 90_000,
    settleMs: 3_000,
    idleTimeoutMs: 0,
    lifetimeMs: 86_400_000,
    maxConnections: 10,
    workers: 4,
    logLevel: "error",
    logJson: true,
    watchPlugins: true,
    warnings: [],
  });
});

test("parseCommand() keeps the agent's flags as given, without the environment", () => {
  const { agentFlags } = proxy(
    "-sidecar-for web -http-addr https://10.0.0.1:8501 -token t -token-file tf -ca-file cf " +
      "-ca-path cp -client-cert cc -client-key ck -tls-server-name n -datacenter dc2 -stale " +
      "-namespace ns -partition=",
    { CONSUL_HTTP_ADDR: "elsewhere:1", CONSUL_CACERT: "x" },
  );
  assert.deepEqual(agentFlags, {
    httpAddr: "https://10.0.0.1:8501",
    token: "t",
    tokenFile: "tf",
    caFile: "cf",
    caPath: "cp",
    clientCert: "cc",
    clientKey: "ck",
    tlsServerName: "n",
    datacenter: "dc2",
    stale: true,
    namespace: "ns",
    partition: "",
  });
});

for (const level of ["TRACE", "Debug", "INFO", "warn", "ERROR"]) {
  test(`parseCommand() takes the log level ${level}`, () => {
    assert.equal(proxy(`-sidecar-for web -log-level ${level}`).logLevel, level.toLowerCase());
  });
}

for (
  const [line, env, want] of [
    ["", {}, "127.0.0.1:19000"],
    ["-sidecar-for web", {}, "sidecar-for web"],
    ["-proxy-id web-1", {}, "proxy-id web-1"],
    ["-config web.json", {}, "config web.json"],
    ["", { CONNECT_SIDECAR_FOR: "web" }, "sidecar-for web"],
    ["", { CONNECT_SIDECAR_FOR: "web", CONNECT_PROXY_ID: "web-1" }, "proxy-id web-1"],
    ["-sidecar-for web", { CONNECT_PROXY_ID: "web-1" }, "sidecar-for web"],
    ["-admin :1", { CONNECT_SIDECAR_FOR: "web" }, "127.0.0.1:1"],
    ["-admin :1 -sidecar-for web", {}, "-sidecar-for with -admin"],
    ["-config a -proxy-id b", {}, "-config with -proxy-id"],
    ["-config a -catalog", {}, "-config with -catalog"],
    ["-sidecar-for web", { CONSUL_HTTP_ADDR: "http://localhost" }, "sidecar-for web 127.0.0.1:80"],
    ["-sidecar-for web -http-addr :1", {}, "sidecar-for web 127.0.0.1:1"],
  ] as const
) {
  test(`parseCommand() of wait-ready ${line} ${Object.keys(env)}: ${want}`, () => {
    const words = ["wait-ready", ...line.split(" ").filter((word) => word !== "")];
    if (want.includes(" with ")) {
      assert.throws(() => parseCommand(words, env), new RegExp(`Cannot use ${want}`));
      return;
    }
    const command = parseCommand(words, env);
    assert.ok(command.kind === "wait_ready");
    const { waitFor } = command;
    assert.ok(waitFor.kind !== "only");
    const shown = waitFor.kind === "address"
      ? `${waitFor.admin.host}:${waitFor.admin.port}`
      : `${waitFor.wanted.flag} ${waitFor.wanted.value} ${waitFor.wanted.agent?.address ?? ""}`;
    assert.equal(shown.trimEnd(), want);
  });
}

test("parseCommand() reads wait-ready and dev", () => {
  const want: Command = {
    kind: "wait_ready",
    waitFor: { kind: "address", admin: { kind: "tcp", host: "127.0.0.1", port: 19_001 } },
    timeoutMs: 500,
    catalog: false,
    upstreams: false,
  };
  const words = ["wait-ready", "-admin", ":19001", "-timeout", "0.5s"];
  assert.deepEqual(parseCommand(words, {}), want);
  assert.deepEqual(parseCommand([...words, "-catalog"], {}), { ...want, catalog: true });
  assert.deepEqual(parseCommand([...words, "-upstreams"], {}), { ...want, upstreams: true });
  assert.deepEqual(parseCommand(["dev", "-http-addr", "[::1]:0", "-default-policy", "deny"], {}), {
    kind: "dev",
    options: {
      listen: { kind: "tcp", host: "::1", port: 0 },
      elsewhere: false,
      datacenter: "dc1",
      defaultPolicy: "deny",
      demo: false,
      logLevel: "info",
      logJson: false,
    },
  });
});

for (
  const [line, want] of [
    ["http://db/a?b=/../c", { method: "GET", upstream: "db", host: "db", path: "/a?b=/../c" }],
    ["PUT https://db:80 -json", { method: "PUT", upstream: "db:80", path: "/", json: true }],
    ["http://db?a", { path: "/?a" }],
    ["-H x:1 DELETE http://db/ -H y:2", { method: "DELETE", headers: ["x:1", "y:2"] }],
    ["-inbound -source shop PUT /a", { upstream: undefined, host: "", source: "shop", path: "/a" }],
    ["-inbound http://web/a", { upstream: undefined, host: "web", path: "/a" }],
    ["-inbound", { method: "GET", path: "/" }],
    ["", /no URL was given/],
    ["db", { method: "GET", upstream: "db", host: "db", path: "/" }],
    ["tcp://db", { upstream: "db", path: "/" }],
    ["db?dc=dc2", { upstream: "db?dc=dc2", host: "", path: "/" }],
    ["PUT db?dc=dc2/a?b=c", { method: "PUT", upstream: "db?dc=dc2", path: "/a?b=c" }],
    ["db?peer=east", { upstream: "db?peer=east", path: "/" }],
    ["service:default/default/db?dc=dc2", { upstream: "service:default/default/db?dc=dc2" }],
    ["service:default/default/db/a", { upstream: "service:default/default/db", path: "/a" }],
    ["prepared_query:geo?dc=dc2", { upstream: "prepared_query:geo?dc=dc2", path: "/" }],
    ["ingress:8080/web", { upstream: "ingress:8080/web", host: "", path: "/" }],
    ["http://db?dc=dc2", { upstream: "db", path: "/?dc=dc2" }],
    ["db?dc=dc2&x=1", { upstream: "db", path: "/?dc=dc2&x=1" }],
    ["127.0.0.1:9005", { upstream: "127.0.0.1:9005", path: "/" }],
    ["ftp://db/", /the URL "ftp:\/\/db\/" cannot be read/],
    ["GET http:///a", /the URL "http:\/\/\/a" cannot be read/],
    ["http://db/#a", /cannot be read/],
    ["/a", /the URL "\/a" names no upstream/],
    ["-source shop http://db/", /Cannot use -source without -inbound/],
    ["GET http://db/ more", /Cannot take the argument "more"/],
  ] as const
) {
  test(`parseCommand() of explain ${line}`, () => {
    const words = ["explain", "-admin", ":1", ...line.split(" ").filter((word) => word !== "")];
    if (want instanceof RegExp) return assert.throws(() => parseCommand(words, {}), want);
    const command = parseCommand(words, {});
    assert.ok(command.kind === "explain");
    assert.deepEqual({ ...command.options, ...want }, command.options);
  });
}

test("parseCommand() takes check -strict", () => {
  for (
    const [argv, want] of [[["check", "a.json", "-strict"], true], [
      ["check", "a.json"],
      false,
    ]] as const
  ) {
    const command = parseCommand(argv, {});
    assert.equal(command.kind === "check" && command.strict, want);
  }
});

test("parseCommand() takes check's argument as -config", () => {
  for (const argv of [["a.json"], ["a.json", "-workers", "0"], ["-workers", "0", "a.json"]]) {
    const command = parseCommand(["check", ...argv], {});
    assert.deepEqual(command.kind === "check" && command.options.mode, {
      kind: "config",
      file: "a.json",
    });
  }
});

test("parseCommand() reads every flag about servers", () => {
  const { serversFlags, agentFlags, warnings } = proxy(
    "-servers 10.0.0.1,consul.example -node vm-1 -proxy-id web-proxy -grpc-port 9503 " +
      "-http-port 9501 -tls-disabled -server-watch-disabled -login-auth-method k8s " +
      "-login-bearer-token-file b -login-bearer-token t -login-meta pod=a/b -login-meta c=d=e " +
      "-login-datacenter dc1 -login-namespace ns -login-partition ap -token-file tf -stale",
    { CONSUL_HTTP_ADDR: "elsewhere:1" },
  );
  assert.deepEqual(serversFlags, {
    servers: "10.0.0.1,consul.example",
    node: "vm-1",
    grpcPort: 9_503,
    httpPort: 9_501,
    tlsDisabled: true,
    serverWatchDisabled: true,
    login: {
      authMethod: "k8s",
      bearerToken: "t",
      bearerTokenFile: "b",
      meta: { pod: "a/b", c: "d=e" },
      datacenter: "dc1",
      namespace: "ns",
      partition: "ap",
    },
    tokenFile: "tf",
  });
  assert.deepEqual(agentFlags, { tokenFile: "tf", stale: true });
  assert.equal(warnings.length, 4);
  assert.match(
    warnings.join(),
    /-login-bearer-token can.*CONSUL_HTTP_ADDR does.*-stale does.*-token-file does/,
  );
});

test("parseCommand() warns of a token on the command line without its text", () => {
  const { warnings } = proxy("-sidecar-for web -token secret-1");
  assert.deepEqual(warnings, [
    "-token can be read by everybody on this host: -token-file takes a file",
  ]);
});

test("parseCommand() takes -register beside servers", () => {
  const { mode, serversFlags } = proxy(
    "-servers 10.0.0.1 -node vm-1 -service web -listen 10.0.0.7:8443 -service-addr :80 -register",
  );
  assert.equal(serversFlags?.node, "vm-1");
  assert.equal(mode.kind === "flags" && mode.register, true);
});
