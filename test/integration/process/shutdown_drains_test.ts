import test from "node:test";
import assert from "node:assert/strict";
import { createFileSidecar, type FileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { EchoClient, waitForEcho, waitForRefusal } from "../../kit/wire/echo.ts";
import { type Postern, runPostern } from "../../kit/process/postern.ts";
import { freePort } from "../../kit/process/ports.ts";
import { eventually } from "../../kit/process/process.ts";

/** Long before a drain of 30 s would be over. */
const SOON = { timeoutMs: 20_000 };
const HELLO = new TextEncoder().encode("hello");

interface Running extends AsyncDisposable {
  readonly mesh: FileSidecar;
  readonly postern: Postern;
  readonly open: EchoClient;
}

/** A proxy with one connection through it. */
async function running(...args: readonly string[]): Promise<Running> {
  await using own = new AsyncDisposableStack();
  const mesh = own.use(await createFileSidecar());
  const postern = own.use(runPostern([...mesh.args, ...args]));
  await postern.waitReady();
  await waitForEcho(mesh.upstream);
  const open = await EchoClient.open(mesh.upstream);
  own.defer(() => open.destroy());
  await open.exchange(HELLO);
  const owned = own.move();
  return { mesh, postern, open, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test("SIGTERM lets the open connection finish, refuses new ones, and ends with 0", async () => {
  await using one = await running();
  const { postern, mesh, open } = one;
  postern.kill("SIGTERM");
  await eventually("it says that it drains", async () => await mesh.readyStatus() === 503);
  // It is logged before the last listener is closed.
  await waitForRefusal(mesh.upstream);
  await open.exchange(HELLO);
  await open.finish();
  const ended = performance.now();
  assert.deepEqual(await postern.process.waitExit(SOON), { code: 0, signal: null });
  // The drain timeout is 8 s.
  assert.ok(performance.now() - ended < 6_000, "it waited for nothing");
  assert.match(
    postern.output,
    /stopping connections=2 drain_timeout_ms=(?:8000|7\d{3})\n[^]*stopped\n$/,
  );
});

test("the drain timeout cuts unfinished connections, and the process exits with 0", async () => {
  await using one = await running("-drain-timeout", "700ms");
  const { postern, open } = one;
  const signalledMs = performance.now();
  postern.kill("SIGTERM");
  assert.equal((await postern.process.waitExit(SOON)).code, 0);
  const tookMs = performance.now() - signalledMs;
  // Not the 8 s that it would have by default.
  assert.ok(tookMs >= 700 && tookMs < 7_000, `it took ${Math.round(tookMs)} ms`);
  await eventually("the connection is cut", () => open.isOver);
  assert.match(postern.output, /connection failed[^\n]*code=drained/);
});

test("a second SIGTERM ends it at once, with 0", async () => {
  await using one = await running("-drain-timeout", "60s");
  const { postern, mesh } = one;
  postern.kill("SIGTERM");
  await eventually("it drains", async () => await mesh.readyStatus() === 503);
  postern.kill("SIGTERM");
  assert.equal((await postern.process.waitExit(SOON)).code, 0);
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
  await waitForRefusal(mesh.upstream);
  await open.exchange(HELLO);
  await open.finish();
  assert.equal((await postern.admin("/live")).status, 200);
  assert.equal((await postern.admin("/quitquitquit")).status, 405);
  postern.expectEnd();
  assert.equal((await postern.admin("/quitquitquit", "POST")).status, 200);
  assert.equal((await postern.process.waitExit(SOON)).code, 0);
});

test("a sidecar that waits for its agent takes SIGHUP, and ends with 0 on SIGTERM", async () => {
  const unreachable = `127.0.0.1:${await freePort("127.0.0.1")}`;
  await using web = runPostern(["proxy", "-sidecar-for", "web-1", "-http-addr", unreachable]);
  await web.process.waitFor(/agent not reached/, SOON);
  web.kill("SIGHUP");
  await web.process.waitFor(/reloading files/, SOON);
  assert.deepEqual(await web.stop(), { code: 0, signal: null });
});
