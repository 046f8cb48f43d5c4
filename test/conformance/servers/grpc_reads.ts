/**
 * The gRPC answers of a server: features, bootstrap parameters, the list of servers, roots as they
 * change.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient, unique } from "../agent/client.ts";
import { GrpcClient, type ServerUnderTest } from "./grpc_client.ts";

const BOOTSTRAP_REFUSED = [
  [{ node_name: "nowhere", proxy_id: "x" }, 5, "node not found"],
  [{ proxy_id: "x" }, 3, "Node ID or name required to lookup the service"],
  [{ node_id: "x", proxy_id: "x" }, 13, "Failure looking up service"],
] as const;

interface Root {
  readonly id: string;
  readonly active?: boolean;
  readonly root_cert: string;
  readonly intermediate_certs?: readonly string[];
}

export function grpcReadContract(server: ServerUnderTest): void {
  const grpc = new GrpcClient(server);
  const http = new AgentClient({ ...server, port: server.httpPort });

  test("GetSupportedDataplaneFeatures lists the features", async () => {
    const { message } = await grpc.ask("features");
    assert.deepEqual(message, {
      supported_dataplane_features: [
        { feature_name: "WATCH_SERVERS", supported: true },
        { feature_name: "EDGE_CERTIFICATE_MANAGEMENT", supported: true },
        { feature_name: "ENVOY_BOOTSTRAP_CONFIGURATION", supported: true },
        { feature_name: "FIPS" },
      ],
    });
  });

  test("WatchServers lists servers by address, without ports", async () => {
    const { message } = await grpc.ask("servers");
    const list = message["servers"] as readonly Readonly<Record<string, unknown>>[];
    const own = list.find(({ address }) => address === server.host);
    assert.equal(own?.["version"], "1.22.7");
    assert.match(String(own?.["id"]), /^[0-9a-f-]{36}$/);
  });

  test("GetEnvoyBootstrapParams knows a proxy by node and id, with the merged config", async () => {
    const node = unique("Virt");
    const name = unique("web");
    const Proxy = {
      DestinationServiceName: name,
      Config: { number: 1.5, text: "t", yes: true, list: [1, "a"], nested: { none: null } },
    };
    await http.put("/v1/catalog/register", {
      Node: node,
      Address: "10.0.0.1",
      Service: { ID: `${name}-p`, Service: `${name}-p`, Kind: "connect-proxy", Port: 1, Proxy },
    });
    await http.configEntry({ Kind: "service-defaults", Name: name, Protocol: "http" });
    const want = {
      service: name,
      identity: name,
      namespace: "default",
      partition: "default",
      datacenter: "dc1",
      node_name: node,
      config: {
        fields: {
          number: { number_value: 1.5 },
          text: { string_value: "t" },
          yes: { bool_value: true },
          list: { list_value: { values: [{ number_value: 1 }, { string_value: "a" }] } },
          nested: { struct_value: { fields: { none: { null_value: "NULL_VALUE" } } } },
          protocol: { string_value: "http" },
        },
      },
    };
    const asked = { node_name: node.toUpperCase(), proxy_id: `${name}-p` };
    assert.deepEqual((await grpc.ask("bootstrap", asked)).message, want);
    const older = { node_name: node, service_id: `${name}-p` };
    assert.deepEqual((await grpc.ask("bootstrap", older)).message, want);
    const { code, details } = await grpc.ask("bootstrap", { node_name: node, proxy_id: "no" });
    assert.deepEqual([code, details], [5, "Service not found"]);
  });

  for (const [request, code, details] of BOOTSTRAP_REFUSED) {
    test(`GetEnvoyBootstrapParams ${JSON.stringify(request)} ends with ${code}`, async () => {
      const answer = await grpc.ask("bootstrap", request);
      assert.deepEqual([answer.code, answer.details], [code, details]);
    });
  }

  test("WatchRoots sends all roots at once, and again after a rotation", async () => {
    const stream = grpc.follow("roots");
    const first = (await stream.next()).message;
    const before = first["roots"] as readonly Root[];
    const { ActiveRootID, TrustDomain } = await http.json<Readonly<Record<string, string>>>(
      "/v1/connect/ca/roots",
    );
    assert.deepEqual([first["active_root_id"], first["trust_domain"]], [ActiveRootID, TrustDomain]);
    assert.deepEqual(before.filter(({ active }) => active).map(({ id }) => id), [ActiveRootID]);
    const { Config } = await http.json<{ readonly Config: Readonly<Record<string, unknown>> }>(
      "/v1/connect/ca/configuration",
    );
    await http.put("/v1/connect/ca/configuration", {
      Provider: "consul",
      Config: {
        ...Config,
        PrivateKey: "",
        RootCert: "",
        PrivateKeyType: "ec",
        PrivateKeyBits: 384,
      },
    });
    const second = (await stream.next()).message;
    stream.close();
    const after = second["roots"] as readonly Root[];
    assert.equal(after.length, before.length + 1);
    const active = after.find(({ active }) => active);
    assert.equal(active?.id, second["active_root_id"]);
    assert.notEqual(active?.id, ActiveRootID);
    assert.equal(active?.intermediate_certs?.length, 1);
  });
}
