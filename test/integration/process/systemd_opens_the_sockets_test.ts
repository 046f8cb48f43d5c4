/** systemd listens for a proxy, whose clients wait while no process runs (socket activation). @module */

import assert from "node:assert/strict";
import test from "node:test";
import { runtimeEngine } from "../../../src/net/mod.ts";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { freePort } from "../../kit/process/ports.ts";
import { OWN_ENGINE, type Postern, ready, runPostern } from "../../kit/process/postern.ts";
import { EchoClient, pattern, type Place, waitForEcho } from "../../kit/wire/echo.ts";

const TIMEOUT = { timeoutMs: 60_000 };

/** As systemd starts it: `$LISTEN_PID` is the process's own. */
function activate(args: readonly string[], sockets: Readonly<Record<string, number>>): Postern {
  return runPostern(args, {
    under: ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh"],
    descriptors: Object.values(sockets),
    env: {
      LISTEN_FDS: String(Object.keys(sockets).length),
      LISTEN_FDNAMES: Object.keys(sockets).join(":"),
    },
  });
}

/** A socket that listens, and accepts nothing. */
async function listenOnly({ host, port }: Place): Promise<number> {
  const address = { kind: "tcp", host, port } as const;
  const listener = await runtimeEngine().listen({ address, reusePort: false }, (socket) => {
    socket.reset();
  });
  listener.pause();
  return listener.copies()[0] ?? assert.fail("no descriptor");
}

async function assertEcho(client: EchoClient): Promise<void> {
  await client.exchange(pattern(1, 1_000));
  await client.finish();
}

if (OWN_ENGINE === "deno") {
  test("sockets of systemd are refused by name where the runtime cannot listen on them", async () => {
    await using mesh = await createFileSidecar();
    await using postern = activate(mesh.args, { "web.socket": 0 });
    postern.expectEnd();
    assert.deepEqual(await postern.process.waitExit(TIMEOUT), { code: 2, signal: null });
    assert.match(
      postern.output,
      /Cannot use the sockets of systemd: this runtime cannot listen on them, .* remove its \.socket unit/,
    );
  });
} else {
  test("clients wait at the sockets of systemd while no process runs, and the next process gets them", async () => {
    await using mesh = await createFileSidecar();
    const { host } = mesh.inbound;
    const sockets = {
      inbound: await listenOnly(mesh.inbound),
      upstream: await listenOnly(mesh.upstream),
      admin: await listenOnly(mesh.admin),
      "stray.socket": await listenOnly({ host, port: await freePort(host) }),
    };
    {
      await using first = await ready(activate([...mesh.args, "-workers", "2"], sockets));
      await first.process.waitFor(/a socket of systemd is not used.*socket=stray\.socket/, TIMEOUT);
      await waitForEcho(mesh.upstream);
      await first.stop();
    }
    const waiting = await EchoClient.open(mesh.upstream);
    await using second = await ready(activate(mesh.args, sockets));
    await assertEcho(waiting);
    second.expectEnd();
    await using third = runPostern(mesh.args);
    await third.process.waitFor(/took over/, TIMEOUT);
    assert.deepEqual(await second.process.waitExit(TIMEOUT), { code: 0, signal: null });
    await assertEcho(await EchoClient.open(mesh.upstream));
    assert.equal(await mesh.readyStatus(), 200);
    assert.match(third.output, /a socket of systemd is not used.*socket=stray\.socket/);
  });

  test("a descriptor of systemd that does not listen is refused by name", async () => {
    await using mesh = await createFileSidecar();
    await using postern = activate(mesh.args, { "web.socket": 2 });
    postern.expectEnd();
    assert.deepEqual(await postern.process.waitExit(TIMEOUT), { code: 2, signal: null });
    assert.match(postern.output, /"web\.socket" does not listen; its unit needs ListenStream=/);
  });
}
