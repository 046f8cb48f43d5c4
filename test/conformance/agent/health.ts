/**
 * Mesh health and the catalog: entries, filters, the two backends, and what wakes a long poll.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type AgentClient, keys, type Reply, unique, until } from "./client.ts";

interface Entry {
  readonly Node: Readonly<Record<string, unknown>>;
  readonly Service: Readonly<Record<string, unknown>> & { readonly ID: string };
  readonly Checks: readonly (Readonly<Record<string, unknown>> & {
    readonly CheckID: string;
    readonly Status: string;
  })[];
}

export function healthContract(agent: AgentClient): void {
  const entries = (reply: Reply) => JSON.parse(reply.text) as readonly Entry[];
  /** Registers `count` instances with a TTL check each and waits until the catalog has them. */
  const instances = async (name: string, statuses: readonly string[]): Promise<string> => {
    for (const [at, status] of statuses.entries()) {
      await agent.register({
        Name: `${name}-sidecar-proxy`,
        ID: `${name}-${at}-proxy`,
        Kind: "connect-proxy",
        Port: 20_000 + at,
        Meta: { version: `v${at}` },
        Tags: [at === 0 ? "blue" : "green"],
        Proxy: { DestinationServiceName: name, DestinationServiceID: `${name}-${at}` },
        Check: { CheckID: `${name}-${at}`, TTL: "10m", Status: status },
      });
    }
    const path = `/v1/health/connect/${name}`;
    await until(() => agent.get(path), (reply) => entries(reply).length === statuses.length);
    return path;
  };

  test("an entry has exactly these keys", async () => {
    const path = await instances(unique("keys"), ["passing"]);
    const reply = await agent.get(path);
    const [entry] = entries(reply);
    assert.deepEqual(keys(entry), ["Checks", "Node", "Service"]);
    assert.deepEqual(keys(entry?.Node), [
      "Address",
      "CreateIndex",
      "Datacenter",
      "ID",
      "Meta",
      "ModifyIndex",
      "Node",
      "TaggedAddresses",
    ]);
    // The catalog of a real cluster also gives the service a virtual address.
    const fields = keys(entry?.Service).filter((key) => key !== "TaggedAddresses");
    assert.deepEqual(fields, [
      "Address",
      "Connect",
      "CreateIndex",
      "EnableTagOverride",
      "ID",
      "Kind",
      "Meta",
      "ModifyIndex",
      "PeerName",
      "Port",
      "Proxy",
      "Service",
      "Tags",
      "Weights",
    ]);
    assert.deepEqual(entry?.Checks.map((check) => check.CheckID)[0], "serfHealth");
    assert.deepEqual(keys(entry?.Checks[1]), [
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
    assert.equal(reply.headers.get("X-Consul-Knownleader"), "true");
  });

  test("health of an unknown service is an empty list with an index", async () => {
    const reply = await agent.get(`/v1/health/connect/${unique("none")}`);
    assert.equal(reply.text.trim(), "[]");
    assert.ok(reply.index > 0);
  });

  test("passing drops warning and critical instances, passing=false does not", async () => {
    const path = await instances(unique("passing"), ["passing", "warning", "critical"]);
    assert.deepEqual(
      entries(await agent.get(`${path}?passing`)).map((entry) => entry.Checks[1]?.Status),
      ["passing"],
    );
    assert.equal(entries(await agent.get(`${path}?passing=false`)).length, 3);
    assert.equal(entries(await agent.get(path)).length, 3);
  });

  test("filters select by meta, tags, node and id; tag= does nothing here", async () => {
    const name = unique("filter");
    const path = await instances(name, ["passing", "passing", "passing"]);
    const filtered = async (filter: string) =>
      entries(await agent.get(`${path}?filter=${encodeURIComponent(filter)}`)).map((entry) =>
        entry.Service.ID
      );
    const ids = [0, 1, 2].map((at) => `${name}-${at}-proxy`);
    assert.deepEqual(await filtered("Service.Meta.version == v1"), [ids[1]]);
    assert.deepEqual(await filtered('Service.Meta.version != "v1"'), [ids[0], ids[2]]);
    assert.deepEqual(await filtered("Service.Meta.absent == x"), []);
    assert.deepEqual(await filtered('"blue" in Service.Tags'), [ids[0]]);
    assert.deepEqual(await filtered('"blue" not in Service.Tags'), [ids[1], ids[2]]);
    assert.deepEqual(
      await filtered('Service.Tags contains "green" and not Service.Meta.version == v2'),
      [ids[1]],
    );
    assert.deepEqual(await filtered("Service.Meta.version == v0 or Service.Meta.version == v2"), [
      ids[0],
      ids[2],
    ]);
    assert.deepEqual(await filtered('Service.Meta.version matches "^v[01]$"'), [ids[0], ids[1]]);
    assert.deepEqual(await filtered('(Service.Meta["version"] == "v0")'), [ids[0]]);
    assert.deepEqual(await filtered("Node.Datacenter == dc1"), ids);
    assert.deepEqual(await filtered("Service.Tags is empty"), []);
    assert.equal(entries(await agent.get(`${path}?tag=blue`)).length, 3);
  });

  test("a long poll is woken by a changed check of an instance, also one that the filter hides", async () => {
    const name = unique("woken");
    const path = await instances(name, ["passing"]);
    const settled = await until(
      () => agent.get(`${path}?index=1&wait=10s`),
      (reply) => entries(reply)[0]?.Checks[1]?.Status === "passing",
    );
    const filter = encodeURIComponent("Service.Meta.version == hidden");
    const woken = agent.get(`${path}?index=${settled.index}&wait=60s&filter=${filter}`);
    await agent.put(`/v1/agent/check/fail/${name}-0`);
    const reply = await woken;
    assert.ok(reply.tookMs < 30_000);
    assert.ok(reply.index > settled.index);
    assert.deepEqual(entries(reply), []);
  });

  test("a long poll on nothing is woken by the first instance", async () => {
    const name = unique("born");
    const path = `/v1/health/connect/${name}`;
    const { index } = await agent.get(path);
    const woken = until(
      () => agent.get(`${path}?index=${index}&wait=10s`),
      (reply) => entries(reply).length === 1,
    );
    await instances(name, ["passing"]);
    await woken;
  });

  test("an index that is too high waits the whole time, then the real one comes", async () => {
    const path = await instances(unique("high"), ["passing"]);
    const { index } = await agent.get(`${path}?index=1&wait=5s`);
    const reply = await agent.get(`${path}?index=${index + 100_000}&wait=300ms`);
    assert.ok(reply.tookMs >= 290, `${reply.tookMs} ms`);
    assert.ok(reply.index < index + 100_000);
  });

  test("maintenance is one more critical check", async () => {
    const name = unique("maintained");
    const path = await instances(name, ["passing"]);
    const set = (enable: boolean) =>
      agent.put(`/v1/agent/service/maintenance/${name}-0-proxy?enable=${enable}&reason=drain`);
    await set(true);
    const id = `_service_maintenance:${name}-0-proxy`;
    const found = await until(
      () => agent.get(path),
      (reply) => entries(reply)[0]?.Checks.some((check) => check.CheckID === id) === true,
    );
    const check = entries(found)[0]?.Checks.find((item) => item.CheckID === id);
    assert.equal(check?.Status, "critical");
    assert.equal(check?.["Type"], "maintenance");
    assert.equal(check?.["Notes"], "drain");
    await set(false);
    await until(() => agent.get(`${path}?passing`), (reply) => entries(reply).length === 1);
  });

  test("a native instance has no kind; the catalog lists services with their tags", async () => {
    const name = unique("native");
    await agent.register({ Name: name, Port: 18093, Tags: ["n"], Connect: { Native: true } });
    const reply = await until(
      () => agent.get(`/v1/health/connect/${name}`),
      (now) => entries(now).length === 1,
    );
    const service = entries(reply)[0]?.Service;
    assert.deepEqual(service?.["Connect"], { Native: true });
    assert.equal(service && "Kind" in service, false);
    const services = await agent.json<Record<string, unknown>>("/v1/catalog/services");
    assert.deepEqual(services[name], ["n"]);
    const [row] = await agent.json<readonly Record<string, unknown>[]>(
      `/v1/catalog/service/${name}`,
    );
    assert.equal(row?.["ServiceName"], name);
    assert.equal(row?.["ServicePort"], 18093);
    assert.deepEqual(row?.["ServiceTags"], ["n"]);
    assert.equal(row?.["Datacenter"], "dc1");
    assert.deepEqual(await agent.json("/v1/catalog/datacenters"), ["dc1"]);
  });
}

export function queryContract(agent: AgentClient): void {
  test("a prepared query finds mesh instances by name or id and never waits", async () => {
    const name = unique("queried");
    const register = (at: number, status: string) =>
      agent.register({
        Name: `${name}-sidecar-proxy`,
        ID: `${name}-${at}-proxy`,
        Kind: "connect-proxy",
        Port: 20_100 + at,
        Proxy: { DestinationServiceName: name },
        Check: { CheckID: `${name}-${at}`, TTL: "10m", Status: status },
      });
    for (const [at, status] of ["passing", "warning", "critical"].entries()) {
      await register(at, status);
    }
    await until(
      () => agent.json<readonly unknown[]>(`/v1/health/connect/${name}`),
      (found) => found.length === 3,
    );
    const create = async (query: string, service: Record<string, unknown>) =>
      JSON.parse(
        (await agent.call("POST", "/v1/query", {
          body: { Name: query, Service: { Service: name, ...service }, DNS: { TTL: "10s" } },
        })).text,
      ) as { ID: string };
    const { ID } = await create(name, { Connect: true });
    const reply = await agent.get(`/v1/query/${name}/execute?index=5&wait=30s`);
    assert.ok(reply.tookMs < 10_000);
    assert.equal(reply.index, 1);
    const body = JSON.parse(reply.text) as Record<string, unknown> & {
      readonly Nodes: readonly { readonly Service: { readonly ID: string } }[];
    };
    assert.deepEqual(body.Nodes.map((node) => node.Service.ID).sort(), [
      `${name}-0-proxy`,
      `${name}-1-proxy`,
    ]);
    assert.equal(body["Failovers"], 0);
    assert.equal(body["Datacenter"], "dc1");
    assert.equal(
      (await agent.json<{ Nodes: unknown[] }>(`/v1/query/${ID}/execute?limit=1`)).Nodes.length,
      1,
    );
    const strict = unique("strict");
    await create(strict, { Connect: true, OnlyPassing: true });
    const passing = await agent.json<typeof body>(`/v1/query/${strict}/execute`);
    assert.deepEqual(passing.Nodes.map((node) => node.Service.ID), [`${name}-0-proxy`]);
    const again = await agent.call("POST", "/v1/query", {
      body: { Name: name, Service: { Service: name } },
    });
    assert.equal(again.status, 500);
    const [definition] = await agent.json<readonly Record<string, unknown>[]>(`/v1/query/${ID}`);
    assert.equal(definition?.["Name"], name);
    assert.equal((await agent.call("DELETE", `/v1/query/${ID}`)).status, 200);
    assert.equal((await agent.call("GET", `/v1/query/${ID}/execute`)).status, 404);
  });
}
