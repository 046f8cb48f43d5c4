import assert from "node:assert/strict";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { advanceUntil, counted } from "../../../test/kit/secrets/followed_files.ts";
import { temporaryDirectory } from "../../../test/kit/secrets/secret_files.ts";
import { seededRandom } from "../../base/mod.ts";
import { SocketArrivals } from "./socket_arrivals.ts";
import { realFiles } from "./file_system.ts";

/** Waits for `api.sock` in a directory. */
async function setUp({ at = "api.sock" } = {}) {
  const directory = await temporaryDirectory();
  const clock = new FakeClock();
  const seen = { arrivals: 0 };
  const arrivals = new SocketArrivals({
    clock,
    random: seededRandom(1),
    addresses: [
      { kind: "tcp", host: "127.0.0.1", port: 1 },
      { kind: "unix", path: join(directory.path, at) },
    ],
    files: counted(realFiles),
    onArrival: () => void seen.arrivals++,
  });
  return {
    clock,
    seen,
    arrivals,
    path: (...parts: readonly string[]) => join(directory.path, ...parts),
    put: (...parts: readonly string[]) => writeFile(join(directory.path, ...parts), ""),
    /** Resolves after the first look. */
    async begin() {
      arrivals.begin();
      await advanceUntil(clock, () => clock.pending > 0);
    },
    /** Waits for a number of arrivals; returns the milliseconds. */
    async wait(arrivals: number) {
      const beganMs = clock.monotonic();
      await advanceUntil(clock, () => seen.arrivals === arrivals, 3_000);
      return clock.monotonic() - beganMs;
    },
    async [Symbol.asyncDispose]() {
      arrivals.end();
      assert.equal(clock.pending, 0);
      await directory[Symbol.asyncDispose]();
    },
  };
}

for (
  const [what, at, appear] of [
    ["a socket", "api.sock", ({ put }) => put("api.sock")],
    ["a socket in a directory that was missing", "run/agent/api.sock", async ({ path, put }) => {
      await mkdir(path("run", "agent"), { recursive: true });
      await put("run", "agent", "api.sock");
    }],
    ["a socket behind a link that was missing", "now/api.sock", async ({ path, put }) => {
      await mkdir(path("v1"));
      await put("v1", "api.sock");
      await symlink("v1", path("now"));
    }],
  ] as const satisfies readonly (readonly [
    string,
    string,
    (set: Awaited<ReturnType<typeof setUp>>) => Promise<void>,
  ])[]
) {
  test(`SocketArrivals notices ${what} within half a second`, async () => {
    await using set = await setUp({ at });
    await set.begin();
    await appear(set);
    const tookMs = await set.wait(1);
    assert.ok(tookMs <= 500, `${tookMs}`);
  });
}

test("SocketArrivals reports a replaced socket once, and does not report an old one", async () => {
  await using set = await setUp();
  await set.put("api.sock");
  await set.begin();
  await set.clock.advance(5_000);
  assert.equal(set.seen.arrivals, 0, "an old socket is no arrival");
  await set.put("next.sock");
  await rename(set.path("next.sock"), set.path("api.sock"));
  await set.wait(1);
  await set.clock.advance(5_000);
  await rm(set.path("api.sock"));
  await set.clock.advance(5_000);
  assert.equal(set.seen.arrivals, 1);
});

test("SocketArrivals reports a socket that comes and goes once a second at most", async () => {
  await using set = await setUp();
  await set.begin();
  const startMs = set.clock.monotonic();
  const passedMs = () => set.clock.monotonic() - startMs;
  while (set.seen.arrivals < 4 && passedMs() < 60_000) {
    await rm(set.path("api.sock"), { force: true });
    await set.put("api.sock");
    await advanceUntil(set.clock, () => true);
    await set.clock.advance(100);
  }
  assert.equal(set.seen.arrivals, 4);
  assert.ok(passedMs() >= 3_000, `${passedMs()}`);
});

test("SocketArrivals does not poll before begin(), after end(), or without a unix socket", async () => {
  await using set = await setUp();
  assert.equal(set.clock.pending, 0);
  await set.begin();
  set.arrivals.begin();
  set.arrivals.end();
  await set.put("api.sock");
  await set.clock.advance(5_000);
  assert.deepEqual(set.seen, { arrivals: 0 });
  const clock = new FakeClock();
  const tcp = new SocketArrivals({
    clock,
    random: seededRandom(1),
    addresses: [{ kind: "tcp", host: "127.0.0.1", port: 1 }],
    onArrival: () => assert.fail(),
  });
  tcp.begin();
  assert.equal(clock.pending, 0);
});
