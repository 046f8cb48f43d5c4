/** Config entries and the chains compiled from them. @module */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { durationMs } from "../../../src/consul/replies/schema.ts";
import { readChain } from "../../../src/consul/replies/discovery_chain.ts";
import { type AgentClient, unique, unmoved, woken } from "./client.ts";

interface Chain {
  readonly AutoVirtualIPs?: unknown;
  readonly ManualVirtualIPs?: unknown;
  readonly CustomizationHash?: string;
  readonly Default?: boolean;
  readonly Protocol: string;
  readonly StartNode: string;
  readonly Nodes: Readonly<
    Record<
      string,
      { readonly Resolver?: Readonly<Record<string, unknown>>; readonly Splits?: unknown }
    >
  >;
  readonly Targets: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

interface Defaults {
  readonly Defaults: Readonly<Record<string, unknown>>;
  readonly Overrides: readonly { readonly Name: string }[];
}

export function chainContract(agent: AgentClient): void {
  const chain = async (service: string, body?: unknown) => {
    const path = `/v1/discovery-chain/${service}`;
    const reply = body === undefined
      ? await agent.get(path)
      : await agent.call("POST", path, { body });
    assert.equal(reply.status, 200, reply.text);
    return (JSON.parse(reply.text) as { Chain: Chain }).Chain;
  };
  const trustDomain = async () =>
    (await agent.json<{ TrustDomain: string }>("/v1/agent/connect/ca/roots")).TrustDomain;

  test("an unknown service has exactly the default chain", async () => {
    const name = unique("nothing");
    const id = `${name}.default.default.dc1`;
    const sni = `${name}.default.dc1.internal.${await trustDomain()}`;
    const { AutoVirtualIPs: _a, ManualVirtualIPs: _m, ...compiled } = await chain(name);
    assert.deepEqual(compiled, {
      ServiceName: name,
      Namespace: "default",
      Partition: "default",
      Datacenter: "dc1",
      Default: true,
      Protocol: "tcp",
      StartNode: `resolver:${id}`,
      Nodes: {
        [`resolver:${id}`]: {
          Type: "resolver",
          Name: id,
          Resolver: { ConnectTimeout: "5s", Default: true, Target: id },
        },
      },
      Targets: {
        [id]: {
          ConnectTimeout: "5s",
          ID: id,
          Service: name,
          Namespace: "default",
          Partition: "default",
          Datacenter: "dc1",
          MeshGateway: {},
          Subset: {},
          TransparentProxy: {},
          SNI: sni,
          Name: sni,
        },
      },
    });
  });

  test("overrides change the fields they name, in both spellings; an equal one changes nothing", async () => {
    const name = unique("override");
    const id = `${name}.default.default.dc1`;
    const timeoutMs = ({ Targets }: Chain) => durationMs(String(Targets[id]?.["ConnectTimeout"]));
    const changed = await chain(name, {
      OverrideConnectTimeout: "7s",
      OverrideProtocol: "http",
      OverrideMeshGateway: { Mode: "local" },
    });
    assert.match(changed.CustomizationHash ?? "", /^[0-9a-f]{8}$/);
    assert.equal(changed.Default, true);
    assert.equal(changed.Protocol, "http");
    assert.equal(timeoutMs(changed), 7_000);
    assert.deepEqual(changed.Targets[id]?.["MeshGateway"], { Mode: "local" });
    const snake = await chain(name, { override_connect_timeout: "90s", override_protocol: "grpc" });
    assert.equal(snake.Protocol, "grpc");
    assert.equal(timeoutMs(snake), 90_000);
    const same = await chain(name, { OverrideProtocol: "tcp", OverrideConnectTimeout: "5s" });
    assert.deepEqual(same, await chain(name));
  });

  test("a resolver redirects, fails over by service, datacenter, peer and subset", async () => {
    const [from, to, backup] = [unique("from"), unique("to"), unique("backup")];
    await agent.configEntry({
      Kind: "service-resolver",
      Name: from,
      Redirect: { Service: to, Datacenter: "dc2" },
    });
    const redirected = await chain(from);
    assert.equal(redirected.StartNode, `resolver:${to}.default.default.dc2`);
    assert.equal("Default" in redirected, false);
    await agent.configEntry({
      Kind: "service-resolver",
      Name: backup,
      Subsets: { b1: { Filter: "Service.Meta.version == b1" } },
    });
    await agent.configEntry({
      Kind: "service-resolver",
      Name: to,
      ConnectTimeout: "3s",
      Failover: {
        "*": {
          Targets: [{ Datacenter: "dc2" }, { Peer: "east" }, {
            Service: backup,
            ServiceSubset: "b1",
          }],
        },
      },
    });
    const failing = await chain(to);
    const id = `${to}.default.default.dc1`;
    assert.deepEqual(failing.Nodes[`resolver:${id}`]?.Resolver, {
      ConnectTimeout: "3s",
      Target: id,
      Failover: {
        Targets: [
          `${to}.default.default.dc2`,
          `${to}.default.default.external.east`,
          `b1.${backup}.default.default.dc1`,
        ],
      },
    });
    assert.deepEqual(failing.Targets[`${to}.default.default.external.east`], {
      ConnectTimeout: "3s",
      ID: `${to}.default.default.external.east`,
      Service: to,
      Namespace: "default",
      Partition: "default",
      Peer: "east",
      MeshGateway: {},
      Subset: {},
      TransparentProxy: {},
    });
    assert.deepEqual(failing.Targets[`b1.${backup}.default.default.dc1`]?.["Subset"], {
      Filter: "Service.Meta.version == b1",
    });
  });

  test("an external SNI replaces the SNI and nothing else", async () => {
    const name = unique("ext");
    await agent.configEntry({
      Kind: "service-defaults",
      Name: name,
      ExternalSNI: "ext.example.com",
    });
    const target = (await chain(name)).Targets[`${name}.default.default.dc1`];
    assert.equal(target?.["External"], true);
    assert.equal(target?.["SNI"], "ext.example.com");
    assert.equal(target?.["Name"], `${name}.default.dc1.internal.${await trustDomain()}`);
  });

  test("circular redirects and mixed protocols are refused when written", async () => {
    const [one, two, web] = [unique("one"), unique("two"), unique("web")];
    await agent.configEntry({ Kind: "service-resolver", Name: one, Redirect: { Service: two } });
    const circle = await agent.call("PUT", "/v1/config", {
      body: { Kind: "service-resolver", Name: two, Redirect: { Service: one } },
    });
    assert.equal(circle.status, 500);
    assert.match(circle.error, /^detected circular resolver redirect: \[/);
    await agent.configEntry({ Kind: "service-defaults", Name: web, Protocol: "http" });
    const mixed = await agent.call("PUT", "/v1/config", {
      body: {
        Kind: "service-router",
        Name: web,
        Routes: [{
          Match: { HTTP: { PathPrefix: "/x" } },
          Destination: { Service: unique("tcp") },
        }],
      },
    });
    assert.equal(mixed.status, 500);
    assert.match(
      mixed.error,
      /uses inconsistent protocols; service "tcp-\w+" has "tcp" which is not "http"$/,
    );
    await agent.configEntry({ Kind: "service-router", Name: web, Routes: [] });
    const plain = await agent.call("DELETE", `/v1/config/service-defaults/${web}`);
    assert.equal(plain.status, 500);
  });

  test("splits of splits are one, with the headers of both", async () => {
    const [outer, inner, last] = [unique("outer"), unique("inner"), unique("last")];
    for (const Name of [outer, inner, last]) {
      await agent.configEntry({ Kind: "service-defaults", Name, Protocol: "http" });
    }
    const headers = (by: string) => ({
      Add: { "x-a": by, [`x-${by}`]: by },
      Set: { "x-s": by },
      Remove: [`x-no-${by}`],
    });
    const changes = (by: string) => ({ RequestHeaders: headers(by), ResponseHeaders: headers(by) });
    await agent.configEntry({
      Kind: "service-splitter",
      Name: inner,
      Splits: [{ Weight: 25, Service: last, ...changes("in") }, { Weight: 75 }],
    });
    await agent.configEntry({
      Kind: "service-splitter",
      Name: outer,
      Splits: [
        { Weight: 40, Service: last },
        { Weight: 60, Service: inner, ...changes("out") },
      ],
    });
    const { Nodes, StartNode } = await chain(outer);
    const to = (service: string) => `resolver:${service}.default.default.dc1`;
    assert.deepEqual(Object.keys(Nodes).sort(), [to(inner), to(last), StartNode].sort());
    const merged = (first: string, then: string) => ({
      Add: { "x-a": then, "x-in": "in", "x-out": "out" },
      Set: { "x-s": then },
      Remove: [`x-no-${first}`, `x-no-${then}`],
    });
    assert.deepEqual(Nodes[StartNode]?.Splits, [
      { Definition: { Weight: 40, Service: last }, Weight: 40, NextNode: to(last) },
      {
        Definition: {
          Weight: 25,
          Service: last,
          RequestHeaders: merged("out", "in"),
          ResponseHeaders: merged("in", "out"),
        },
        Weight: 15,
        NextNode: to(last),
      },
      { Definition: { Weight: 75, ...changes("out") }, Weight: 45, NextNode: to(inner) },
    ]);
  });

  test("a chain waits, and is woken by an entry of a service in it only", async () => {
    const name = unique("woken");
    const path = `/v1/discovery-chain/${name}`;
    await unmoved(agent, 400, async () => {
      const before = await agent.get(path);
      const quiet = agent.get(`${path}?index=${before.index}&wait=400ms`);
      await agent.settle();
      await agent.configEntry({
        Kind: "service-resolver",
        Name: unique("other"),
        ConnectTimeout: "1s",
      });
      return await quiet;
    });
    const { index } = await agent.get(path);
    const changed = woken(
      agent,
      (at) => agent.call("POST", `${path}?index=${at}&wait=60s`, { body: {} }),
      { index, wanted: ({ text }) => /"ConnectTimeout": ?"9s"/.test(text) },
    );
    await agent.configEntry({ Kind: "service-resolver", Name: name, ConnectTimeout: "9s" });
    assert.equal((await changed).status, 200);
  });

  test("router, splitter and resolvers compile to the recorded chain", async () => {
    const read = (name: string) =>
      JSON.parse(
        readFileSync(new URL(`../../fixtures/consul/${name}.json`, import.meta.url), "utf8"),
      );
    for (const name of ["api", "canary", "admin", "legacy", "cache", "backup"]) {
      await agent.configEntry({
        Kind: "service-defaults",
        Name: name,
        Protocol: "http",
        MeshGateway: { Mode: "local" },
        ...name === "api" ? { Meta: { team: "t-api" } } : {},
      });
    }
    const resolvers = [
      {
        Name: "canary",
        Failover: { "*": { Service: "backup", Datacenters: ["dc2"] } },
        LoadBalancer: { Policy: "least_request", LeastRequestConfig: { ChoiceCount: 5 } },
      },
      { Name: "legacy", Redirect: { Service: "cache", Datacenter: "dc2" } },
      { Name: "backup", Subsets: { b1: { Filter: "Service.Meta.version == b1" } } },
    ];
    for (const resolver of resolvers) {
      await agent.configEntry({ Kind: "service-resolver", ...resolver });
    }
    for (const kind of ["resolver", "splitter", "router"]) {
      const { Hash: _h, CreateIndex: _c, ModifyIndex: _m, ...entry } = read(
        `config_service_${kind}`,
      );
      await agent.configEntry(entry);
    }
    const rename = (text: string) => text.replace(/[0-9a-f-]{36}\.consul/g, "TD");
    // As a proxy reads it: durations may be written in two ways.
    const got = readChain(JSON.parse(rename(JSON.stringify({ Chain: await chain("api") }))));
    assert.deepEqual(got, readChain(JSON.parse(rename(JSON.stringify(read("chain_rich"))))));
    const { AutoVirtualIPs: _d, CustomizationHash: _i, ...tcp } = JSON.parse(
      rename(JSON.stringify(await chain("api", { OverrideProtocol: "tcp" }))),
    );
    assert.deepEqual(Object.keys(tcp.Nodes), ["resolver:v1.api.default.default.dc1"]);
    assert.equal(tcp.Protocol, "tcp");
    assert.equal(tcp.StartNode, "resolver:v1.api.default.default.dc1");
  });
}

export function configContract(agent: AgentClient): void {
  const put = (body: unknown, query = "") => agent.call("PUT", `/v1/config${query}`, { body });

  test("an absent entry is 404 with an index, and can be waited for", async () => {
    const name = unique("absent");
    const path = `/v1/config/service-defaults/${name}`;
    const absent = await agent.call("GET", path);
    assert.equal(absent.status, 404);
    assert.equal(absent.error, `Config entry not found for "service-defaults" / "${name}"`);
    assert.ok(absent.index > 0);
    const poll = (index: number) => agent.call("GET", `${path}?index=${index}&wait=60s`);
    const created = woken(agent, poll, {
      index: absent.index,
      wanted: ({ status }) => status === 200,
    });
    await agent.configEntry({ Kind: "service-defaults", Name: name, Protocol: "http" });
    const removed = woken(agent, poll, {
      index: (await created).index,
      wanted: ({ status }) => status === 404,
    });
    await agent.call("DELETE", path);
    await removed;
  });

  test("removing an entry that is not there is no error", async () => {
    const reply = await agent.call("DELETE", `/v1/config/service-defaults/${unique("never")}`);
    assert.equal(reply.status, 200);
    assert.equal(reply.text.trim(), "{}");
  });

  test("compare and set answers false where the index is another", async () => {
    const name = unique("cas");
    assert.equal(
      (await put({ Kind: "service-defaults", Name: name }, "?cas=0")).text.trim(),
      "true",
    );
    assert.equal(
      (await put({ Kind: "service-defaults", Name: name, Protocol: "http" }, "?cas=1")).text.trim(),
      "false",
    );
  });

  test("an entry is read with the fields that were written, in Consul's spelling", async () => {
    const name = unique("fields");
    await agent.configEntry({
      kind: "service-defaults",
      name,
      protocol: "http",
      upstream_config: {
        defaults: { connect_timeout_ms: 5, limits: { max_connections: 3 } },
        overrides: [{ name: "db" }],
      },
    });
    const entry = await agent.json<{ readonly UpstreamConfig: Defaults }>(
      `/v1/config/service-defaults/${name}`,
    );
    const { Defaults, Overrides } = entry.UpstreamConfig;
    assert.equal(Defaults["ConnectTimeoutMs"], 5);
    assert.deepEqual(Defaults["Limits"], { MaxConnections: 3 });
    assert.deepEqual(Overrides.map(({ Name }) => Name), ["db"]);
  });

  test("the mesh entry has no name", async () => {
    await agent.configEntry({ Kind: "mesh", TLS: { Incoming: { TLSMinVersion: "TLSv1_3" } } });
    const { TLS } = await agent.json<{ readonly TLS: unknown }>("/v1/config/mesh/mesh");
    assert.deepEqual(TLS, { Incoming: { TLSMinVersion: "TLSv1_3" } });
    await agent.call("DELETE", "/v1/config/mesh/mesh");
  });
}
