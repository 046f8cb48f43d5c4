/**
 * Config entries about HTTP: protocols, tokens, options of the mesh, access logs, exposed paths, and how they
 * are merged into a sidecar.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { JwtProvider } from "../../../src/consul/model/config_entries.ts";
import { readJwtProvider } from "../../../src/consul/replies/jwt_provider.ts";
import { type AgentClient, unique, until } from "./client.ts";

type Entry = Readonly<Record<string, unknown>>;

interface Proxy {
  readonly Config?: Entry;
  readonly Expose?: Entry;
  readonly Upstreams?: readonly { readonly Config?: Entry }[];
}

export function httpEntryContract(agent: AgentClient): void {
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

  async function refuses(entry: Entry): Promise<void> {
    const { status, text } = await agent.call("PUT", "/v1/config", { body: entry });
    assert.equal(status, 500, text);
  }

  test("a service's protocol is kept in lower case", async () => {
    const name = unique("protocol");
    const entry = (Protocol: string) => ({ Kind: "service-defaults", Name: name, Protocol });
    for (const protocol of ["tcp", "http", "HTTP2", "gRPC"]) {
      await agent.configEntry(entry(protocol));
      assert.equal((await read("service-defaults", name))["Protocol"], protocol.toLowerCase());
      assert.equal(await protocolOf(name), protocol.toLowerCase());
    }
  });

  test("a jwt-provider is read as it was written, and stays while an intention refers to it", async () => {
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
    const { clockSkewSeconds: _, ...provider } = usable(
      readJwtProvider(await read("jwt-provider", name)),
    );
    assert.deepEqual(provider, {
      kind: "usable",
      issuer: "a",
      audiences: [],
      keys: {
        kind: "remote",
        uri: "http://127.0.0.1:1/keys",
        requestTimeoutMs: 0,
        cacheDurationMs: 1_800_000,
        fetchAsynchronously: false,
        retries: 2,
        baseIntervalMs: 1_000,
        maxIntervalMs: 10_000,
      },
      locations: [],
      forwarding: { headerName: "x-a", padForwardPayloadHeader: false },
    });
    await agent.configEntry({
      Kind: "service-intentions",
      Name: service,
      JWT: { Providers: [{ Name: name }] },
      Sources: [{ Name: "web", Action: "allow" }],
    });
    assert.equal((await remove("jwt-provider", name)).status, 500);
    await remove("service-intentions", service);
    assert.equal((await remove("jwt-provider", name)).status, 200);
  });

  test("the mesh's options and the access log of proxy-defaults are kept", async () => {
    const RequestNormalization = {
      InsecureDisablePathNormalization: true,
      MergeSlashes: true,
      PathWithEscapedSlashesAction: "UNESCAPE_AND_FORWARD",
      HeadersWithUnderscoresAction: "DROP_HEADER",
    };
    await agent.configEntry({
      Kind: "mesh",
      http: { sanitize_x_forwarded_client_cert: true, Incoming: { RequestNormalization } },
    });
    assert.deepEqual((await read("mesh", "mesh"))["HTTP"], {
      SanitizeXForwardedClientCert: true,
      Incoming: { RequestNormalization },
    });
    await remove("mesh", "mesh");
    const AccessLogs = { Enabled: true, Type: "stderr", TextFormat: "%BOGUS%" };
    await agent.configEntry({ Kind: "proxy-defaults", Name: "global", AccessLogs });
    assert.deepEqual((await read("proxy-defaults", "global"))["AccessLogs"], AccessLogs);
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
    await refuses(intentions(own));
    await refuses({ Kind: "proxy-defaults", Name: "global", Config: { protocol: "tcp" } });
    await refuses({ Kind: "service-defaults", Name: upstream });
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
}

function usable(provider: JwtProvider | null): Extract<JwtProvider, { kind: "usable" }> {
  assert.equal(provider?.kind, "usable");
  return provider as Extract<JwtProvider, { kind: "usable" }>;
}
