import test from "node:test";
import assert from "node:assert/strict";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { waitForEcho } from "../../kit/wire/echo.ts";
import { startMeshPair } from "../../kit/mesh/mesh_pair.ts";
import { OWN_ENGINE, ready } from "../../kit/process/postern.ts";
import { freePort } from "../../kit/process/ports.ts";
import { flagsAlone } from "../../stories/flags_alone.ts";

test("proxy -sidecar-for runs both sides of a pair", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  await waitForEcho(pair.upstream);
  // The test runs on the engine that its title names.
  const { POSTERN_BIN, POSTERN_ENGINE = OWN_ENGINE } = process.env;
  const engine = POSTERN_BIN ? "(bun|deno)" : POSTERN_ENGINE;
  assert.match(pair.web.output, new RegExp(`starting [^\\n]*${engine} `));
});

test("connect proxy is the same command, with the variables of Consul's", async () => {
  await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
  await using app = await mesh.echo();
  await using _db = await mesh.serve({ name: "db", port: app.port });
  const upstream = { name: "db", ...await mesh.place() };
  await mesh.register({ name: "web", upstreams: [upstream] });
  await using _web = await ready(
    mesh.run(["connect", "proxy", "-admin-bind=127.0.0.1:0"], {
      env: { CONNECT_SIDECAR_FOR: "web-1" },
    }),
  );
  await waitForEcho(upstream);
});

flagsAlone(DevMesh);

test("several sidecars on one host choose admin ports by themselves", async () => {
  await using mesh = await DevMesh.start();
  const ids = await Promise.all(["a", "b", "c"].map((name) => mesh.register({ name })));
  await using stack = new AsyncDisposableStack();
  const sidecars = ids.map((id) => stack.use(mesh.run(["proxy", "-sidecar-for", id])));
  await Promise.all(sidecars.map((sidecar) => sidecar.waitReady()));
  const addresses = await Promise.all(sidecars.map((sidecar) => sidecar.adminAddress()));
  assert.equal(new Set(addresses).size, 3);
  for (const address of addresses) assert.match(address, /^127\.0\.0\.1:190\d\d$/);
});

for (
  const [title, words, code, said] of [
    [
      "-sidecar-for an unregistered id ends with 1 and says what to do",
      ["-sidecar-for", "web"],
      1,
      /^postern: No sidecar proxy registered for web: register the service .*-sidecar-for takes the service's id, not its name; ids with a sidecar here: web-1$/m,
    ],
    [
      "-proxy-id of an unregistered proxy ends with 1 and lists the registered ones",
      ["-proxy-id", "web"],
      1,
      /^postern: No proxy is registered as web: register it .*; ids of proxies here: web-1-sidecar-proxy$/m,
    ],
    [
      "-proxy-id of a service ends with 2 and names the expected value",
      ["-proxy-id", "web-1"],
      2,
      /^postern: Cannot run "web-1": it is a service, not a proxy; use -sidecar-for$/m,
    ],
  ] as const
) {
  test(title, async () => {
    await using mesh = await DevMesh.start();
    await mesh.register({ name: "web" });
    await using web = mesh.run(["proxy", ...words]);
    web.expectEnd();
    assert.equal((await web.process.waitExit({ timeoutMs: 30_000 })).code, code);
    assert.match(web.output, said);
    assert.doesNotMatch(web.output, /last good state|listening/);
  });
}

test("a sidecar may be started before its agent", async () => {
  await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
  await using app = await mesh.echo();
  const upstream = { name: "db", ...await mesh.place() };
  const db = await mesh.register({ name: "db", port: app.port });
  const web = await mesh.register({ name: "web", upstreams: [upstream] });
  await mesh.agent.stop();
  await using dbSidecar = mesh.runSidecar(db);
  await using webSidecar = mesh.runSidecar(web);
  const said = { timeoutMs: 30_000 };
  await dbSidecar.process.waitFor(/\[WARN\][^\n]*agent not reached[^\n]*refused/, said);
  await webSidecar.process.waitFor(/\[WARN\][^\n]*agent not reached/, said);
  const { status, body } = await dbSidecar.admin("/ready");
  assert.equal(status, 503);
  assert.match(body, /waiting for the agent, since \S+: .*refused/);
  assert.equal((await dbSidecar.admin("/live")).status, 200);
  await mesh.agent.start();
  await waitForEcho(upstream);
});

test("an agent given by flag takes precedence over the environment", async () => {
  await using mesh = await DevMesh.start();
  const id = await mesh.register({ name: "web" });
  const deadPort = await freePort(mesh.host);
  await using web = mesh.run([
    "proxy",
    "-sidecar-for",
    id,
    "-http-addr",
    `${mesh.host}:${deadPort}`,
  ]);
  await web.process.waitFor(new RegExp(`agent not reached[^\\n]*${deadPort}`), {
    timeoutMs: 30_000,
  });
});
