import assert from "node:assert/strict";
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { EchoClient, waitForEcho } from "../../kit/wire/echo.ts";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../../kit/wire/http_raw.ts";
import { runPostern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";

const HELLO = new TextEncoder().encode("hello");

test("each connection is a line of the access log, whose file may be moved away and changed", async () => {
  await using mesh = await createFileSidecar();
  const file = join(mesh.directory, "web.json");
  const path = join(mesh.directory, "access.log");
  const config = JSON.parse(await readFile(file, "utf8"));
  const write = (accessLog: unknown) => writeFile(file, JSON.stringify({ ...config, accessLog }));
  await write({ type: "file", path });
  await using web = runPostern(mesh.args);
  await web.waitReady();
  await waitForEcho(mesh.upstream);
  const exchange = async () => {
    const client = await EchoClient.open(mesh.upstream);
    await client.exchange(HELLO);
    client.destroy();
  };
  const text = (name = path) => readFile(name, "utf8").catch(() => "");

  await exchange();
  const isWritten = () => text().then((lines) => /"bytes_sent":5/.test(lines));
  await eventually("a line says how many bytes went through", isWritten);
  for (const line of (await text()).trimEnd().split("\n")) {
    const { start_time, upstream_host, upstream_cluster } = JSON.parse(line);
    assert.match(start_time, /^\d{4}-\d\d-\d\dT.*Z$/);
    assert.match(upstream_host, /:\d+$/);
    assert.ok(upstream_cluster === "local_app" || upstream_cluster.startsWith("web."));
  }

  // As logrotate does it.
  await rename(path, `${path}.1`);
  web.kill("SIGUSR1");
  await eventually("the file is there again", async () => {
    await exchange();
    return await isWritten();
  });

  // Another form, on standard output, and what waits at the end is not lost.
  await write({ textFormat: "LINE %BYTES_RECEIVED% to %UPSTREAM_CLUSTER%" });
  web.kill("SIGHUP");
  await web.process.waitFor(/files reloaded\n/, { timeoutMs: 20_000 });
  await exchange();
  web.expectEnd();
  web.kill("SIGTERM");
  await web.process.waitExit({ timeoutMs: 30_000 });
  assert.match(web.output, /^LINE 5 to local_app$/m);
});

test("lines of a plugin are on standard output without an access log", async () => {
  await using mesh = await createFileSidecar();
  await using origin = await startRawOrigin(() => answerOf("ok"));
  const file = join(mesh.directory, "web.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  const format = { text: "OWN %REQ(:PATH)% of %DOWNSTREAM_PEER_URI_SAN%" };
  const plugins = [{ use: "access_log", config: { format } }];
  const inbound = { protocol: "http", local: `127.0.0.1:${origin.port}`, plugins };
  config.inbound = { ...config.inbound, ...inbound };
  config.upstreams[0].protocol = "http";
  await writeFile(file, JSON.stringify(config));
  await using web = runPostern(mesh.args);
  await web.waitReady();
  await using client = await RawClient.open(mesh.upstream);
  client.send("GET /items HTTP/1.1\r\nHost: web\r\n\r\n");
  assert.equal(statusOf(await client.response()), 200);
  await web.process.waitFor(/^OWN \/items of spiffe:\/\/.*\/svc\/web$/m, { timeoutMs: 20_000 });
});
