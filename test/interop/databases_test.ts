import test from "node:test";
import assert from "node:assert/strict";
import { peer } from "../../scripts/peers.ts";
import { startConsul } from "../kit/mesh/consul.ts";
import { type Database, startMariadb, startPostgres, startRedis } from "./databases.ts";
import type { Place } from "../kit/wire/echo.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { eventually, runToEnd } from "../kit/process/process.ts";

test("PostgreSQL under pgbench, kept connections and one per transaction", async () => {
  await withPair(startPostgres, async ({ host, port }) => {
    const to = ["-h", host, "-p", String(port), "-U", "postgres"];
    const bench = (...args: readonly string[]) =>
      runToEnd(peer("pgbench"), [...to, ...args, "postgres"], { timeoutMs: 240_000 });
    await bench("-i", "-s", "2", "-q");
    for (
      const args of [["-c", "8", "-j", "2", "-t", "500"], ["-C", "-S", "-c", "4", "-t", "100"]]
    ) {
      const output = await bench(...args);
      assert.match(output, /number of failed transactions: 0 /);
      const done = Number(output.match(/transactions actually processed: (\d+)/)?.[1]);
      assert.ok(done >= 400, `only ${done} transactions\n${output}`);
    }
  });
});

test("Redis under redis-benchmark, pipelined and with large values", async () => {
  await withPair(startRedis, async ({ host, port }) => {
    const to = ["-h", host, "-p", String(port)];
    for (
      const args of [
        ["-n", "20000", "-c", "20", "-P", "4", "-t", "set,get,incr,lpush,lrange_100", "-q"],
        ["-n", "300", "-c", "10", "-d", "1000000", "-t", "set,get", "-q"],
        // -k 0: a connection per request.
        ["-n", "500", "-c", "4", "-k", "0", "-t", "get", "-q"],
      ]
    ) {
      const output = await runToEnd(peer("redis-benchmark"), [...to, ...args], {
        timeoutMs: 240_000,
      });
      assert.doesNotMatch(output, /error/i);
      assert.match(output, /GET: [\d.]+ requests per second/);
    }
  });
});

test("MariaDB under mariadb-slap", async () => {
  await withPair(startMariadb, async ({ host, port }) => {
    const output = await runToEnd(peer("mariadb-slap"), [
      ...["--no-defaults", "-h", host, "-P", String(port), "--protocol=tcp"],
      ...["--auto-generate-sql", "--auto-generate-sql-load-type=mixed"],
      ...["--concurrency=8", "--iterations=3", "--number-of-queries=4000", "--detach=50"],
    ], { timeoutMs: 240_000 });
    assert.match(output, /Number of clients running queries: 8/);
    assert.doesNotMatch(output, /error/i);
  });
});

/** A database behind two sidecars; `use` gets the address of web's upstream. */
async function withPair(
  startDatabase: (host: string) => Promise<Database>,
  use: (upstream: Place) => Promise<void>,
): Promise<void> {
  await using server = await startConsul({ acl: true });
  await using database = await startDatabase(server.host);
  await using pair = await startMeshPair(server, { app: database });
  await eventually("the endpoint is known", async () => {
    const { body } = await pair.web.admin("/clusters");
    return body.includes(String(pair.public.port));
  });
  await use(pair.upstream);
}
