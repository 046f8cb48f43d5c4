import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { ArrivalWatch, watchArrivals } from "./arrival_watch.ts";
import { type CLibrary, cLibrary } from "./c_library.ts";

const EPOLL = 7;
const UNWATCHABLE = 99;

/** Nothing ever arrives. */
function silence() {
  const clock = new FakeClock();
  const calls: string[] = [];
  const looksMs: number[] = [];
  const library = {
    epoll_create1: () => EPOLL,
    epoll_ctl(epoll: number, operation: number, fd: number) {
      calls.push(`epoll_ctl ${epoll} ${operation} ${fd}`);
      return fd === UNWATCHABLE ? -1 : 0;
    },
    epoll_wait() {
      looksMs.push(clock.monotonic());
      return 0;
    },
    close: (fd: number) => calls.push(`close ${fd}`),
  } as unknown as CLibrary;
  const arrivals = ArrivalWatch.open(library, clock);
  assert.ok(arrivals);
  return { arrivals, calls, clock, looksMs };
}

test("ArrivalWatch polls ever less often in silence, at last every 20 ms, and soon again for a new client", async () => {
  const { arrivals, clock, looksMs } = silence();
  arrivals.add(4, () => {});
  await clock.advance(75);
  assert.deepEqual(looksMs, [1, 3, 7, 15, 31, 51, 71]);
  arrivals.add(5, () => {});
  assert.equal(clock.pending, 1);
  await clock.advance(1);
  assert.equal(looksMs.at(-1), 76);
});

test("ArrivalWatch does not poll later because more clients come", async () => {
  const { arrivals, clock, looksMs } = silence();
  for (let fd = 4; fd < 8; fd++) {
    arrivals.add(fd, () => {});
    await clock.advance(0.5);
  }
  assert.equal(looksMs[0], 1);
});

test("ArrivalWatch.remove() calls the kernel only for an open descriptor", () => {
  const { arrivals, calls, clock } = silence();
  const ids = [4, 0, 5].map((fd) => arrivals.add(fd, () => {}) ?? assert.fail());
  calls.length = 0;
  for (const [index, fd] of [4, 0, -1].entries()) arrivals.remove(ids[index] ?? 0, fd);
  assert.deepEqual(calls, ["epoll_ctl 7 2 4", "epoll_ctl 7 2 0", "close 7"]);
  assert.equal(clock.pending, 0);
});

test("ArrivalWatch closes its descriptor after a client that cannot be watched, unless others wait", () => {
  const { arrivals, calls } = silence();
  arrivals.add(4, () => {});
  assert.equal(arrivals.add(UNWATCHABLE, () => {}), undefined);
  assert.deepEqual(calls, ["epoll_ctl 7 1 4", "epoll_ctl 7 1 99"]);
  const alone = silence();
  assert.equal(alone.arrivals.add(UNWATCHABLE, () => {}), undefined);
  assert.deepEqual(alone.calls, ["epoll_ctl 7 1 99", "close 7"]);
});

const library = cLibrary();
if (library) {
  test("watchArrivals() has one descriptor for all clients, and closes it after the last", () => {
    const fds = [library.socket(1, 2, 0), library.socket(1, 2, 0)];
    const open = () => readdirSync("/proc/self/fd").length;
    const before = open();
    for (let round = 0; round < 2; round++) {
      const unwatches = fds.map((fd) => watchArrivals(fd, () => {}));
      assert.equal(open(), before + 1);
      for (const [index, unwatch] of unwatches.entries()) unwatch?.(fds[index] ?? -1);
      assert.equal(open(), before);
    }
    for (const fd of fds) library.close(fd);
  });
}
