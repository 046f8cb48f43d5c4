/** The agent sends a service's checks through its sidecar, and they pass there. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { startConsul } from "../kit/consul.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../kit/http_raw.ts";
import { eventually } from "../kit/process.ts";

type Checks = Readonly<Record<string, { readonly Status: string; readonly ExposedPort: number }>>;

test("a check that Expose.Checks sends through the proxy passes; other paths are not there", async () => {
  await using consul = await startConsul({ defaultIntentionPolicy: "allow" });
  const { host } = consul;
  await using app = await startRawOrigin(() => answerOf("fine"), { host });
  const place = await consul.place();
  await consul.put("/v1/agent/service/register", {
    ...{ Name: "web", ID: "web-1", Address: host, Port: app.port },
    Checks: [{
      ...{ CheckID: "debug", Name: "debug", Interval: "1s", Timeout: "1s" },
      HTTP: `http://${host}:${app.port}/debug`,
    }],
    Connect: {
      SidecarService: {
        ...{ Port: place.port, Address: host },
        Proxy: { LocalServiceAddress: host, Expose: { Checks: true } },
      },
    },
  });
  const check = async () => (await consul.get<Checks>("/v1/agent/checks"))["debug"];
  await eventually("the agent finds no proxy", async () => (await check())?.Status === "critical");
  await using web = await consul.sidecar("web-1");
  await eventually("the check passes", async () => (await check())?.Status === "passing");

  const exposed = { host, port: (await check())?.ExposedPort ?? 0 };
  const ask = async (path: string) =>
    statusOf(await RawClient.ask(exposed, `GET ${path} HTTP/1.1\r\nHost: web\r\n\r\n`));
  assert.equal(await ask("/debug"), 200);
  assert.equal(await ask("/admin"), 404);
  assert.doesNotMatch(web.output, /Expose/);
});
