import { strict as assert } from "node:assert";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { parseCommand } from "./args.ts";
import { ENVOY_FLAGS, TAKEN_ENVOY_FLAGS } from "./args_envoy.ts";

function refusal(argv: readonly string[], env: Record<string, string> = {}): string {
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

test("parseCommand() takes a switch's value only after =", () => {
  assert.match(
    refusal(["proxy", "-sidecar-for", "web", "-log-json", "false"]),
    /argument "false"/,
  );
});

for (
  const [name, argv, want] of [
    ["no command", "", /no command/],
    ["an unknown command", "prxy -sidecar-for web", /did you mean "postern proxy"/],
    ["a command that only Consul has", "connect expose", /connect expose/],
    ["an unknown flag", "proxy -sidecar_for web", /-sidecar_for.*did you mean -sidecar-for\?/],
    ["a shortened flag", "proxy -sidecar web", /did you mean -sidecar-for\?/],
    ["a flag like no other", "proxy -zzzzzzzz", /see "postern proxy -help"/],
    ["a flag without its value", "proxy -sidecar-for", /-sidecar-for: it needs a value/],
    ["a switch with nonsense", "proxy -sidecar-for web -log-json=maybe", /want true or false/],
    ["an argument", "proxy web", /argument "web"/],
    ["a file alone", "proxy web.json", /argument "web.json".*did you mean -config FILE\?/],
    ["a flag without its dash", "proxy sidecar-for web", /did you mean -sidecar-for\?/],
    ["flags without a command", "-sidecar-for web", /did you mean "postern proxy -sidecar-for"\?/],
    ["a second file to check", "check a.json b.json", /argument "b.json"/],
    ["-strict of doctor", "check -online -strict", /-strict with -online/],
    ["a file beside -config", "check -config a.json b.json", /argument "b.json"/],
    ["a file to check and a service", "check a.json -service web", /-config with -service/],
    ["an argument after flags", "proxy -sidecar-for web extra", /argument "extra"/],
    ["an argument after --", "proxy -sidecar-for web -- -x", /argument "-x"/],
    ["three dashes", "proxy ---sidecar-for web", /argument "---sidecar-for"/],
    ["a lone dash", "proxy -", /argument "-"/],
    ["a proxy without a mode", "proxy", /nothing says what to stand for/],
    ["-upstream alone", "proxy -upstream db:1", /nothing says what to stand for/],
    ["a service without any listener", "proxy -service web", /there is no listener/],
    ["-listen alone", "proxy -service web -listen :1", /-listen without -service-addr/],
    ["-register alone", "proxy -service web -upstream a:1 -register", /-register without -listen/],
    ["-register of a registered one", "proxy -proxy-id p -register", /registered already/],
    ["-config with a service", "proxy -config f -service web", /-config with -service/],
    ["-config with -sidecar-for", "proxy -config f -sidecar-for w", /-config with -sidecar-for/],
    ["-config with -authorize both", "proxy -config f -authorize both", /no agent to ask/],
    ["servers without a node", "proxy -sidecar-for w -servers s", /-servers without -node/],
    ["a node without servers", "proxy -sidecar-for w -node n", /-node without -servers/],
    [
      "servers and an agent",
      "proxy -proxy-id w -servers s -http-addr a:1",
      /-servers with -http-a/,
    ],
    ["servers and a file", "proxy -config f -servers s -node n", /-servers with -config/],
    ["both with servers", "proxy -proxy-id w -servers s -node n -authorize both", /only an agent/],
    ["a port of servers", "proxy -proxy-id w -servers s -node n -grpc-port 0", /from 1 to 65535/],
    ["half a login", "proxy -proxy-id w -servers s -node n -login-meta a=b", /-login-auth-method/],
    ["an empty login", "proxy -proxy-id w -servers s -node n -login-auth-method m", /with what/],
    [
      "meta without a key",
      "proxy -proxy-id w -servers s -node n -login-auth-method m -login-bearer-token t -login-meta =x",
      /-login-meta "=x": want KEY=VALUE/,
    ],
    ["a bad level", "proxy -sidecar-for w -log-level loud", /-log-level "loud": want trace/],
    ["a duration without unit", "proxy -sidecar-for w -drain-timeout 8", /-drain-timeout "8"/],
    [
      "a settle time beyond the drain that it is part of",
      "proxy -sidecar-for w -drain-timeout 4s -settle-time 5s",
      /-settle-time "5s": it is part of -drain-timeout/,
    ],
    ["a negative duration", "proxy -sidecar-for w -drain-timeout -1s", /at least 0s/],
    ["no time between queries", "proxy -sidecar-for w -prepared-query-interval 1ms", /least 1s/],
    ["too many workers", "proxy -sidecar-for w -workers 1000", /from 0 to 256/],
    ["half a worker", "proxy -sidecar-for w -workers 1.5", /whole number/],
    ["too few agent connections", "proxy -sidecar-for w -agent-connections 2", /from 5 to 190/],
    ["an unknown value of -authorize", "proxy -sidecar-for w -authorize no", /want match or both/],
    ["an admin port alone", "proxy -sidecar-for w -admin-bind 19000", /want host:port/],
    ["an admin address without a host", "proxy -sidecar-for w -admin-bind :1", /no host/],
    ["a port too high", "proxy -sidecar-for w -admin-bind a:65536", /port must be/],
    ["a malformed IPv4 address", "proxy -service w -listen 10.0.0.300:1", /no IPv4 address/],
    ["a malformed IPv6 address", "proxy -sidecar-for w -admin-bind [1::2::3]:1", /no IPv6/],
    [
      "a malformed application address",
      "proxy -service w -listen :1 -service-addr 10.0.0:1",
      /no IPv4/,
    ],
    ["a URL as a listener", "proxy -service w -listen http://a:1", /want host:port/],
    ["a relative socket", "proxy -service w -listen :1 -service-addr unix://x", /absolute path/],
    ["an unsupported kind of gateway", "proxy -gateway mesh", /want ingress/],
    ["a gateway to register", "proxy -gateway ingress -register", /leave -register out/],
    ["a gateway and a sidecar", "proxy -gateway ingress -sidecar-for w", /leave one of them/],
    ["a gateway and a file", "proxy -gateway ingress -config f", /with -gateway: the file/],
    ["a bootstrap", "connect envoy -sidecar-for w -bootstrap", /-bootstrap: there is no bootstrap/],
    ["Envoy's arguments for a proxy", "proxy -sidecar-for w -- --base-id 1", /"--base-id"/],
    ["help for an unknown command", "help me", /no such command/],
    ["dev on all addresses without a host", "dev -http-addr :8500", /no host/],
    ["a proxy's flag for dev", "dev -sidecar-for web", /-sidecar-for: there is none/],
  ] as const
) {
  test(`parseCommand() refuses ${name}`, () => {
    assert.match(refusal(argv === "" ? [] : argv.split(" ")), want);
  });
}

const taken = TAKEN_ENVOY_FLAGS.flatMap(({ flags }) => flags);
for (const flag of ENVOY_FLAGS) {
  test(`parseCommand() names the replacement of Envoy's -${flag}`, () => {
    const message = refusal(["proxy", `-${flag}=x`]);
    assert.doesNotMatch(message, /there is none/);
    assert.match(message, new RegExp(`the flag -${flag}: .{20}`));
    if (taken.some(({ name }) => name === flag)) return;
    assert.equal(refusal(["connect", "envoy", "-sidecar-for", "web", `-${flag}`]), message);
  });
}

test("parseCommand() writes no control characters into its messages", () => {
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
