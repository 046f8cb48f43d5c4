/**
 * What config entries say about HTTP: protocols, options of the mesh, access logs, exposed paths; what
 * is checked when they are written, and how they are merged into a sidecar.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type AgentClient, unique, until } from "./client.ts";

type Entry = Readonly<Record<string, unknown>>;

interface Proxy {
  readonly Config?: Entry;
  readonly Expose?: Entry;
  readonly Upstreams?: readonly { readonly Config?: Entry }[];
}

export function httpEntryContract(agent: AgentClient): void {
  const put = (body: unknown) => agent.call("PUT", "/v1/config", { body });
  const read = async (kind: string, name: string) => {
    const { Hash: _h, CreateIndex: _c, ModifyIndex: _m, ...entry } = await agent.json<Entry>(
      `/v1/config/${kind}/${name}`,
    );
    return entry;
  };
  const remove = (kind: string, name: string) => agent.call("DELETE", `/v1/config/${kind}/${name}`);
  const protocolOf = async (name: string) =>
    (await agent.json<{ Chain: { Protocol: string } }>(`/v1/discovery-chain/${name}`)).Chain
      .Protocol;
  const proxyOf = async (name: string) =>
    (await agent.json<{ Proxy: Proxy }>(`/v1/agent/service/${name}-1-sidecar-proxy`)).Proxy;
  const sidecar = (name: string, proxy: Entry = {}) => ({
    Name: name,
    ID: `${name}-1`,
    Port: 18080,
    Connect: { SidecarService: { Proxy: proxy } },
  });
  const path = (port: number) => ({ ListenerPort: port, Path: `/${port}`, LocalPathPort: 80 });
  const shown = (port: number) => ({ ...path(port), ParsedFromCheck: false });

  async function refuses(entry: Entry, status: number, text: string | RegExp): Promise<void> {
    const reply = await put(entry);
    assert.equal(reply.status, status, `${JSON.stringify(entry)}: ${reply.text}`);
    if (typeof text === "string") assert.equal(reply.error, text);
    else assert.match(reply.error, text);
  }

  test("a service's protocol is kept in lower case; one that is none is refused", async () => {
    const name = unique("protocol");
    const entry = (Protocol: string) => ({ Kind: "service-defaults", Name: name, Protocol });
    for (const protocol of ["tcp", "http", "HTTP2", "gRPC"]) {
      await agent.configEntry(entry(protocol));
      assert.equal((await read("service-defaults", name))["Protocol"], protocol.toLowerCase());
      assert.equal(await protocolOf(name), protocol.toLowerCase());
    }
    await refuses(
      entry("udp"),
      500,
      "1 error occurred:\n\t* invalid value for protocol: udp\n\n",
    );
    await refuses(
      { ...entry("http"), BalanceInboundConnections: "most" },
      500,
      "1 error occurred:\n\t* invalid value for balance_inbound_connections: most\n\n",
    );
  });

  test("a jwt-provider is kept with times in nanoseconds, while an intention refers to it", async () => {
    const [name, service] = [unique("provider"), unique("tokens")];
    const entry = {
      Kind: "jwt-provider",
      Name: name,
      JSONWebKeySet: {
        Remote: {
          URI: "http://127.0.0.1:1/keys",
          CacheDuration: "30m",
          RetryPolicy: {
            NumRetries: 2,
            RetryPolicyBackOff: { BaseInterval: "1s", MaxInterval: "10s" },
          },
        },
      },
      Issuer: "a",
      Forwarding: { HeaderName: "x-a" },
    };
    await agent.configEntry(entry);
    assert.deepEqual(await read("jwt-provider", name), {
      ...entry,
      JSONWebKeySet: {
        Remote: {
          URI: "http://127.0.0.1:1/keys",
          CacheDuration: 1_800_000_000_000,
          RetryPolicy: {
            NumRetries: 2,
            RetryPolicyBackOff: { BaseInterval: 1_000_000_000, MaxInterval: 10_000_000_000 },
          },
        },
      },
      Forwarding: { HeaderName: "x-a", PadForwardPayloadHeader: false },
      ClockSkewSeconds: 30,
    });
    const intentions = (provider: string) => ({
      Kind: "service-intentions",
      Name: service,
      JWT: { Providers: [{ Name: provider }] },
      Sources: [{ Name: "web", Action: "allow" }],
    });
    await refuses(
      intentions("nobody"),
      500,
      "1 error occurred:\n\t* Referenced JWT Provider does not exist. Provider Name: nobody\n\n",
    );
    await agent.configEntry(intentions(name));
    const removal = await remove("jwt-provider", name);
    assert.deepEqual([removal.status, removal.error], [
      500,
      "cannot delete jwt provider config entry referenced by an intention. " +
      `Provider name: ${name}, intention name: ${service}`,
    ]);
    await remove("service-intentions", service);
    assert.equal((await remove("jwt-provider", name)).status, 200);
  });

  for (
    const [what, keys, text] of [
      ["no keys", {}, "JSONWebKeySet is required"],
      [
        "empty keys",
        { JSONWebKeySet: {} },
        "must specify exactly one of Local or Remote JSON Web key set",
      ],
      [
        "two kinds of keys",
        { JSONWebKeySet: { Local: { JWKS: "e30=" }, Remote: { URI: "a" } } },
        "must specify exactly one of Local or Remote JSON Web key set",
      ],
      [
        "keys that are no Base64",
        { JSONWebKeySet: { Local: { JWKS: "%%" } } },
        "JWKS must be valid base64 encoded string",
      ],
      [
        "keys at two places",
        { JSONWebKeySet: { Local: { JWKS: "e30=", Filename: "/a" } } },
        "must specify exactly one of String or filename for local keyset",
      ],
      ["keys of nobody", { JSONWebKeySet: { Remote: {} } }, "Remote JWKS URI is required"],
      [
        "a location without a place",
        { JSONWebKeySet: { Local: { JWKS: "e30=" } }, Locations: [{}] },
        "1 error occurred:\n\t* must set exactly one of: JWT location header, query param or cookie\n\n",
      ],
    ] as const
  ) {
    test(`a jwt-provider with ${what} is refused`, async () => {
      await refuses({ Kind: "jwt-provider", Name: unique("p"), Issuer: "a", ...keys }, 500, text);
    });
  }

  test("an extension of Envoy that Consul has not is refused", async () => {
    const EnvoyExtensions = [
      {
        Name: "builtin/lua",
        Arguments: { ProxyType: "connect-proxy", Listener: "inbound", Script: "-" },
      },
      { Name: "builtin/nope", Arguments: {} },
      { Arguments: {} },
    ];
    const faults = [
      '\t* invalid EnvoyExtensions[1][builtin/nope]: name "builtin/nope" is not a built-in extension\n',
      "\t* invalid EnvoyExtensions[2]: Name is required\n",
    ];
    const text = `2 errors occurred:\n${faults.join("")}\n`;
    await refuses({ Kind: "service-defaults", Name: unique("x"), EnvoyExtensions }, 500, text);
    await refuses({ Kind: "proxy-defaults", Name: "global", EnvoyExtensions }, 500, text);
  });

  test("a number of service-defaults that is zero is not kept, but for the size of heads", async () => {
    const name = unique("zero");
    await agent.configEntry({
      Kind: "service-defaults",
      Name: name,
      MaxInboundConnections: 0,
      LocalConnectTimeoutMs: 0,
      LocalRequestTimeoutMs: 0,
      MaxRequestHeadersKB: 0,
      Expose: { Checks: false, Paths: [{ Path: "/x", ListenerPort: 0, LocalPathPort: 0 }] },
    });
    assert.deepEqual(await read("service-defaults", name), {
      Kind: "service-defaults",
      Name: name,
      Protocol: "",
      TransparentProxy: {},
      MeshGateway: {},
      Expose: { Paths: [{ Path: "/x" }] },
      MaxRequestHeadersKB: 0,
    });
  });

  test("limits and passive health of upstreams are checked, protocols are not", async () => {
    const name = unique("upstreams");
    const entry = (UpstreamConfig: Entry) => ({
      Kind: "service-defaults",
      Name: name,
      UpstreamConfig,
    });
    for (
      const [config, text] of [
        [
          { Defaults: { Limits: { MaxConnections: -1 } } },
          "error in upstream defaults: 1 error occurred:\n\t* max connections cannot be negative\n\n",
        ],
        [
          { Defaults: { PassiveHealthCheck: { EnforcingConsecutive5xx: 150 } } },
          "error in upstream defaults: 1 error occurred:\n\t* passive health check " +
          "enforcing_consecutive_5xx must be a percentage between 0 and 100\n\n",
        ],
        [{ Defaults: { Name: "x" } }, "error in upstream defaults: Name must be empty"],
        [
          { Overrides: [{ Protocol: "http" }] },
          "error in upstream override for :: Name is required",
        ],
      ] as const
    ) {
      await refuses(entry(config), 500, `1 error occurred:\n\t* ${text}\n\n`);
    }
    await agent.configEntry(entry({
      Defaults: { Protocol: "Any", ConnectTimeoutMs: -5, Limits: { MaxPendingRequests: 0 } },
      Overrides: [{ Name: "x", Protocol: "GRPC" }],
    }));
    assert.deepEqual((await read("service-defaults", name))["UpstreamConfig"], {
      Defaults: { Peer: "", Protocol: "any", Limits: { MaxPendingRequests: 0 }, MeshGateway: {} },
      Overrides: [{ Name: "x", Peer: "", Protocol: "grpc", MeshGateway: {} }],
    });
  });

  test("the mesh's options of HTTP are shown whole, and checked", async () => {
    const http = async (HTTP: unknown) => {
      await agent.configEntry({ Kind: "mesh", HTTP });
      return (await read("mesh", "mesh"))["HTTP"];
    };
    const NONE = {
      InsecureDisablePathNormalization: false,
      MergeSlashes: false,
      PathWithEscapedSlashesAction: "",
      HeadersWithUnderscoresAction: "",
    };
    assert.equal(await http(null), undefined);
    assert.deepEqual(await http({}), { SanitizeXForwardedClientCert: false });
    assert.deepEqual(await http({ SanitizeXForwardedClientCert: true, Incoming: {} }), {
      SanitizeXForwardedClientCert: true,
      Incoming: {},
    });
    assert.deepEqual(await http({ incoming: { request_normalization: {} } }), {
      SanitizeXForwardedClientCert: false,
      Incoming: { RequestNormalization: NONE },
    });
    const all = {
      InsecureDisablePathNormalization: true,
      MergeSlashes: true,
      PathWithEscapedSlashesAction: "UNESCAPE_AND_FORWARD",
      HeadersWithUnderscoresAction: "DROP_HEADER",
    };
    assert.deepEqual(await http({ Incoming: { RequestNormalization: all } }), {
      SanitizeXForwardedClientCert: false,
      Incoming: { RequestNormalization: all },
    });
    const normalization = (RequestNormalization: unknown) => ({
      Kind: "mesh",
      HTTP: { Incoming: { RequestNormalization } },
    });
    const bad = "error in HTTP incoming request normalization configuration: no matching";
    await refuses(
      normalization({ PathWithEscapedSlashesAction: "KEEP" }),
      500,
      `${bad} PathWithEscapedSlashesAction value found for KEEP, please specify one of ` +
        "[IMPLEMENTATION_SPECIFIC_DEFAULT, KEEP_UNCHANGED, REJECT_REQUEST, " +
        "UNESCAPE_AND_REDIRECT, UNESCAPE_AND_FORWARD]",
    );
    await refuses(
      normalization({ HeadersWithUnderscoresAction: "allow" }),
      500,
      `${bad} HeadersWithUnderscoresAction value found for allow, please specify one of ` +
        "[ALLOW, REJECT_REQUEST, DROP_HEADER]",
    );
    await refuses(
      normalization({ Bogus: 1 }),
      400,
      "Request decoding failed: 1 error occurred:\n\t* invalid config key " +
        '"HTTP.Incoming.RequestNormalization.Bogus"\n\n',
    );
    await remove("mesh", "mesh");
  });

  test("the mesh's versions and suites of TLS are checked", async () => {
    const mesh = (direction: string, tls: Entry) => ({ Kind: "mesh", TLS: { [direction]: tls } });
    await refuses(
      mesh("Incoming", { TLSMinVersion: "1.2" }),
      500,
      "error in incoming TLS configuration: no matching TLS version found for 1.2, please " +
        "specify one of [TLS_AUTO, TLSv1_0, TLSv1_1, TLSv1_2, TLSv1_3]",
    );
    await refuses(
      mesh("Outgoing", { TLSMinVersion: "TLSv1_3", TLSMaxVersion: "TLSv1_2" }),
      500,
      "error in outgoing TLS configuration: configuring max version TLSv1_2 less than the " +
        "configured min version TLSv1_3 is invalid",
    );
    await refuses(
      mesh("Incoming", { CipherSuites: ["AES"] }),
      500,
      "error in incoming TLS configuration: no matching Envoy TLS cipher suite found for AES",
    );
  });

  test("access logs are checked, also where they are off", async () => {
    const entry = (AccessLogs: Entry) => ({ Kind: "proxy-defaults", Name: "global", AccessLogs });
    for (
      const [logs, text] of [
        [{ Type: "syslog" }, "invalid access log type: syslog"],
        [{ Type: "file" }, "path must be specified when using file type access logs"],
        [{ Path: "/tmp/log" }, "path is only valid for file type access logs"],
        [
          { JSONFormat: "{}", TextFormat: "x" },
          "cannot specify both access log JSONFormat and TextFormat",
        ],
        [{ JSONFormat: "{" }, /^invalid access log json for JSON format: /],
      ] as const
    ) await refuses(entry(logs), 500, text);
    for (
      const logs of [
        { Enabled: true, Type: "file", Path: "/tmp/log", DisableListenerLogs: true },
        { Enabled: true, Type: "stderr", TextFormat: "%BOGUS%" },
        { JSONFormat: '{"a":"%PROTOCOL%"}' },
      ]
    ) {
      await agent.configEntry(entry(logs));
      assert.deepEqual((await read("proxy-defaults", "global"))["AccessLogs"], logs);
    }
    await remove("proxy-defaults", "global");
  });

  test("the protocol of proxy-defaults holds in any letter case, where a service has no defaults", async () => {
    const [name, upstream, own] = [unique("global"), unique("called"), unique("own")];
    const mesh = (protocol: unknown) =>
      agent.configEntry({ Kind: "proxy-defaults", Name: "global", Config: { protocol } });
    await agent.register(sidecar(name, {
      Upstreams: [
        { DestinationName: upstream, LocalBindPort: 19191 },
        { DestinationName: own, LocalBindPort: 19192, Config: { protocol: "GRPC" } },
      ],
    }));
    await agent.configEntry({ Kind: "service-defaults", Name: own });
    await mesh("HTTP");
    assert.equal(await protocolOf(upstream), "http");
    assert.equal(await protocolOf(own), "tcp");
    const proxy = await until(() => proxyOf(name), ({ Config }) => Config !== undefined);
    assert.deepEqual(proxy.Config, { protocol: "HTTP" });
    assert.deepEqual(proxy.Upstreams?.map(({ Config }) => Config), [
      { protocol: "http" },
      { protocol: "GRPC" },
    ]);
    await mesh(5);
    assert.equal(await protocolOf(upstream), "5");
    await mesh("HTTP");
    const intentions = (Name: string) => ({
      Kind: "service-intentions",
      Name,
      Sources: [{ Name: "web", Permissions: [{ Action: "allow", HTTP: { PathPrefix: "/a" } }] }],
    });
    await agent.configEntry(intentions(upstream));
    const refusal = (service: string) =>
      `service "${service}" has protocol "tcp", which is incompatible with L7 intentions permissions`;
    await refuses(intentions(own), 500, refusal(own));
    await refuses(
      { Kind: "proxy-defaults", Name: "global", Config: { protocol: "tcp" } },
      500,
      refusal(upstream),
    );
    await refuses({ Kind: "service-defaults", Name: upstream }, 500, refusal(upstream));
    assert.equal((await remove("proxy-defaults", "global")).status, 500);
    await remove("service-intentions", upstream);
    await remove("proxy-defaults", "global");
  });

  test("numbers of service-defaults are merged where they are more than nothing", async () => {
    const name = unique("numbers");
    await agent.register(sidecar(name));
    const entry = { Kind: "service-defaults", Name: name, Protocol: "GRPC" };
    await agent.configEntry({
      Kind: "proxy-defaults",
      Name: "global",
      Config: { local_request_timeout_ms: 5, max_inbound_connections: 9 },
    });
    await agent.configEntry({
      ...entry,
      LocalRequestTimeoutMs: -1,
      MaxInboundConnections: -1,
      LocalConnectTimeoutMs: -1,
      MaxRequestHeadersKB: 0,
    });
    const merged = async () =>
      (await until(() => proxyOf(name), ({ Config }) => Config?.["protocol"] !== undefined))
        .Config;
    assert.deepEqual(await merged(), {
      local_request_timeout_ms: 5,
      max_inbound_connections: 9,
      max_request_headers_kb: 0,
      protocol: "grpc",
    });
    await agent.configEntry({ ...entry, LocalRequestTimeoutMs: 7 });
    await until(merged, (config) => config?.["local_request_timeout_ms"] === 7);
    await remove("proxy-defaults", "global");
  });

  test("exposed checks and exposed paths are merged each for itself", async () => {
    const [plain, checks, paths] = [unique("plain"), unique("checks"), unique("paths")];
    await agent.register(sidecar(plain));
    await agent.register(sidecar(checks, { Expose: { Checks: true } }));
    await agent.register(sidecar(paths, { Expose: { Paths: [path(3)] } }));
    await agent.configEntry({
      Kind: "proxy-defaults",
      Name: "global",
      Expose: { Checks: true, Paths: [path(1)] },
    });
    for (const Name of [plain, paths]) {
      await agent.configEntry({ Kind: "service-defaults", Name, Expose: { Paths: [path(2)] } });
    }
    const exposes = (name: string, want: Entry) =>
      until(async () => {
        try {
          assert.deepEqual((await proxyOf(name)).Expose, want);
          return "";
        } catch (error) {
          return String(error);
        }
      }, (fault) => fault === "");
    await exposes(plain, { Checks: true, Paths: [shown(2)] });
    await exposes(checks, { Checks: true, Paths: [shown(1)] });
    await exposes(paths, { Checks: true, Paths: [shown(3)] });
    await remove("proxy-defaults", "global");
    await exposes(plain, { Paths: [shown(2)] });
  });

  test("a registration's exposed paths are checked", async () => {
    for (
      const [list, fault] of [
        [[{ ...path(0), Path: "/x" }], "expose.paths: invalid listener port: 0"],
        [[path(70_000)], "expose.paths: invalid listener port: 70000"],
        [[{ ...path(1), Path: "" }], "expose.paths: empty path exposed"],
        [[path(1), { ...path(1), Path: "/y" }], "expose.paths: duplicate listener ports exposed"],
        [
          [{ ...path(1), Protocol: "grpc" }],
          "protocol 'grpc' not supported for path: /1, must be in: [http http2]",
        ],
      ] as const
    ) {
      const reply = await agent.call("PUT", "/v1/agent/service/register", {
        body: sidecar(unique("exposed"), { Expose: { Paths: list } }),
      });
      assert.equal(reply.status, 400);
      // A real agent names the two in any order.
      const error = reply.error.replace("[http2 http]", "[http http2]");
      assert.equal(error, `Failed Validation: 1 error occurred:\n\t* ${fault}\n\n`);
    }
  });
}
