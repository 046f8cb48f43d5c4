/** The agent sends a service's checks through its sidecar, and they pass there. */

import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { test } from "node:test";
import { startConsul } from "../kit/mesh/consul.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../kit/wire/http_raw.ts";
import { eventually } from "../kit/process/process.ts";

type Checks = Readonly<Record<string, { readonly Status: string; readonly ExposedPort: number }>>;

/** An address of this machine that is not loopback. */
function outerHost(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const outer = all.find(({ internal, family }) => !internal && family === "IPv4");
  return outer?.address ?? assert.fail("this machine has no IPv4 address but loopback");
}

test("a check that Expose.Checks sends through the proxy passes, for the agent's addresses alone", async () => {
  await using consul = await startConsul({ defaultIntentionPolicy: "allow" });
  const { host } = consul;
  await using app = await startRawOrigin(() => answerOf("fine"), { host });
  const [place, open] = [await consul.place(), await consul.place()];
  await consul.put("/v1/agent/service/register", {
    Name: "web",
    ID: "web-1",
    Address: host,
    Port: app.port,
    Checks: [{
      CheckID: "debug",
      Name: "debug",
      Interval: "1s",
      Timeout: "1s",
      HTTP: `http://${host}:${app.port}/debug`,
    }],
    Connect: {
      SidecarService: {
        Port: place.port, // Without an address, the agent's Host is a port alone.
        Proxy: {
          LocalServiceAddress: host,
          Config: { bind_address: "0.0.0.0" },
          Expose: { Checks: true, Paths: [{ Path: "/open", ListenerPort: open.port }] },
        },
      },
    },
  });
  const check = async () => (await consul.get<Checks>("/v1/agent/checks"))["debug"];
  await eventually("the agent finds no proxy", async () => (await check())?.Status === "critical");
  await using web = await consul.sidecar("web-1");
  await eventually("the check passes", async () => (await check())?.Status === "passing");

  const port = (await check())?.ExposedPort ?? 0;
  const ask = async (path: string, place = { host, port }) =>
    statusOf(await RawClient.ask(place, `GET ${path} HTTP/1.1\r\nHost: web\r\n\r\n`));
  assert.equal(await ask("/debug"), 200);
  assert.equal(await ask("/admin"), 404);
  const outer = outerHost();
  assert.equal(await ask("/open", { host: outer, port: open.port }), 200);
  await assert.rejects(ask("/debug", { host: outer, port }));
  const said = new RegExp(`code=source_denied .*only loopback and ${host} may call`);
  await eventually("the log says why", () => said.test(web.output) || undefined);
  assert.doesNotMatch(web.output, /Expose/);
});
