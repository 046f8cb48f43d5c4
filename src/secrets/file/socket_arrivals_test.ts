import assert from "node:assert/strict";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { advanceUntil, counted, SILENT } from "../../../test/kit/secrets/followed_files.ts";
import { temporaryDirectory } from "../../../test/kit/secrets/secret_files.ts";
import { seededRandom } from "../../base/mod.ts";
import { SocketArrivals } from "./socket_arrivals.ts";
import { type FileSystem, realFiles } from "./file_system.ts";

/** Looks for `api.sock` in a directory. */
async function setUp({ at = "api.sock", files = {} as Partial<FileSystem> } = {}) {
  const directory = await temporaryDirectory();
  const clock = new FakeClock();
  const told = { arrivals: 0 };
  const arrivals = new SocketArrivals({
    clock,
    random: seededRandom(1),
    addresses: [
      { kind: "tcp", host: "127.0.0.1", port: 1 },
      { kind: "unix", path: join(directory.path, at) },
    ],
    files: counted({ ...realFiles, ...files }),
    onArrival: () => void told.arrivals++,
  });
  return {
    clock,
    told,
    arrivals,
    path: (...parts: readonly string[]) => join(directory.path, ...parts),
    put: (...parts: readonly string[]) => writeFile(join(directory.path, ...parts), ""),
    /** Resolves when it has looked once. */
    async begin() {
      arrivals.begin();
      await advanceUntil(clock, () => clock.pending > 0);
      // Deno's watches begin a little later.
      await clock.advance(500);
    },
    /** Until so many were told; gives the milliseconds. */
    async wait(arrivals: number) {
      const beganMs = clock.monotonic();
      await advanceUntil(clock, () => told.arrivals === arrivals, 3_000);
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
    ["one in a directory that was missing", "run/agent/api.sock", async ({ path, put }) => {
      await mkdir(path("run", "agent"), { recursive: true });
      await put("run", "agent", "api.sock");
    }],
    ["one behind a link that was missing", "now/api.sock", async ({ path, put }) => {
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
  for (const [how, files] of [["watches", {}], ["polls", SILENT]] as const) {
    test(`Arrivals finds ${what}, by ${how}`, async () => {
      await using set = await setUp({ at, files });
      await set.begin();
      await appear(set);
      await set.wait(1);
    });
  }
}

test("Arrivals tells nothing of what was there, and once of what takes its place", async () => {
  await using set = await setUp({ files: SILENT });
  await set.put("api.sock");
  await set.begin();
  await set.clock.advance(5_000);
  assert.equal(set.told.arrivals, 0, "it was there before");
  await set.put("next.sock");
  await rename(set.path("next.sock"), set.path("api.sock"));
  await set.wait(1);
  await set.clock.advance(5_000);
  await rm(set.path("api.sock"));
  await set.clock.advance(5_000);
  assert.equal(set.told.arrivals, 1);
});

test("Arrivals hears of a socket at once, and of one that comes and goes once a second", async () => {
  const hints: ((name: string) => void)[] = [];
  const watch: FileSystem["watch"] = (_path, { onHint }) => {
    hints.push(onHint);
    return { close() {} };
  };
  await using set = await setUp({ files: { watch } });
  await set.begin();
  const flap = async () => {
    await rm(set.path("api.sock"), { force: true });
    await set.put("api.sock");
    for (const hint of hints) hint("api.sock");
  };
  await flap();
  const tookMs = await set.wait(1);
  assert.ok(tookMs <= 260, `${tookMs}`);
  const startMs = set.clock.monotonic();
  const passedMs = () => set.clock.monotonic() - startMs;
  // Looks at real files take real time, which the clock does not count.
  while (set.told.arrivals < 4 && passedMs() < 60_000) {
    await flap();
    await advanceUntil(set.clock, () => true);
    await set.clock.advance(100);
  }
  assert.equal(set.told.arrivals, 4);
  assert.ok(passedMs() >= 2_900, `${passedMs()}`);
});

test("Arrivals looks at nothing where it is not asked to, or has nothing to look at", async () => {
  await using set = await setUp();
  assert.equal(set.clock.pending, 0);
  await set.begin();
  set.arrivals.begin();
  set.arrivals.end();
  await set.put("api.sock");
  await set.clock.advance(5_000);
  assert.deepEqual(set.told, { arrivals: 0 });
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
