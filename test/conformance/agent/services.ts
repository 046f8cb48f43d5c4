/**
 * Registration: the fields that a sidecar inherits, those that the agent merges, checks, and waiting by
 * hash.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { durationMs } from "../../../src/consul/replies/schema.ts";
import { type AgentClient, keys, unique, unmoved, until } from "./client.ts";

interface Service {
  readonly Address: string;
  readonly Port: number;
  readonly ContentHash: string;
  readonly Tags: readonly string[];
  readonly Meta: Readonly<Record<string, string>>;
  readonly Weights: unknown;
  readonly TaggedAddresses?: Readonly<Record<string, unknown>>;
  readonly Proxy: {
    readonly Config?: Readonly<Record<string, unknown>>;
    readonly Upstreams?: readonly {
      readonly Config?: Readonly<Record<string, unknown>>;
      readonly MeshGateway?: unknown;
    }[];
    readonly MeshGateway?: unknown;
  };
}

/**
 * The limits that are not null: a client agent writes unset limits as null, a server leaves them out.
 */
function set(limits: unknown): unknown {
  return Object.fromEntries(Object.entries(limits ?? {}).filter(([, value]) => value !== null));
}

/**
 * The registered ones among the addresses that are shown. A full sync (at the start, then every one to
 * two minutes) copies the virtual address that the catalog gave to a sidecar into the agent's own copy,
 * so that the address is there or not yet, and the content hash changes once with it.
 */
function registeredAddresses(
  shown: Readonly<Record<string, unknown>> = {},
  port: number,
): Readonly<Record<string, unknown>> {
  const { "consul-virtual": virtual, ...registered } = shown;
  if (virtual !== undefined) {
    const { Address, ...rest } = virtual as Readonly<Record<string, unknown>>;
    assert.match(String(Address), /^240\.\d+\.\d+\.\d+$/);
    assert.deepEqual(rest, { Port: port });
  }
  return registered;
}

/** Consul gives sidecar ports from here; a test that fixes one uses a lower one. */
const FIRST_SIDECAR_PORT = 21000;

