/**
 * A dial that fails before a byte was sent goes to the next endpoint, then to the next target; a server
 * with the wrong identity is never spoken to.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, startDataPath } from "../kit/engine/data_path.ts";
import { startEcho, startServer } from "../kit/wire/echo.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { chainOf, declared, intention, snapshotOf, targetOf } from "../kit/engine/snapshots.ts";

/** A port where nothing listens. */
async function closedPort(): Promise<number> {
  const server = await startServer(() => {});
  await server[Symbol.asyncDispose]();
  return server.port;
}

test("a refused endpoint is skipped", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({
    localPort: echo.port,
    morePorts: [await closedPort(), await closedPort()],
  });
  for (let index = 0; index < 6; index++) {
    await using client = await openClient(pair.port);
    client.send("hello");
    assert.equal(String(await client.read(5)), "hello");
  }
});

test("an endpoint that proves another service's identity is skipped, and the log names it", async () => {
  await using echo = await startEcho();
  await using impostorApp = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using impostor = await startDataPath(snapshotOf({
    ca: pair.ca,
    service: "impostor",
    local: { kind: "tcp", host: "127.0.0.1", port: impostorApp.port },
    intentions: [intention("*", "allow")],
  }));
  await pair.web.set({
    ...pair.webSnapshot,
    targets: {
      db: targetOf({
        name: "db",
        uris: [pair.dbSnapshot.credentials.uri],
        ports: [impostor.port()],
      }),
    },
  });
  await using client = await openClient(pair.port);
  client.send("secret");
  assert.equal(await client.gone, "reset");
  const { fields } = await pair.line(({ fields }) => fields.code === "endpoint_untrusted");
  assert.match(String(fields.reason), /svc\/impostor/);
  assert.equal(impostorApp.accepted, 0);
});

test("no endpoint left resets the app's connection with the reason logged", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await pair.web.set({
    ...pair.webSnapshot,
    ...declared({ name: "db", targets: ["db", "db in dc2"] }),
    targets: Object.fromEntries(
      [["db", "nobody is registered"], ["db in dc2", "all 2 fail"]].map(([name = "", lack = ""]) =>
        [name, targetOf({ name, uris: [], ports: [], overrides: { lack } })] as const
      ),
    ),
  });
  await using client = await openClient(pair.web.port("db"));
  assert.equal(await client.gone, "reset");
  const { fields } = await pair.line(({ fields }) => fields.code === "no_endpoint");
  assert.equal(fields.reason, "no healthy instance: nobody is registered; all 2 fail");
  assert.equal(fields.stage, "endpoint");
});

test("a target without endpoints fails over to the next, and back when it has some again", async () => {
  await using echo = await startEcho();
  await using other = await startServer((socket) => socket.end("from the other datacenter"));
  await using pair = await startPathPair({ localPort: echo.port });
  await using second = await startDataPath(snapshotOf({
    ca: pair.ca,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: other.port },
    intentions: [intention("web", "allow")],
  }));
  const uris = [pair.dbSnapshot.credentials.uri];
  const away = {
    ...pair.webSnapshot,
    chains: { "service:default/default/db": chainOf({ targets: ["db", "db.dc2"] }) },
    targets: {
      db: targetOf({ name: "db", uris, ports: [await closedPort()] }),
      "db.dc2": targetOf({ name: "db.dc2", uris, ports: [second.port()] }),
    },
  };
  await pair.web.set(away);
  await using client = await openClient(pair.port);
  assert.equal(String(await client.readAll()), "from the other datacenter");
  await pair.web.set({
    ...away,
    targets: { ...away.targets, db: targetOf({ name: "db", uris, ports: [pair.db.port()] }) },
  });
  await using back = await openClient(pair.port);
  back.send("hello");
  assert.equal(String(await back.read(5)), "hello");
});

test("the last resort is dialled only when nothing else is left", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  const uris = [pair.dbSnapshot.credentials.uri];
  const known = pair.webSnapshot.targets.db;
  assert.ok(known);
  await pair.web.set({
    ...pair.webSnapshot,
    targets: {
      db: targetOf({
        name: "db",
        uris,
        ports: [],
        overrides: { lastResort: known.endpoints },
      }),
    },
  });
  await using client = await openClient(pair.port);
  client.send("hello");
  assert.equal(String(await client.read(5)), "hello");
});

test("a server that accepts and sends nothing is given up after the connect timeout", async () => {
  await using mute = await startServer(() => {});
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await pair.web.set({
    ...pair.webSnapshot,
    targets: {
      db: targetOf({
        name: "db",
        uris: [pair.dbSnapshot.credentials.uri],
        ports: [mute.port],
        overrides: { connectTimeoutMs: 100 },
      }),
    },
  });
  await using client = await openClient(pair.port);
  assert.equal(await client.gone, "reset");
  await pair.line(({ fields }) => fields.code === "endpoint_timed_out");
});
