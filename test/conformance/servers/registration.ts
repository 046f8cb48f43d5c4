/**
 * Registrations in the catalog: those that are refused, the fields stored and shown, and the changes
 * that wake a blocking query.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient, unique, unmoved, woken } from "../agent/client.ts";
import type { ServerUnderTest } from "./grpc_client.ts";

const REGISTER = "/v1/catalog/register";
const DEREGISTER = "/v1/catalog/deregister";

const REFUSED: readonly (readonly [path: string, body: unknown])[] = [
  [REGISTER, {}],
  [REGISTER, { Node: "n" }],
  [REGISTER, { Node: "n", SkipNodeUpdate: true, Service: {} }],
  [REGISTER, { Node: "n", Address: "10.0.0.1", Check: { CheckID: "c", ServiceID: "nono" } }],
  [REGISTER, { Node: "n", SkipNodeUpdate: true, Datacenter: "dc9" }],
  [DEREGISTER, {}],
  [DEREGISTER, { Node: "n", Datacenter: "dc9" }],
];

interface NodeServices {
  readonly Node: Readonly<Record<string, unknown>> | null;
  readonly Services: readonly Service[] | null;
}

interface Service {
  readonly ID: string;
  readonly Address: string;
  readonly Port: number;
  readonly Proxy: {
    readonly DestinationServiceName?: string;
    readonly Config?: Readonly<Record<string, unknown>>;
    readonly Upstreams?: readonly Readonly<Record<string, unknown>>[];
    readonly EnvoyExtensions?: readonly { readonly Name: string }[];
  };
}

interface HealthEntry {
  readonly Node: { readonly Node: string };
  readonly Service: Service;
  readonly Checks: readonly { readonly CheckID: string; readonly Status: string }[];
}

export function registrationContract(server: ServerUnderTest): void {
  const http = new AgentClient({ ...server, port: server.httpPort, mayAnswerEarly: true });

  for (const [path, body] of REFUSED) {
    test(`PUT ${path} ${JSON.stringify(body).slice(0, 90)} is refused`, async () => {
      assert.equal((await http.call("PUT", path, { body })).status, 500);
    });
  }

  /** A node with a service and its proxy. */
  const registered = async (proxy: Readonly<Record<string, unknown>> = {}) => {
    const node = unique("virt");
    const name = unique("web");
    const shared = { Node: node, Address: "10.9.9.9", NodeMeta: { "synthetic-node": "true" } };
    await http.put(REGISTER, {
      ...shared,
      Service: { ID: `${name}-1`, Service: name, Port: 8080, Address: "10.9.9.9" },
    });
    const id = `${name}-1-sidecar-proxy`;
    const service = {
      ID: id,
      Service: `${name}-sidecar-proxy`,
      Kind: "connect-proxy",
      Port: 20000,
      Address: "10.9.9.9",
      Proxy: { DestinationServiceName: name, DestinationServiceID: `${name}-1`, ...proxy },
    };
    await http.put(REGISTER, { ...shared, Service: service });
    return {
      node,
      name,
      id,
      service,
      path: `/v1/catalog/node-services/${node}?merge-central-config`,
    };
  };

  test("a registration is shown as it was sent, with nothing filled in", async () => {
    const { node, name, path } = await registered({
      Upstreams: [{ DestinationName: "db", LocalBindPort: 9191 }],
    });
    const { Node, Services } = await http.json<NodeServices>(path);
    const { CreateIndex: _c, ModifyIndex: _m, ...shown } = Node ?? {};
    assert.deepEqual(shown, {
      ID: "",
      Node: node,
      Address: "10.9.9.9",
      Datacenter: "dc1",
      TaggedAddresses: null,
      Meta: { "synthetic-node": "true" },
    });
    const [app, proxy] = Services ?? [];
    assert.deepEqual(
      [app, proxy].map((service) => [service?.ID, service?.Address, service?.Port]),
      [[`${name}-1`, "10.9.9.9", 8080], [`${name}-1-sidecar-proxy`, "10.9.9.9", 20000]],
    );
    assert.equal(app?.Proxy.DestinationServiceName, undefined);
    const { DestinationServiceName, Upstreams = [] } = proxy?.Proxy ?? {};
    assert.equal(DestinationServiceName, name);
    const [{ DestinationName, LocalBindPort } = {}] = Upstreams;
    assert.deepEqual([Upstreams.length, DestinationName, LocalBindPort], [1, "db", 9191]);
  });

  test("central configuration is merged where it is asked for", async () => {
    const { node, name, id, path } = await registered({
      Config: { local_connect_timeout_ms: 2500 },
    });
    await http.configEntry({
      Kind: "service-defaults",
      Name: name,
      Protocol: "http",
      LocalConnectTimeoutMs: 1000,
      EnvoyExtensions: [{
        Name: "builtin/lua",
        Arguments: { ProxyType: "connect-proxy", Listener: "inbound", Script: "x" },
      }],
    });
    const find = (services: readonly Service[]) => services.find((service) => service.ID === id);
    const { Services } = await http.json<NodeServices>(path);
    const merged = find(Services ?? []);
    assert.deepEqual(merged?.Proxy.Config, { local_connect_timeout_ms: 2500, protocol: "http" });
    assert.deepEqual(merged?.Proxy.EnvoyExtensions?.map(({ Name }) => Name), ["builtin/lua"]);
    const plain = await http.json<NodeServices>(`/v1/catalog/node-services/${node}`);
    assert.deepEqual(find(plain.Services ?? [])?.Proxy.Config, { local_connect_timeout_ms: 2500 });
  });

  test("filters choose services; a node that is not there is null", async () => {
    const { node, id, path } = await registered();
    const filter = encodeURIComponent(`ID=="${id}"`);
    const { Services } = await http.json<NodeServices>(`${path}&filter=${filter}`);
    assert.deepEqual(Services?.map(({ ID }) => ID), [id]);
    const start = id.charCodeAt(0).toString(16);
    for (
      const written of [
        `ID == "\\x${start}${id.slice(1)}"`,
        `ID matches "(?i)^\\\\x{${start}}${id.slice(1).toUpperCase()}$"`,
        `ID matches \`^\\x{${start}}${id.slice(1)}$\``,
      ]
    ) {
      const found = await http.json<NodeServices>(`${path}&filter=${encodeURIComponent(written)}`);
      assert.deepEqual(found.Services?.map(({ ID }) => ID), [id], written);
    }
    const none = await http.json<NodeServices>(`${path}&filter=${encodeURIComponent('ID=="x"')}`);
    assert.deepEqual(none.Services, []);
    assert.equal(none.Node?.["Node"], node);
    const nowhere = await http.get("/v1/catalog/node-services/nowhere?merge-central-config");
    assert.equal(nowhere.text.replace(/\s/g, ""), '{"Node":null,"Services":null}');
    const filtered = await http.get(`/v1/catalog/node-services/nowhere?filter=${filter}`);
    assert.equal(filtered.text.replace(/\s/g, ""), '{"Node":null,"Services":[]}');
    const upper = await http.json<NodeServices>(`/v1/catalog/node-services/${node.toUpperCase()}`);
    assert.equal(upper.Node?.["Node"], node);
  });

  test("a virtual node has no checks but those that were registered", async () => {
    const { node, name, id } = await registered();
    const health = async () =>
      (await http.json<readonly HealthEntry[]>(`/v1/health/connect/${name}`))[0];
    assert.deepEqual((await health())?.Checks, []);
    const check = (Status?: string, Output = "") =>
      http.put(REGISTER, {
        Node: node,
        SkipNodeUpdate: true,
        Checks: [{ CheckID: `${id}-up`, Name: "up", Status, Output, ServiceID: id }],
      });
    await check();
    assert.equal((await health())?.Checks[0]?.Status, "critical");
    await check("passing", "fine");
    const entry = await health();
    assert.equal(entry?.Checks[0]?.Status, "passing");
    assert.equal(entry?.Node.Node, node);
    const passing = await http.json<readonly HealthEntry[]>(`/v1/health/connect/${name}?passing`);
    assert.equal(passing.length, 1);
    const before = await http.get(`/v1/health/connect/${name}`);
    await check("passing", "fine");
    assert.equal((await http.get(`/v1/health/connect/${name}`)).index, before.index);
    await check("passing", "still");
    assert.ok((await http.get(`/v1/health/connect/${name}`)).index > before.index);
    await http.put(DEREGISTER, { Node: node, CheckID: `${id}-up` });
    assert.deepEqual((await health())?.Checks, []);
  });

  test("SkipNodeUpdate leaves a node as it is, and makes one that is missing", async () => {
    const node = unique("virt");
    await http.put(REGISTER, { Node: node, SkipNodeUpdate: true });
    const read = async () =>
      (await http.json<NodeServices>(`/v1/catalog/node-services/${node}`)).Node;
    assert.equal((await read())?.["Address"], "");
    await http.put(REGISTER, {
      Node: node,
      Address: "10.0.0.1",
      ID: "11111111-2222-3333-4444-555555555555",
    });
    await http.put(REGISTER, { Node: node, Address: "10.0.0.9", SkipNodeUpdate: true });
    assert.equal((await read())?.["Address"], "10.0.0.1");
    await http.put(REGISTER, { Node: node, Address: "10.0.0.2" });
    assert.deepEqual([(await read())?.["Address"], (await read())?.["ID"]], ["10.0.0.2", ""]);
  });

  test("deregistering removes a service with its checks, or everything, and is no error for what is gone", async () => {
    const { node, id, path } = await registered();
    await http.put(DEREGISTER, { Node: node, ServiceID: id });
    await http.put(DEREGISTER, { Node: node, ServiceID: id });
    assert.equal((await http.json<NodeServices>(path)).Services?.length, 1);
    await http.put(DEREGISTER, { Node: node });
    assert.equal((await http.json<NodeServices>(path)).Node, null);
    await http.put(DEREGISTER, { Node: node });
  });

  for (
    const [what, change] of [
      ["proxy-defaults", () => ({ Kind: "proxy-defaults", Name: "global", Config: flip() })],
      ["service-defaults", (name: string) => ({
        Kind: "service-defaults",
        Name: name,
        LocalRequestTimeoutMs: 7,
      })],
      ["service-defaults of an upstream", () => ({
        Kind: "service-defaults",
        Name: UPSTREAM,
        Protocol: "grpc",
      })],
    ] as const
  ) {
    test(`${what} wake a blocking query on a merged registration`, async () => {
      const { name, path } = await registered({
        Upstreams: [{ DestinationName: UPSTREAM, LocalBindPort: 9191 }],
      });
      const { index, text } = await http.get(path);
      const waits = woken(http, (at) => http.get(`${path}&index=${at}&wait=20s`), {
        index,
        wanted: (reply) => reply.text !== text,
      });
      await http.settle();
      await http.configEntry(change(name));
      await waits;
      await http.call("DELETE", `/v1/config/service-defaults/${UPSTREAM}`);
      await http.call("DELETE", `/v1/config/service-defaults/${name}`);
      await http.call("DELETE", "/v1/config/proxy-defaults/global");
    });
  }

  test("a node's services wake for its registrations, not for checks or other nodes", async () => {
    const { node, id, path } = await registered();
    const { index } = await http.get(path);
    await unmoved(http, 300, async () => {
      const { index } = await http.get(path);
      const waits = http.get(`${path}&index=${index}&wait=300ms`);
      await http.settle();
      await http.put(REGISTER, {
        Node: node,
        SkipNodeUpdate: true,
        Check: { CheckID: unique("c"), Name: "c", Status: "passing", ServiceID: id },
      });
      await registered();
      return await waits;
    });
    const waits = woken(http, (at) => http.get(`${path}&index=${at}&wait=20s`), {
      index,
      wanted: (reply) => reply.text.includes("late"),
    });
    await http.settle();
    await http.put(REGISTER, {
      Node: node,
      SkipNodeUpdate: true,
      Service: { Service: "late", Port: 1 },
    });
    await waits;
  });

  test("a blocking query on a node that does not exist is woken by its registration", async () => {
    const node = unique("virt");
    const path = `/v1/catalog/node-services/${node}?merge-central-config`;
    const { index } = await http.get(path);
    const waits = woken(http, (at) => http.get(`${path}&index=${at}&wait=20s`), {
      index,
      wanted: (reply) => reply.text.includes(node),
    });
    await http.settle();
    await http.put(REGISTER, { Node: node, Address: "10.0.0.1" });
    await waits;
  });
}

const UPSTREAM = unique("upstream");

let flips = 0;

function flip(): Readonly<Record<string, unknown>> {
  return { local_connect_timeout_ms: 1_000 + ++flips };
}
