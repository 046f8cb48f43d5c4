import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog } from "../../base/mod.ts";
import { canHandOver } from "../../net/mod.ts";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { type ActivatedSocket, SystemdSockets, takeActivated } from "./activation.ts";
import type { OfferedSocket } from "./handover.ts";

/** No process has so many descriptors: closing it does nothing. */
const FD = 1_000_000;

function rig(
  { activated = [], FDSTORE, enabled = true, isSent = true }: {
    readonly activated?: readonly ActivatedSocket[];
    readonly FDSTORE?: string | undefined;
    readonly enabled?: boolean;
    readonly isSent?: boolean;
  },
) {
  const notes: string[] = [];
  const note = (text: string) => void notes.push(text);
  const systemd = new SystemdSockets({
    activated,
    env: { FDSTORE },
    log: { ...silentLog, info: note, warn: note },
    notifier: {
      enabled,
      storeDescriptors: (name, fds) => (note(`store ${name} ${fds.length}`), isSent),
      removeDescriptors: (name) => note(`remove ${name}`),
    },
  });
  return { systemd, take: () => notes.splice(0) };
}

const socket = (name: string, address: string) => ({ name, address, fd: FD });
const UNIT = socket("web.socket", "127.0.0.1:1");
const LEFT = [socket("postern-listener", "127.0.0.1:2"), socket("postern-server", "127.0.0.1:3")];
const OPEN: readonly OfferedSocket[] = [
  { use: "listener", address: "127.0.0.1:1", fd: FD },
  { use: "listener", address: "127.0.0.1:2", fd: FD },
  { use: "listener", address: "127.0.0.1:2", fd: FD },
  { use: "server", address: "127.0.0.1:3", fd: FD },
  { use: "kept", address: "127.0.0.1:1", fd: FD },
];
const REMOVED = ["remove postern-listener", "remove postern-server"];
const STORED = ["store postern-listener 2", "store postern-server 1"];
const KEPT = "systemd has the sockets for the next process";
const NOT_KEPT = "systemd does not keep the sockets: connections are refused during a restart";

if (canHandOver()) {
  for (
    const [name, options, isLeft, notes] of [
      ["gives systemd all but those of its own units", { FDSTORE: "3" }, true, [...STORED, KEPT]],
      ["gives none where not all find a place", { FDSTORE: "2" }, false, [NOT_KEPT]],
      ["says that systemd takes none", { FDSTORE: "3", isSent: false }, false, [
        "store postern-listener 2",
        ...REMOVED,
        NOT_KEPT,
      ]],
      ["gives none without FileDescriptorStoreMax=", {}, false, []],
      ["gives none to another supervisor", { FDSTORE: "3", enabled: false }, false, []],
      ["gives none for a number that is none", { FDSTORE: "many" }, false, []],
    ] as const
  ) {
    test(`SystemdSockets.leave() ${name}`, async () => {
      const { systemd, take } = rig({ activated: [UNIT], ...options });
      assert.equal(await systemd.leave(() => Promise.resolve(OPEN)), isLeft);
      assert.deepEqual(take(), notes);
    });
  }
} else {
  test("SystemdSockets says once that this runtime cannot leave sockets, and refuses those it gets", async () => {
    const { systemd, take } = rig({ FDSTORE: "3" });
    assert.equal(await systemd.leave(() => Promise.resolve(OPEN)), false);
    assert.deepEqual(take(), [
      "systemd cannot keep the sockets during a restart: only the executable on Linux can",
    ]);
    const env = { LISTEN_PID: "7", LISTEN_FDS: "1", LISTEN_FDNAMES: "postern-listener" };
    assert.throws(() => takeActivated(env, 7), /remove its \.socket unit, or stop it and start it/);
  });
}

test("SystemdSockets has the sockets of the process before in systemd until it accepts", async () => {
  const { systemd, take } = rig({ activated: [UNIT, ...LEFT] });
  assert.deepEqual(systemd.socketsFor("server"), { inherited: [LEFT[1]], kept: [UNIT] });
  assert.deepEqual(systemd.socketsFor("listener"), { inherited: [LEFT[0]], kept: [UNIT] });
  const clock = new FakeClock();
  let accepted = 0;
  const plane = { accept: () => Promise.resolve(void accepted++) };
  systemd.acceptLater(plane, clock);
  await clock.advance(4_999);
  assert.deepEqual([accepted, take()], [0, []]);
  await clock.advance(1);
  assert.deepEqual([accepted, take()], [1, REMOVED]);
  systemd.acceptLater(plane, clock);
  systemd.accept(plane);
  await settle();
  assert.deepEqual([accepted, take(), clock.pending], [1, [], 0]);
});

test("SystemdSockets prefers the sockets that the process before hands over", () => {
  const { systemd, take } = rig({ activated: [UNIT, ...LEFT] });
  const kept = [{ address: "127.0.0.1:9", fd: FD }];
  systemd.replace(kept);
  assert.deepEqual(take(), REMOVED);
  const before = [{ address: "127.0.0.1:8", fd: FD }];
  const named = kept.map((one) => ({ ...one, name: "" }));
  assert.deepEqual(systemd.socketsFor("listener", before), { inherited: before, kept: named });
});

test("SystemdSockets without any leaves all to the listeners", () => {
  const { systemd } = rig({});
  assert.deepEqual(systemd.socketsFor("listener"), { inherited: undefined, kept: [] });
});
