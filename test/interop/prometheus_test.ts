import assert from "node:assert/strict";
import test from "node:test";
import { EchoClient, waitForEcho } from "../kit/wire/echo.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import { DevMesh } from "../kit/mesh/dev_mesh.ts";
import { lintMetrics, Prometheus } from "../kit/peers/prometheus.ts";
import { eventually } from "../kit/process/process.ts";
import { writeFileSync } from "node:fs";

test("probe", async () => {
  await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
  await using app = await startRawOrigin(({ head }) => {
    const status = /^GET \/(\d+)/.exec(head)?.[1] ?? "200";
    return answerOf("app", `HTTP/1.1 ${status} Some`);
  }, { host: mesh.host });
  await using echo = await mesh.echo();
  await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
  await mesh.configEntry({ Kind: "service-defaults", Name: "web", Protocol: "http" });
  const [http, tcp] = [await mesh.place(), await mesh.place()];
  await using db = await mesh.serve({ name: "db", port: app.port });
  await using cache = await mesh.serve({ name: "cache", port: echo.port });
  await using web = await mesh.serve({
    name: "web",
    upstreams: [{ name: "db", port: http.port }, { name: "cache", port: tcp.port }],
  });
  await eventually("ok", async () => (await fetch(`http://${http.host}:${http.port}/`)).status === 200);
  await waitForEcho(tcp);
  for (const [n, s] of Object.entries({ db, cache, web })) {
    const page = (await s.admin("/stats/prometheus")).body;
    writeFileSync(`/tmp/prom-${n}.txt`, page);
    console.log(n, lintMetrics(page));
  }
});
