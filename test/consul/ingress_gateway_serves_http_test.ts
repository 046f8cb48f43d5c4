import test from "node:test";
import assert from "node:assert/strict";
import { createAuthority } from "../kit/certs/certificates.ts";
import type { Place } from "../kit/wire/echo.ts";
import {
  answerOf,
  RawClient,
  type RawMessage,
  type RawOrigin,
  startRawOrigin,
  statusOf,
  valuesOf,
} from "../kit/wire/http_raw.ts";
import { lintMetrics } from "../kit/peers/prometheus.ts";
import { IngressMesh } from "../kit/mesh/ingress.ts";
import { loopbackHost } from "../kit/process/ports.ts";
import { ready } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";
import { inlineCertificate } from "../kit/secrets/sds_server.ts";
import { envoyGateway } from "../kit/mesh/sidecars.ts";
import { probeTls, serialOf } from "../kit/wire/tls_probe.ts";

/** A service whose application answers with its name; the gateway may call it. */
async function startService(
  mesh: IngressMesh,
  name: string,
): Promise<AsyncDisposable & { readonly requests: readonly RawMessage[] }> {
  const { consul } = mesh;
  await using own = new AsyncDisposableStack();
  await consul.configEntry({ Kind: "service-defaults", Name: name, Protocol: "http" });
  await consul.intention("igw", name, "allow");
  const origin: RawOrigin = own.use(
    await startRawOrigin(() => answerOf(name, "HTTP/1.1 200 OK\r\nX-Internal: 1"), {
      host: consul.host,
    }),
  );
  own.use(await consul.serve({ name, port: origin.port }));
  const running = own.move();
  return {
    requests: origin.requests,
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}

/** Status and body of the gateway's answer for a host. */
async function asked(place: Place, host: string): Promise<readonly [number, string]> {
  const answer = await answerFor(place, host);
  return [statusOf(answer), answer.body];
}

function answerFor(place: Place, host: string): Promise<RawMessage> {
  return RawClient.ask(place, `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
}

test("an HTTP listener of an ingress entry leads to several services by host, live", async () => {
  await using mesh = await IngressMesh.start();
  await using shopServed = await startService(mesh, "shop");
  await using _pay = await startService(mesh, "pay");
  const [open, secured] = [await mesh.place(), await mesh.place()];
  const leaf = createAuthority().issueLeaf({ service: "shop" });
  mesh.sds.set(inlineCertificate("edge", leaf));
  await mesh.register();
  const shop = {
    Name: "shop",
    RequestHeaders: { Set: { "x-client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%" } },
    ResponseHeaders: { Add: { "x-from": "edge" }, Remove: ["x-internal"] },
  };
  const listeners = (...hosts: string[]) => ({
    Listeners: [
      { Port: open.port, Protocol: "http", Services: [shop, { Name: "pay", Hosts: hosts }] },
      {
        Port: secured.port,
        Protocol: "http",
        TLS: { SDS: { ClusterName: "sds-cluster", CertResource: "edge" } },
        Services: [{ Name: "pay", Hosts: ["*"] }],
      },
    ],
  });
  await mesh.entry(listeners("pay.example", "*.pay.example"));
  await using gateway = await mesh.run();
  await eventually(
    "shop is reached",
    async () => (await asked(open, "shop.ingress.consul"))[0] === 200,
  );

  for (
    const [host, want] of [
      ["shop.ingress.consul", [200, "shop"]],
      [`shop.ingress.dc1.consul:${open.port}`, [200, "shop"]],
      ["PAY.example", [200, "pay"]],
      ["eu.pay.example", [200, "pay"]],
    ] as const
  ) assert.deepEqual(await asked(open, host), want, host);
  for (const host of ["shop.example", "db.ingress.consul", "pay.example:1"]) {
    assert.equal((await asked(open, host))[0], 404, host);
  }
  const answer = await answerFor(open, "shop.ingress.consul");
  const shown = (message: RawMessage, name: string) => valuesOf(message, name).join();
  assert.deepEqual([shown(answer, "x-from"), shown(answer, "x-internal")], ["edge", ""]);
  const last = shopServed.requests.at(-1);
  assert.ok(last);
  assert.match(shown(last, "x-client"), /^[0-9.]+$/);
  const outcome = await probeTls(secured, {
    servername: "pay.example",
    says: "GET / HTTP/1.1\r\nHost: pay.example\r\n\r\n",
  });
  assert.equal(outcome.accepted && outcome.serial, serialOf(leaf.certPem));

  await mesh.entry(listeners("money.example"));
  await eventually("its new host is known", async () => {
    return (await asked(open, "money.example"))[1] === "pay";
  });
  assert.equal((await asked(open, "pay.example"))[0], 404);
  assert.doesNotMatch(gateway.output, /configuration refused/);
  assert.deepEqual(lintMetrics((await gateway.admin("/stats/prometheus")).body), []);
});

test("a listener for every service serves those that Consul names, live, as Envoy's does", async () => {
  await using mesh = await IngressMesh.start();
  const { consul } = mesh;
  await using own = new AsyncDisposableStack();
  for (const name of ["shop", "pay", "closed"]) own.use(await startService(mesh, name));
  await consul.intention("igw", "closed", "deny");
  const [every, named] = [await mesh.place(), await mesh.place()];
  const all = { Name: "*", ResponseHeaders: { Add: { "x-from": "edge" } } };
  for (
    const [listener, reason] of [
      [{ Port: every.port, Protocol: "tcp", Services: [{ Name: "*" }] }, /only valid for protocol/],
      [
        { Port: every.port, Protocol: "http", Services: [{ ...all, Hosts: ["a.example"] }] },
        /hosts/,
      ],
    ] as const
  ) await assert.rejects(mesh.entry({ Listeners: [listener] }), reason, "Consul itself refuses it");
  const pay = { Name: "pay", Hosts: ["pay.example"] };
  await mesh.entry({
    Listeners: [
      { Port: every.port, Protocol: "http", Services: [all, pay] },
      { Port: named.port, Protocol: "http", Services: [pay] },
    ],
  });

  // One each: beside the agent, beside the server, and Envoy. The entry gives all the same ports.
  const token = await mesh.token();
  const hosts = [consul.host, loopbackHost(), loopbackHost()] as const;
  await mesh.register();
  own.use(await mesh.run());
  const igw = { Kind: "ingress-gateway", Service: "igw", Port: 8888 };
  await consul.put("/v1/catalog/register", {
    Node: "vm-igw",
    Address: hosts[1],
    Service: { ...igw, ID: "igw-2", Address: hosts[1] },
  });
  const [grpcPort, httpPort] = [consul.grpcAddress, consul.address].map((at) => at.split(":")[1]);
  const besideServers = own.use(
    await ready(consul.run([
      ...["proxy", "-proxy-id", "igw-2", "-node", "vm-igw", "-admin-bind", "127.0.0.1:0"],
      ...["-servers", consul.host, "-grpc-port", `${grpcPort}`, "-http-port", `${httpPort}`],
      "-tls-disabled",
    ], { token, env: { CONSUL_HTTP_ADDR: "" } })),
  );
  await consul.put("/v1/agent/service/register", {
    Kind: igw.Kind,
    Name: "igw",
    ID: "igw-3",
    Address: hosts[2],
    Port: igw.Port,
  });
  own.use(await envoyGateway(consul, { kind: "ingress", proxyId: "igw-3", token }));
  const places = hosts.map((host) => ({ host, port: every.port }));
  const becomes = async (host: string, want: readonly [number, string?]) => {
    for (const place of places) {
      await eventually(`${host} at ${place.host} is ${want.join(" ")}`, async () => {
        const [status, body] = await asked(place, host);
        return status === want[0] && (want[1] === undefined || body === want[1]);
      });
    }
  };

  await becomes("shop.ingress.consul", [200, "shop"]);
  await becomes("pay.example", [200, "pay"]);
  for (
    const [host, want] of [
      [`SHOP.ingress.dc1.consul:${every.port}`, [200, "shop"]],
      ["closed.ingress.consul", [403]],
      ["pay.ingress.consul", [404]],
      ["db.ingress.consul", [404]],
      ["igw.ingress.consul", [404]],
      ["nobody.ingress.consul", [404]],
      ["shop.example", [404]],
      ["*.ingress.consul", [404]],
    ] as const
  ) await becomes(host, want);
  for (const place of places) {
    const answer = await answerFor(place, "shop.ingress.consul");
    assert.deepEqual(valuesOf(answer, "x-from"), ["edge"], place.host);
  }
  assert.equal((await asked(named, "shop.ingress.consul"))[0], 404);

  const late = await startService(mesh, "late");
  await becomes("late.ingress.consul", [200, "late"]);
  await consul.deregister("late-1");
  await becomes("late.ingress.consul", [404]);
  await late[Symbol.asyncDispose]();
  await consul.configEntry({ Kind: "service-defaults", Name: "shop", Protocol: "tcp" });
  await becomes("shop.ingress.consul", [404]);
  await becomes("pay.example", [200, "pay"]);
  assert.doesNotMatch(besideServers.output, /configuration refused/);
});
