/**
 * Clients that send a head or a body bit by bit, or read hardly at all: memory is bounded, and no other
 * client notices.
 *
 * @module
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { assertExactlyOnce, HttpLoad } from "../kit/wire/http_load.ts";
import { startCountingOrigin } from "../kit/wire/http_origin.ts";
import { startFilePair } from "../kit/mesh/file_pair.ts";
import type { Postern } from "../kit/process/postern.ts";
import { Process } from "../kit/process/process.ts";

const CONNECTIONS = 400;
const SECONDS = "6";
/**
 * The bytes of one client: its socket, one with TLS to the other side, and far less than a body may
 * hold.
 */
const MOST_BYTES = CONNECTIONS * 200_000;

const ATTACKS = [
  ["heads", ["-H"]],
  ["bodies", ["-B", "-s", "8192"]],
  ["readers", ["-X", "-w", "1", "-y", "10", "-z", "1", "-n", "2", "-k", "3"]],
] as const;

test("slow clients hold little memory, and no other client waits for them", async (t) => {
  await using origin = await startCountingOrigin();
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  const { host, port } = pair.upstream;
  const load = () => new HttpLoad(pair.upstream, origin.counts, { http2: 1 });
  // Memory that the first requests bring in stays, whichever client sent them.
  assertExactlyOnce(await load().stop({ atLeast: 1_000 }), { atLeast: 1_000 });
  for (const [name, args] of ATTACKS) {
    await t.test(name, async () => {
      const before = residentBytes(pair.web);
      await using attack = new Process(peer("slowhttptest"), [
        ...args,
        ...["-c", String(CONNECTIONS), "-r", "200", "-i", "1", "-l", SECONDS, "-p", "3"],
        ...["-u", `http://${host}:${port}/`],
      ], { name: "slowhttptest" });
      const others = load();
      const exit = await attack.waitExit({ timeoutMs: 60_000 });
      const after = residentBytes(pair.web);
      const result = await others.stop({ atLeast: 300 });
      assertExactlyOnce({ ...result, repeated: [] }, { atLeast: 300 });
      assert.equal(exit.code, 0, attack.tail());
      assert.ok(after - before < MOST_BYTES, `it grew by ${after - before} bytes`);
    });
  }
});

function residentBytes({ pid }: Postern): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(text)?.[1]) * 1024;
}