export function serviceContract(agent: AgentClient): void {
  const read = (id: string) => agent.json<Service>(`/v1/agent/service/${id}`);
  const sidecar = (name: string, proxy: Record<string, unknown> = {}) => ({
    Name: name,
    ID: `${name}-1`,
    Port: 18080,
    Connect: { SidecarService: { Proxy: proxy } },
  });

  test("a sidecar has exactly these keys", async () => {
    const name = unique("plain");
    await agent.register(
      sidecar(name, { Upstreams: [{ DestinationName: "db", LocalBindPort: 19191 }] }),
    );
    const reply = await agent.get(`/v1/agent/service/${name}-1-sidecar-proxy`);
    const { Port, ContentHash, TaggedAddresses, ...rest } = JSON.parse(reply.text) as Service;
    assert.ok(Port >= FIRST_SIDECAR_PORT && Port <= 21255);
    assert.match(ContentHash, /^[0-9a-f]{1,16}$/);
    assert.equal(reply.headers.get("X-Consul-Contenthash"), ContentHash);
    assert.equal(reply.headers.has("X-Consul-Index"), false);
    assert.deepEqual(registeredAddresses(TaggedAddresses, Port), {});
    assert.deepEqual(rest, {
      Kind: "connect-proxy",
      ID: `${name}-1-sidecar-proxy`,
      Service: `${name}-sidecar-proxy`,
      Tags: [],
      Meta: {},
      Address: "",
      Weights: { Passing: 1, Warning: 1 },
      EnableTagOverride: false,
      Datacenter: "dc1",
      Proxy: {
        DestinationServiceName: name,
        DestinationServiceID: `${name}-1`,
        LocalServiceAddress: "127.0.0.1",
        LocalServicePort: 18080,
        Upstreams: [{
          DestinationType: "service",
          DestinationName: "db",
          LocalBindPort: 19191,
          MeshGateway: {},
        }],
        MeshGateway: {},
        Expose: {},
      },
    });
    const app = await agent.json<Record<string, unknown>>(`/v1/agent/service/${name}-1`);
    assert.deepEqual(keys(app), [
      "Address",
      "ContentHash",
      "Datacenter",
      "EnableTagOverride",
      "ID",
      "Meta",
      "Port",
      "Service",
      "Tags",
      "Weights",
    ]);
  });

  test("a sidecar inherits tags, meta and address, not weights", async () => {
    const name = unique("heir");
    await agent.register({
      ...sidecar(name),
      Tags: ["v1"],
      Meta: { version: "1" },
      Address: "127.0.0.1",
      Weights: { Passing: 10, Warning: 3 },
    });
    const proxy = await read(`${name}-1-sidecar-proxy`);
    assert.deepEqual(proxy.Tags, ["v1"]);
    assert.deepEqual(proxy.Meta, { version: "1" });
    assert.deepEqual(proxy.Weights, { Passing: 1, Warning: 1 });
    assert.equal(proxy.Address, "127.0.0.1");
  });

  test("snake case bodies mean the same", async () => {
    const name = unique("snake");
    await agent.register({
      name,
      id: `${name}-1`,
      port: 18080,
      connect: {
        sidecar_service: {
          proxy: {
            local_service_address: "127.0.0.9",
            upstreams: [{
              destination_name: "db",
              local_bind_port: 19191,
              local_bind_address: "127.0.0.2",
            }],
            config: { some_key: { Inner_Key: 1 } },
          },
        },
      },
    });
    const { Proxy: proxy } = await agent.json<{ Proxy: Record<string, unknown> }>(
      `/v1/agent/service/${name}-1-sidecar-proxy`,
    );
    assert.equal(proxy["LocalServiceAddress"], "127.0.0.9");
    assert.deepEqual(proxy["Config"], { some_key: { Inner_Key: 1 } });
    assert.deepEqual(proxy["Upstreams"], [{
      DestinationType: "service",
      DestinationName: "db",
      LocalBindAddress: "127.0.0.2",
      LocalBindPort: 19191,
      MeshGateway: {},
    }]);
  });

  test("the right hash waits, a wrong or empty one answers at once", async () => {
    const name = unique("hash");
    await agent.register({ Name: name, Port: 1 });
    const { ContentHash: hash } = await read(name);
    const wrong = await agent.get(`/v1/agent/service/${name}?hash=abc&wait=30s`);
    assert.ok(wrong.tookMs < 10_000);
    const waited = await agent.get(`/v1/agent/service/${name}?hash=${hash}&wait=300ms`);
    assert.ok(waited.tookMs >= 290, `${waited.tookMs} ms`);
    assert.equal(waited.headers.get("X-Consul-Contenthash"), hash);
  });

  test("a changed registration ends the wait, an identical one does not", async () => {
    const name = unique("change");
    await agent.register({ Name: name, Port: 1 });
    const { ContentHash: hash } = await read(name);
    await unmoved(agent, 400, async () => {
      const quiet = agent.get(`/v1/agent/service/${name}?hash=${hash}&wait=400ms`);
      await agent.settle();
      await agent.register({ Name: name, Port: 1 });
      return await quiet;
    });
    const woken = agent.get(`/v1/agent/service/${name}?hash=${hash}&wait=60s`);
    await agent.register({ Name: name, Port: 2 });
    const reply = await woken;
    assert.ok(reply.tookMs < 20_000);
    assert.equal((JSON.parse(reply.text) as Service).Port, 2);
  });

  test("deregistering ends the wait with 404 and takes the sidecar along", async () => {
    const name = unique("gone");
    await agent.register(sidecar(name));
    const id = `${name}-1-sidecar-proxy`;
    const wait = (hash: string) =>
      agent.call("GET", `/v1/agent/service/${id}?hash=${hash}&wait=60s`);
    const waiting = wait((await read(id)).ContentHash);
    await agent.put(`/v1/agent/service/deregister/${name}-1`);
    let reply = await waiting;
    // The virtual address came or went in between: a wait of its own.
    while (reply.status === 200) {
      reply = await wait((JSON.parse(reply.text) as Service).ContentHash);
    }
    assert.equal(reply.status, 404);
    assert.equal(reply.error, `unknown service ID: ${id}`);
  });

  test("central configuration is merged, a registered value wins", async () => {
    const name = unique("merged");
    const cache = unique("cache");
    await agent.register(sidecar(name, {
      Config: { local_connect_timeout_ms: 900 },
      MeshGateway: { Mode: "none" },
      Upstreams: [
        { DestinationName: "db", LocalBindPort: 19191, Config: { connect_timeout_ms: 50 } },
        { DestinationName: cache, LocalBindPort: 19192 },
        { DestinationName: "geo", DestinationType: "prepared_query", LocalBindPort: 19193 },
      ],
    }));
    const id = `${name}-1-sidecar-proxy`;
    const { ContentHash: hash } = await read(id);
    const woken = agent.get(`/v1/agent/service/${id}?hash=${hash}&wait=60s`);
    await agent.configEntry({
      Kind: "service-defaults",
      Name: name,
      Protocol: "http",
      LocalConnectTimeoutMs: 3100,
      MaxInboundConnections: 77,
      MeshGateway: { Mode: "local" },
      UpstreamConfig: {
        Defaults: {
          ConnectTimeoutMs: 1111,
          Limits: { MaxConnections: 0, MaxPendingRequests: 5 },
          PassiveHealthCheck: { Interval: "10s", MaxFailures: 3 },
        },
        Overrides: [{ Name: cache, Protocol: "http2", Limits: { MaxConnections: 9 } }],
      },
    });
    await woken;
    const { Proxy: proxy } = await until(
      () => read(id),
      (now) => now.Proxy.Upstreams?.[1]?.Config !== undefined,
    );
    assert.deepEqual(proxy.Config, {
      local_connect_timeout_ms: 900,
      max_inbound_connections: 77,
      protocol: "http",
    });
    assert.deepEqual(proxy.MeshGateway, { Mode: "none" });
    const [db, other, query] = proxy.Upstreams ?? [];
    assert.equal(db?.Config?.["connect_timeout_ms"], 50);
    assert.deepEqual(set(db?.Config?.["limits"]), { MaxConnections: 0, MaxPendingRequests: 5 });
    assert.deepEqual(db?.MeshGateway, { Mode: "none" });
    assert.equal(other?.Config?.["protocol"], "http2");
    assert.equal(other?.Config?.["connect_timeout_ms"], 1111);
    assert.deepEqual(set(other?.Config?.["limits"]), { MaxConnections: 9 });
    const passive = other?.Config?.["passive_health_check"] as Record<string, unknown>;
    assert.equal(durationMs(passive["Interval"] as string | number), 10_000);
    assert.equal(passive["MaxFailures"], 3);
    assert.equal(query?.Config, undefined);
  });

  test("a sidecar has a TCP check and an alias of its application", async () => {
    const name = unique("checked");
    await agent.register(sidecar(name));
    const checks = await agent.json<Record<string, Record<string, unknown>>>("/v1/agent/checks");
    const tcp = checks[`service:${name}-1-sidecar-proxy:1`];
    const alias = checks[`service:${name}-1-sidecar-proxy:2`];
    assert.equal(tcp?.["Name"], "Connect Sidecar Listening");
    assert.equal(tcp?.["Type"], "tcp");
    assert.equal(tcp?.["Interval"], "10s");
    assert.equal(alias?.["Name"], `Connect Sidecar Aliasing ${name}-1`);
    assert.equal(alias?.["Type"], "alias");
    assert.deepEqual(keys(tcp), [
      "CheckID",
      "CreateIndex",
      "Definition",
      "ExposedPort",
      "Interval",
      "ModifyIndex",
      "Name",
      "Node",
      "Notes",
      "Output",
      "ServiceID",
      "ServiceName",
      "ServiceTags",
      "Status",
      "Timeout",
      "Type",
    ]);
    const beat = await agent.call("PUT", `/v1/agent/check/pass/service:${name}-1-sidecar-proxy:1`);
    assert.equal(beat.status, 500);
  });

  test("a heartbeat moves a TTL check and the health that it makes", async () => {
    const name = unique("ttl");
    await agent.register({ Name: name, Port: 1, Check: { CheckID: name, TTL: "60s" } });
    const health = () => agent.call("GET", `/v1/agent/health/service/id/${name}`);
    assert.equal((await health()).status, 503);
    await agent.put(`/v1/agent/check/pass/${name}`);
    const passing = await health();
    assert.equal(passing.status, 200);
    assert.equal(passing.headers.get("X-Consul-Reason"), "passing");
    await agent.put(`/v1/agent/check/warn/${name}`);
    assert.equal((await health()).status, 429);
    await agent.put(`/v1/agent/check/update/${name}`, { Status: "critical", Output: "because" });
    const critical = await health();
    assert.equal(critical.status, 503);
    assert.equal(
      (JSON.parse(critical.text) as Record<string, unknown>)["AggregatedStatus"],
      "critical",
    );
    assert.equal((await agent.call("GET", "/v1/agent/health/service/id/nope")).status, 404);
    assert.equal((await agent.call("GET", "/v1/agent/health/service/name/nope")).status, 404);
  });

  test("services can be filtered as the Consul CLI does to find a sidecar", async () => {
    const name = unique("filter");
    await agent.register(sidecar(name));
    const filter = encodeURIComponent(
      `Kind == "connect-proxy" and Proxy.DestinationServiceID == "${name}-1"`,
    );
    const found = await agent.json<Record<string, Service>>(`/v1/agent/services?filter=${filter}`);
    assert.deepEqual(keys(found), [`${name}-1-sidecar-proxy`]);
    assert.equal("ContentHash" in (found[`${name}-1-sidecar-proxy`] ?? {}), false);
  });
}
