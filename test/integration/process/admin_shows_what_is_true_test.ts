import test from "node:test";
import assert from "node:assert/strict";
import { request } from "node:http";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { EchoClient, waitForEcho } from "../../kit/wire/echo.ts";
import { startMeshPair } from "../../kit/mesh/mesh_pair.ts";
import type { Postern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";

const HELLO = new TextEncoder().encode("hello");

test("the admin server shows connections, counters, certificates, and no key", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);

  // The one before it is gone a moment after its client has seen its end.
  const [shown] = await eventually("one connection is open", async () => {
    const { connections } = JSON.parse((await pair.db.admin("/connections")).body);
    return connections.length === 1 && connections;
  });
  assert.match(shown.source, /^spiffe:\/\/[^/]+\/ns\/default\/dc\/dc1\/svc\/web$/);
  assert.equal(shown.destination, "db");
  assert.equal(shown.stage, "relay");
  assert.match(shown.rule, /web/);
  assert.match(shown.tlsVersion, /1\.3/);
  assert.equal(shown.receivedBytes, HELLO.length);
  assert.equal(shown.sentBytes, HELLO.length);
  const [outbound] = await eventually("one connection is open to db", async () => {
    const { connections } = JSON.parse((await pair.web.admin("/connections")).body);
    return connections.length === 1 && connections;
  });
  assert.equal(outbound.endpoint, `${pair.public.host}:${pair.public.port}`);

  await open.finish();
  for (const [sidecar, direction] of [[pair.db, "inbound"], [pair.web, "outbound"]] as const) {
    const counters = await eventually("both connections have ended", async () => {
      const { body } = await sidecar.admin("/stats/prometheus");
      return new RegExp(`^postern_connections_active\\{direction="${direction}"[^}]*\\} 0$`, "m")
        .test(body) && body;
    });
    const count = (name: string) =>
      Number(
        new RegExp(`^postern_${name}\\{direction="${direction}"[^}]*\\} (\\d+)$`, "m")
          .exec(counters)?.[1],
      );
    assert.equal(count("connections_opened_total"), 2);
    assert.equal(count("connections_ended_total"), 2);
    assert.equal(count("received_bytes_total"), 2 * HELLO.length);
    assert.equal(count("sent_bytes_total"), 2 * HELLO.length);
  }

  const certs = JSON.parse((await pair.db.admin("/certs")).body);
  assert.match(certs.uri, /\/svc\/db$/);
  assert.equal(certs.roots.length, 1);
  for (const path of ["/config_dump", "/certs", "/server_info", "/", "/stats", "/clusters"]) {
    const { status, body } = await pair.db.admin(path);
    assert.equal(status, 200, path);
    assert.doesNotMatch(body, /PRIVATE KEY|keyPem/, path);
  }
  for (const sidecar of [pair.db, pair.web]) {
    const { body } = await sidecar.admin("/stats/prometheus");
    const helps = [...body.matchAll(/^# HELP (?:postern|envoy)_(\w+) ?(.*)$/gm)];
    assert.ok(helps.length > 30);
    for (const [line, name = "", help = ""] of helps) {
      const known = name.split("_");
      const said = help.toLowerCase().match(/[a-z]+/g) ?? [];
      assert.ok(said.filter((word) => !known.includes(word)).length >= 3, `says nothing: ${line}`);
    }
  }
  assert.match((await pair.web.admin("/clusters")).body, new RegExp(String(pair.public.port)));
  assert.match((await pair.web.admin("/listeners")).body, new RegExp(String(pair.upstream.port)));
});

test("requests of other web pages and under other names are refused", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  const address = await pair.db.adminAddress();
  const ask = (headers: Readonly<Record<string, string>>, method = "GET", path = "/ready") =>
    new Promise<number>((resolve, reject) => {
      const [host, port] = address.split(":");
      request({ host, port, method, path, headers, agent: false }, (reply) => {
        reply.resume();
        resolve(reply.statusCode ?? 0);
      }).on("error", reject).end();
    });
  assert.equal(await ask({ host: address }), 200);
  assert.equal(await ask({ host: `localhost:${address.split(":")[1]}` }), 200);
  assert.equal(await ask({ host: "evil.example" }), 403);
  assert.equal(await ask({ host: address, origin: "http://evil.example" }), 403);
  const post = { host: address, origin: "http://evil.example" };
  assert.equal(await ask(post, "POST", "/quitquitquit"), 403);
  assert.equal(await ask(post, "POST", "/drain_listeners"), 403);
  assert.equal((await pair.db.admin("/ready")).status, 200);
});

test("the log level changes at run time, in the workers, too", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  assert.equal((await pair.db.admin("/logging?level=WARN", "POST")).status, 200);
  await waitForEcho(pair.upstream);
  await nothingOpen(pair.db);
  assert.equal((await pair.db.admin("/logging?level=loud", "POST")).status, 400);
  assert.equal((await pair.db.admin("/logging?level=info", "POST")).status, 200);
  await waitForEcho(pair.upstream);
  await pair.db.process.waitFor(/\[INFO\] +connection ended direction=inbound/, {
    timeoutMs: 20_000,
  });
  assert.equal(pair.db.output.match(/connection ended/g)?.length, 1);
  assert.equal((await pair.db.admin("/logging?level=error", "POST")).status, 200);
  await waitForEcho(pair.upstream);
  await nothingOpen(pair.db);
  assert.equal((await pair.db.stop()).code, 0);
  assert.equal(pair.db.output.match(/connection ended/g)?.length, 1);
});

/** A client sees its end a moment before the connection is counted out and its line is written. */
async function nothingOpen(postern: Postern): Promise<void> {
  await eventually("nothing is open", async () => {
    return await postern.metric("postern_connections_active") === 0;
  });
}
