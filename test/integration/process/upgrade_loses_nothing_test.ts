/** A process of a proxy takes over from the one before, and no connection is lost. @module */

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { rounds } from "../../kit/clock/long.ts";
import { startFilePair } from "../../kit/mesh/file_pair.ts";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { handsOver, type Postern, ready, runPostern } from "../../kit/process/postern.ts";
import { EchoClient, pattern } from "../../kit/wire/echo.ts";
import { eventually } from "../../kit/process/process.ts";
import { assertExactlyOnce, HttpLoad } from "../../kit/wire/http_load.ts";
import { RawClient, statusOf } from "../../kit/wire/http_raw.ts";
import { startCountingOrigin } from "../../kit/wire/http_origin.ts";
import { assertFlawless, Load } from "../../kit/wire/load.ts";

/** Some hundred connections and a thousand requests a second. */
const LOAD = { keptAlive: 200, shortLived: 60, pauseMs: 150, maxBodyBytes: 0 };
const TIMEOUT = { timeoutMs: 60_000 };

/** Waits until the next process of the proxy has taken over, and the one before has ended. */
async function takeOver(before: Postern, next: Postern): Promise<Postern> {
  before.expectEnd();
  await next.process.waitFor(/took over/, TIMEOUT);
  assert.deepEqual(await before.process.waitExit(TIMEOUT), { code: 0, signal: null });
  return next;
}

test("the next process takes over under load, with other numbers of workers, also after one that failed", async () => {
  await using mesh = await createFileSidecar();
  const argsOf = (workers: number) => [...mesh.args, "-workers", `${workers}`];
  await using first = await ready(runPostern(argsOf(1)));
  if (!handsOver(first)) {
    // The port of the admin server is taken, and the process that runs is not disturbed.
    await using next = runPostern(argsOf(1));
    next.expectEnd();
    assert.deepEqual(await next.process.waitExit(TIMEOUT), { code: 1, signal: null });
    const { host, port } = mesh.admin;
    await using upgrade = runPostern(["upgrade", "-admin", `${host}:${port}`]);
    upgrade.expectEnd();
    assert.deepEqual(await upgrade.process.waitExit(TIMEOUT), { code: 1, signal: null });
    const reason = "this runtime cannot hand sockets over; only the executable on Linux can";
    assert.match(upgrade.output, new RegExp(`which goes on serving: ${reason}`));
    return assert.equal(await mesh.readyStatus(), 200);
  }
  const load = new Load(mesh.upstream, { longLived: 0, shortLived: 8, pauseMs: 0 });
  await load.past(100);
  await using second = await takeOver(first, runPostern(argsOf(2)));
  await load.past(load.result.exchanges + 100);

  // It has the sockets, waits for a certificate, and is killed.
  const config = join(mesh.directory, "web.json");
  const text = await readFile(config, "utf8");
  await writeFile(config, text.replace("web.pem", "missing.pem"));
  {
    await using failed = runPostern(argsOf(1));
    await failed.process.waitFor(/taking over from a running process/, TIMEOUT);
    await failed.process.waitFor(/missing\.pem/, TIMEOUT);
    failed.kill("SIGKILL");
    await second.process.waitFor(/handover failed; this process goes on serving/, TIMEOUT);
  }
  await load.past(load.result.exchanges + 100);
  assert.equal(await mesh.readyStatus(), 200);

  await writeFile(config, text);
  await using third = await takeOver(second, runPostern(argsOf(1)));
  await load.past(load.result.exchanges + 100);
  assertFlawless(await load.stop(), { atLeast: 400 });
  assert.equal(await mesh.readyStatus(), 200);
  assert.deepEqual(await third.stop(), { code: 0, signal: null });
});

test("the next process takes over from the one that serves, not from those that still drain", async () => {
  await using mesh = await createFileSidecar();
  await using own = new AsyncDisposableStack();
  const first = own.use(await ready(runPostern(mesh.args)));
  if (!handsOver(first)) return;
  const open = [];
  for (let count = 0; count < 3; count++) {
    // The process that serves now drains until this connection ends.
    const client = await EchoClient.open(mesh.upstream);
    await client.exchange(pattern(count, 100));
    open.push(client);
    const next = own.use(runPostern(mesh.args));
    await next.process.waitFor(/took over/, TIMEOUT);
    next.expectEnd();
  }
  first.expectEnd();
  for (const client of open) {
    await client.exchange(pattern(9, 100));
    await client.finish();
  }
  assert.equal(await mesh.readyStatus(), 200);
});

test("new processes of both sidecars take over one after the other, and no request is lost", async () => {
  await using origin = await startCountingOrigin();
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  const serving = { web: pair.web, db: pair.dbs[0] ?? pair.web };
  if (!handsOver(pair.web)) return;
  await using load = new HttpLoad(pair.upstream, origin.counts, LOAD);
  const goOn = () => load.past(load.result.exchanges + 1_000);
  const replaceAll = async (sidecars: readonly ("web" | "db")[]) => {
    for (const sidecar of sidecars) {
      await goOn();
      const next = pair.another(sidecar);
      await next.process.waitFor(/took over/, TIMEOUT);
      serving[sidecar].expectEnd();
      serving[sidecar] = next;
    }
  };
  await replaceAll(["web", "db"]);
  await goOn();
  const failed = pair.another("db");
  await failed.process.waitFor(/taking over from a running process/, TIMEOUT);
  // It hangs with the sockets.
  failed.kill("SIGSTOP");
  await goOn();
  failed.kill("SIGKILL");
  await serving.db.process.waitFor(/handover failed; this process goes on serving/, TIMEOUT);
  const left = rounds("processes that take over under load", { few: 3, all: 10 }) - 2;
  await replaceAll(Array.from({ length: left }, (_, at) => at % 2 ? "db" : "web"));
  await goOn();
  assertExactlyOnce(await load.stop(), { atLeast: 4_000 });
});

test("the next process goes on with the ejections of the one before", async () => {
  await using origin = await startCountingOrigin();
  await using pair = await startFilePair({ protocol: "http", apps: [origin, origin] });
  if (!handsOver(pair.web)) return;
  const isEjected = async (web: Postern) =>
    (await web.admin("/clusters")).body.includes("/failed_outlier_check");
  const load = new HttpLoad(pair.upstream, origin.counts, { keptAlive: 2, pauseMs: 2 });
  await load.past(20);
  await pair.kill(1);
  await eventually("the killed instance is ejected", () => isEjected(pair.web));
  await load.stop();
  const next = pair.another("web");
  await next.process.waitFor(/took over/, TIMEOUT);
  pair.web.expectEnd();
  assert.ok(await isEjected(next));
});

test("a caller that has used up its limit is refused by the next process, too", async () => {
  await using origin = await startCountingOrigin();
  // A token comes again after more than an hour.
  const config = { limits: [{ requestsPerSecond: 3 / 80_000, burst: 3 }] };
  await using pair = await startFilePair({
    protocol: "http",
    apps: [origin],
    upstream: { plugins: [{ use: "rate_limit", config }] },
  });
  if (!handsOver(pair.web)) return;
  const ask = async () =>
    statusOf(await RawClient.ask(pair.upstream, "GET / HTTP/1.1\r\nHost: db\r\n\r\n"));
  assert.deepEqual([await ask(), await ask()], [200, 200]);
  const next = await takeOver(pair.web, pair.another("web"));
  assert.deepEqual([await ask(), await ask()], [200, 429]);
  await takeOver(next, pair.another("web"));
  assert.equal(await ask(), 429);
});
