/**
 * Services outside the mesh behind Consul's terminating gateway, which is an Envoy: Postern calls them
 * through it, as Envoy's sidecars do.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Consul } from "../kit/mesh/consul.ts";
import { startConsul } from "../kit/mesh/consul.ts";
import { type Place, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../kit/wire/http_raw.ts";
import { eventually } from "../kit/process/process.ts";
import { envoyGateway } from "../kit/mesh/sidecars.ts";

async function registerGateway(
  consul: Consul,
  services: readonly string[],
  meta: Readonly<Record<string, string>> = {},
): Promise<Place> {
  const place = await consul.place();
  await consul.put("/v1/agent/service/register", {
    Kind: "terminating-gateway",
    ID: "tg-1",
    Name: "tg",
    Meta: meta,
    Address: place.host,
    Port: place.port,
  });
  await consul.configEntry({
    Kind: "terminating-gateway",
    Name: "tg",
    Services: services.map((Name) => ({ Name })),
  });
  return place;
}

function outside(
  consul: Consul,
  Name: string,
  { host, port }: Place,
  version = "",
): Promise<string> {
  const ID = `${Name}${version}`;
  const Meta = version === "" ? {} : { version };
  return consul.put("/v1/agent/service/register", { ID, Name, Address: host, Port: port, Meta });
}

async function get(place: Place): Promise<string> {
  const answer = await RawClient.ask(place, "GET / HTTP/1.1\r\nHost: outside\r\n\r\n");
  return `${statusOf(answer)} ${answer.body}`;
}

test("bytes and requests go through a terminating gateway, and its intentions hold", async () => {
  await using consul = await startConsul({ defaultIntentionPolicy: "allow" });
  await using legacy = await consul.echo();
  const versions = ["v1", "v2"];
  await using own = new AsyncDisposableStack();
  for (const version of versions) {
    const app = own.use(await startRawOrigin(() => answerOf(version), { host: consul.host }));
    await outside(consul, "shop", app, version);
  }
  await outside(consul, "legacy", legacy);
  await consul.configEntry({ Kind: "service-defaults", Name: "shop", Protocol: "http" });
  await consul.configEntry({
    Kind: "service-resolver",
    Name: "shop",
    DefaultSubset: "v2",
    Subsets: Object.fromEntries(
      versions.map((version) => [version, { Filter: `Service.Meta.version == ${version}` }]),
    ),
  });
  await consul.preparedQuery({ Name: "old", Service: { Service: "legacy", Connect: true } });
  // A subset's filter applies to the gateway's own entry, too.
  await registerGateway(consul, ["legacy", "shop"], { version: "v2" });
  await using _gateway = await envoyGateway(consul, { kind: "terminating", proxyId: "tg-1" });
  const [bytes, query, requests] = [
    await consul.place(),
    await consul.place(),
    await consul.place(),
  ];
  await consul.register({
    name: "web",
    upstreams: [
      { name: "legacy", port: bytes.port },
      { name: "shop", port: requests.port },
      { name: "old", port: query.port, type: "prepared_query" },
    ],
  });
  await using web = await consul.sidecar("web-1");

  await waitForEcho(bytes);
  await eventually("the default subset answers", async () => await get(requests) === "200 v2");
  await waitForEcho(query);

  await consul.intention("web", "legacy", "deny");
  await waitForRefusal(bytes);
  await consul.intention("web", "legacy", "allow");
  await waitForEcho(bytes);
  assert.doesNotMatch(web.output, /identity_invalid/);
});

test("a service has a dead sidecar and a gateway: calls go through the gateway", async () => {
  await using consul = await startConsul({ defaultIntentionPolicy: "allow" });
  await using legacy = await consul.echo();
  // Its sidecar is registered and does not run.
  await consul.register({ name: "legacy", port: legacy.port });
  await registerGateway(consul, ["legacy"]);
  await using _gateway = await envoyGateway(consul, { kind: "terminating", proxyId: "tg-1" });
  const place = await consul.place();
  await consul.register({ name: "web", upstreams: [{ name: "legacy", port: place.port }] });
  await using _web = await consul.sidecar("web-1");
  await waitForEcho(place);
});
