import { strict as assert } from "node:assert";
import { test } from "node:test";
import { ProxyError } from "../base/mod.ts";
import { type Command, parseCommand, type ProxyOptions } from "./args.ts";
import { ENVOY_FLAGS } from "./args_envoy.ts";

type Env = Record<string, string>;

function proxy(args: string, env: Env = {}): ProxyOptions {
  const command = parseCommand(["proxy", ...args.split(" ").filter(Boolean)], env);
  if (command.kind !== "proxy") assert.fail(`got ${command.kind}`);
  return command.options;
}

function refusal(argv: readonly string[], env: Env = {}): string {
  try {
    parseCommand(argv, env);
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error;
    assert.equal(error.code, "usage");
    assert.match(error.message, /^Cannot /);
    return error.message;
  }
  return assert.fail(`no refusal of ${argv.join(" ")}`);
}

for (
  const [name, argv, want] of [
    ["runs a proxy under Consul's name for it", "connect proxy -sidecar-for web", "proxy"],
    ["runs a proxy for Envoy's command line", "connect envoy -sidecar-for web", "proxy"],
    ["checks", "check -config a.json", "check"],
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
  test(`parseCommand() reads the switch ${form || "that is not there"}`, () => {
    assert.equal(proxy(`-sidecar-for web ${form}`).logJson, want);
  });
}

test("parseCommand() never takes the next word as a switch's value", () => {
  assert.match(
    refusal(["proxy", "-sidecar-for", "web", "-log-json", "false"]),
    /argument "false"/,
  );
});

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

test("parseCommand() reads flag mode whole", () => {
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
    agentConnections: 12,
    preparedQueryIntervalMs: 10_000,
    authorize: "match",
    strictSpiffeChain: false,
    adminBind: { kind: "default" },
    drainTimeoutMs: 8_000,
    idleTimeoutMs: 3_600_000,
    lifetimeMs: 0,
    maxConnections: 65_536,
    workers: 1,
    logLevel: "info",
    logJson: false,
    warnings: [],
  });
});

test("parseCommand() reads every flag of the proxy", () => {
  const { agentFlags, mode: _, ...rest } = proxy(
    "-sidecar-for web -agent-connections 20 -prepared-query-interval 1m -authorize BOTH " +
      "-strict-spiffe-chain -state-dir /var/lib/postern -admin-bind localhost:19001 " +
      "-drain-timeout 1m30s -idle-timeout 0 -max-connection-lifetime 24h -max-connections 10 " +
      "-workers 4 -log-level ERR -log-json -pprof-addr :6060",
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
    drainTimeoutMs: 90_000,
    idleTimeoutMs: 0,
    lifetimeMs: 86_400_000,
    maxConnections: 10,
    workers: 4,
    logLevel: "error",
    logJson: true,
    warnings: [],
  });
});

