import test from "node:test";
import assert from "node:assert/strict";
import { runPostern } from "../../kit/dev_mesh.ts";
import { createFileMesh, type FileMesh } from "../../kit/file_mesh.ts";
import { EchoClient, expectRefused, waitForEcho } from "../../kit/echo.ts";
import type { Postern } from "../../kit/postern.ts";
import { eventually, freePort } from "../../kit/process.ts";

const HELLO = new TextEncoder().encode("hello");

interface Running extends AsyncDisposable {
  readonly mesh: FileMesh;
  readonly postern: Postern;
  readonly open: EchoClient;
}

/** A proxy with one connection through it. */
async function running(...args: readonly string[]): Promise<Running> {
  const mesh = await createFileMesh();
  const postern = runPostern([...mesh.args, ...args]);
  await postern.waitReady();
  await waitForEcho(mesh.upstream);
  const open = await EchoClient.open(mesh.upstream);
  await open.exchange(HELLO);
  return {
    mesh,
    postern,
    open,
    async [Symbol.asyncDispose]() {
      open.destroy();
      await postern[Symbol.asyncDispose]();
      await mesh[Symbol.asyncDispose]();
    },
  };
}

test("SIGTERM lets the open connection finish, refuses new ones, and ends with 0", async () => {
  await using one = await running();
  const { postern, mesh, open } = one;
  postern.kill("SIGTERM");
  await eventually("it says that it drains", async () => await mesh.readyStatus() === 503);
  await expectRefused(mesh.upstream);
  await open.exchange(HELLO);
  await open.finish();
  const ended = performance.now();
  assert.deepEqual(await postern.process.waitExit({ timeoutMs: 5_000 }), { code: 0, signal: null });
  assert.ok(performance.now() - ended < 2_000, "it waited for nothing");
  assert.match(postern.output, /stopping drain_timeout_ms=8000\n[^]*stopped\n$/);
});

test("the drain timeout cuts what does not finish, and still ends with 0", async () => {
  await using one = await running("-drain-timeout", "700ms");
  const { postern, open } = one;
  const told = performance.now();
  postern.kill("SIGTERM");
  assert.equal((await postern.process.waitExit({ timeoutMs: 5_000 })).code, 0);
  const tookMs = performance.now() - told;
  assert.ok(tookMs >= 700 && tookMs < 3_000, `it took ${Math.round(tookMs)} ms`);
  assert.ok(open.isOver);
  assert.match(postern.output, /connection failed[^\n]*code=drained/);
});

test("a second SIGTERM ends it at once, with 0", async () => {
  await using one = await running("-drain-timeout", "60s");
  const { postern, mesh } = one;
  postern.kill("SIGTERM");
  await eventually("it drains", async () => await mesh.readyStatus() === 503);
  const told = performance.now();
  postern.kill("SIGTERM");
  assert.equal((await postern.process.waitExit({ timeoutMs: 5_000 })).code, 0);
  assert.ok(performance.now() - told < 2_000);
});

test("POST /drain_listeners drains without ending, /quitquitquit ends", async () => {
  await using one = await running("-drain-timeout", "30s");
  const { postern, mesh, open } = one;
  assert.equal((await postern.admin("/drain_listeners")).status, 405);
  assert.equal(await mesh.readyStatus(), 200);
  assert.equal((await postern.admin("/drain_listeners", "POST")).status, 200);
  const { status, body } = await postern.admin("/ready");
  assert.equal(status, 503);
  assert.match(body, /draining/i);
  await expectRefused(mesh.upstream);
  await open.exchange(HELLO);
  await open.finish();
  assert.equal((await postern.admin("/live")).status, 200);
  assert.equal((await postern.admin("/quitquitquit")).status, 405);
  postern.expectEnd();
  assert.equal((await postern.admin("/quitquitquit", "POST")).status, 200);
  assert.equal((await postern.process.waitExit({ timeoutMs: 5_000 })).code, 0);
});

test("a sidecar that waits for its agent takes SIGHUP, and ends with 0 on SIGTERM", async () => {
  const nobody = `127.0.0.1:${await freePort("127.0.0.1")}`;
  await using web = runPostern(["proxy", "-sidecar-for", "web-1", "-http-addr", nobody]);
  await web.process.waitFor(/agent not reached/, { timeoutMs: 10_000 });
  web.kill("SIGHUP");
  await web.process.waitFor(/reloading files/, { timeoutMs: 5_000 });
  assert.deepEqual(await web.stop(), { code: 0, signal: null });
});
