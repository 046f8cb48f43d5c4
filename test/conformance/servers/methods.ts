/**
 * The gRPC methods that a proxy calls, on a server: one table writes, the other reads, so that two
 * tables of fields that were written apart prove each other.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom, systemClock } from "../../../src/base/mod.ts";
import {
  GET_BOOTSTRAP_PARAMS,
  GET_FEATURES,
  SIGN,
  WATCH_ROOTS,
  WATCH_SERVERS,
} from "../../../src/consul/servers/methods.ts";
import type { Method } from "../../../src/consul/servers/types.ts";
import { generateKey } from "../../kit/certs/mint.ts";
import { GrpcChannel } from "../../../src/grpc/mod.ts";
import { altNamesOf, parseCertificate } from "../../../src/identity/mod.ts";
import { runtimeEngine } from "../../../src/net/mod.ts";
import { parsePem } from "../../../src/wire/mod.ts";
import { mintRequest } from "../../kit/certs/mint_csr.ts";
import { AgentClient, unique } from "../agent/client.ts";
import type { ServerUnderTest } from "./grpc_client.ts";

export function methodContract(server: ServerUnderTest): void {
  const http = new AgentClient({ ...server, port: server.httpPort });

  /** The first message that answers. */
  const ask = <Request, Response>(method: Method<Request, Response>, request: Request) =>
    new Promise<Response>((resolve, reject) => {
      const channel = new GrpcChannel({
        engine: runtimeEngine(),
        clock: systemClock,
        random: seededRandom(1),
        addresses: [{ kind: "tcp", host: server.host, port: server.grpcPort }],
        tls: null,
        metadata: {},
        keepAliveMs: 30_000,
        keepAliveTimeoutMs: 30_000,
      });
      const call = channel.open(method.path, method, {
        onMessage: (message) => {
          channel.close();
          resolve(message);
        },
        onEnd: ({ code, details }) => reject(new Error(`${code}: ${details}`)),
      });
      call.send(request);
      call.halfClose();
    });

  test("GET_FEATURES reads the features of a server", async () => {
    assert.deepEqual(await ask(GET_FEATURES, null), { watchServers: true, signs: true });
  });

  test("WATCH_SERVERS reads the addresses of servers", async () => {
    assert.ok((await ask(WATCH_SERVERS, null)).includes(server.host));
  });

  test("GET_BOOTSTRAP_PARAMS is answered for a proxy of the node", async () => {
    const name = unique("web");
    await http.put("/v1/catalog/register", {
      Node: `${name}-node`,
      Address: "10.0.0.1",
      Service: {
        Service: `${name}-p`,
        Kind: "connect-proxy",
        Port: 1,
        Proxy: { DestinationServiceName: name },
      },
    });
    const request = { nodeName: `${name}-node`, proxyId: `${name}-p` };
    const params = await ask(GET_BOOTSTRAP_PARAMS, { ...request, namespace: "", partition: "" });
    assert.equal(params, null);
  });

  test("SIGN reads a certificate signed by the roots of WATCH_ROOTS", async () => {
    const roots = await ask(WATCH_ROOTS, null);
    const uris = [`spiffe://${roots.trustDomain}/ns/default/dc/dc1/svc/web`];
    const signed = await ask(SIGN, mintRequest(generateKey(), { uris }));
    const [leaf] = parsePem(signed, { what: "answer" });
    assert.ok(leaf);
    assert.deepEqual(altNamesOf(parseCertificate(leaf.der)).uris, uris);
    const active = roots.roots.find(({ active }) => active);
    assert.equal(active?.id, roots.activeId);
    assert.match(active?.pem ?? "", /^-----BEGIN CERTIFICATE-----/);
  });
}