test("parseCommand() hands the agent's flags on as given, without the environment", () => {
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
  const [name, argv, want] of [
    ["no command", "", /no command/],
    ["an unknown command", "prxy -sidecar-for web", /did you mean "postern proxy"/],
    ["a command of Consul's that is none here", "connect expose", /connect expose/],
    ["an unknown flag", "proxy -sidecar_for web", /-sidecar_for.*did you mean -sidecar-for\?/],
    ["a shortened flag", "proxy -sidecar web", /did you mean -sidecar-for\?/],
    ["a flag like no other", "proxy -zzzzzzzz", /see "postern proxy -help"/],
    ["a flag without its value", "proxy -sidecar-for", /-sidecar-for: it needs a value/],
    ["a switch with nonsense", "proxy -sidecar-for web -log-json=maybe", /want true or false/],
    ["an argument", "proxy web", /argument "web"/],
    ["an argument after flags", "proxy -sidecar-for web extra", /argument "extra"/],
    ["an argument after --", "proxy -sidecar-for web -- -x", /argument "-x"/],
    ["three dashes", "proxy ---sidecar-for web", /argument "---sidecar-for"/],
    ["a lone dash", "proxy -", /argument "-"/],
    ["nothing to stand for", "proxy", /nothing says what to stand for/],
    ["-upstream alone", "proxy -upstream db:1", /nothing says what to stand for/],
    ["a service without any listener", "proxy -service web", /there is no listener/],
    ["-listen alone", "proxy -service web -listen :1", /-listen without -service-addr/],
    ["-register alone", "proxy -service web -upstream a:1 -register", /-register without -listen/],
    ["-register of a registered one", "proxy -proxy-id p -register", /registered already/],
    ["-config with a service", "proxy -config f -service web", /-config with -service/],
    ["-config with -sidecar-for", "proxy -config f -sidecar-for w", /-config with -sidecar-for/],
    ["-config with -state-dir", "proxy -config f -state-dir d", /-state-dir with -config/],
    ["-config with -authorize both", "proxy -config f -authorize both", /no agent to ask/],
    ["a bad level", "proxy -sidecar-for w -log-level loud", /-log-level "loud": want trace/],
    ["a duration without unit", "proxy -sidecar-for w -drain-timeout 8", /-drain-timeout "8"/],
    ["a negative duration", "proxy -sidecar-for w -drain-timeout -1s", /at least 0s/],
    ["no time between queries", "proxy -sidecar-for w -prepared-query-interval 1ms", /least 1s/],
    ["too many workers", "proxy -sidecar-for w -workers 1000", /from 0 to 256/],
    ["half a worker", "proxy -sidecar-for w -workers 1.5", /whole number/],
    ["too few agent connections", "proxy -sidecar-for w -agent-connections 2", /from 5 to 190/],
    ["an unknown way to authorize", "proxy -sidecar-for w -authorize no", /want match or both/],
    ["an admin port alone", "proxy -sidecar-for w -admin-bind 19000", /want host:port/],
    ["an admin address for everyone by accident", "proxy -sidecar-for w -admin-bind :1", /no host/],
    ["a port too high", "proxy -sidecar-for w -admin-bind a:65536", /port must be/],
    ["a URL as a listener", "proxy -service w -listen http://a:1", /want host:port/],
    ["a relative socket", "proxy -service w -listen :1 -service-addr unix://x", /absolute path/],
    ["what is for Envoy", "connect envoy -sidecar-for w -- --base-id 1", /"--base-id 1"/],
    ["help for nothing", "help me", /no such command/],
    ["dev for everyone by accident", "dev -http-addr :8500", /no host/],
    ["a proxy's flag for dev", "dev -sidecar-for web", /-sidecar-for: there is none/],
  ] as const
) {
  test(`parseCommand() refuses ${name}`, () => {
    assert.match(refusal(argv === "" ? [] : argv.split(" ")), want);
  });
}

for (const flag of ENVOY_FLAGS) {
  test(`parseCommand() says what replaces Envoy's -${flag}`, () => {
    const message = refusal(["connect", "envoy", "-sidecar-for", "web", `-${flag}`]);
    assert.doesNotMatch(message, /there is none/);
    assert.match(message, new RegExp(`the flag -${flag}: .{20}`));
    assert.equal(refusal(["proxy", `-${flag}=x`]), message);
  });
}

test("parseCommand() keeps a control character out of its messages", () => {
  for (
    const argv of [
      ["proxy", "-a\u001b[31m\n"],
      ["\u001b[31m\n"],
      ["proxy", "-upstream", "\n\u001b:1", "-service", "x"],
      ["proxy", "-sidecar-for", "web\n"],
      ["connect", "\n\u001b"],
      ["proxy", "-log-level=\u001b\n"],
    ]
  ) {
    const message = refusal(argv);
    assert.ok(!message.includes("\n") && !message.includes("\u001b"), message);
  }
  assert.match(refusal(["proxy"], { CONNECT_PROXY_ID: "a\nb" }), /CONNECT_PROXY_ID: .*control/);
});

test("parseCommand() reads wait-ready and dev", () => {
  const want: Command = {
    kind: "wait_ready",
    admin: { kind: "tcp", host: "127.0.0.1", port: 19_001 },
    timeoutMs: 500,
  };
  assert.deepEqual(parseCommand(["wait-ready", "-admin", ":19001", "-timeout", "0.5s"], {}), want);
  assert.deepEqual(parseCommand(["dev", "-http-addr", "[::1]:0", "-default-policy", "deny"], {}), {
    kind: "dev",
    options: {
      listen: { kind: "tcp", host: "::1", port: 0 },
      datacenter: "dc1",
      defaultPolicy: "deny",
      demo: false,
      logLevel: "info",
      logJson: false,
    },
  });
});
