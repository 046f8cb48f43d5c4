/** The messages that systemd gets, received as it receives them: with the sender's process id. @module */

import assert from "node:assert/strict";
import { join } from "node:path";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { createFileSidecar } from "../kit/mesh/file_sidecar.ts";
import { startPostern } from "../kit/process/postern.ts";
import { Process } from "../kit/process/process.ts";

/** Prints each datagram as one line: the kernel's word on who sent it, then its text. */
const RECEIVER = `
import os, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
path = sys.argv[1]
s.bind("\\0" + path[1:] if path.startswith("@") else path)
print("bound", flush=True)
while True:
    data, extra, _, _ = s.recvmsg(4096, 256)
    pid = 0
    for _, kind, value in extra:
        if kind == socket.SCM_CREDENTIALS:
            pid = struct.unpack("3i", value)[0]
        else:
            # A descriptor, with a barrier: its sender waits until it is closed.
            for (fd,) in struct.iter_unpack("i", value):
                os.close(fd)
    print(pid, data.decode().strip().replace("\\n", " "), flush=True)
`;

for (const kind of ["a path", "an abstract name"]) {
  test(`systemd is notified that the proxy is ready, lives, reloads and stops, at ${kind}`, async () => {
    await using mesh = await createFileSidecar();
    const path = kind === "a path"
      ? join(mesh.directory, "notify")
      : `@postern-test-${process.pid}`;
    await using systemd = new Process(peer("python3"), ["-u", "-c", RECEIVER, path]);
    await systemd.waitFor(/^bound$/m, { timeoutMs: 60_000 });
    await using postern = startPostern(mesh.args, {
      env: { NOTIFY_SOCKET: path, WATCHDOG_USEC: "400000" },
    });
    // NotifyAccess=main takes messages from the main process only; on Deno a program sends them.
    const sender = process.env.POSTERN_ENGINE === "deno" ? "\\d+" : postern.pid;
    const from = (text: string) => new RegExp(`^${sender} ${text}`, "m");
    await systemd.waitFor(from("READY=1 STATUS=.*web"), { timeoutMs: 60_000 });
    await systemd.waitFor(from("WATCHDOG=1\n(?:.*\n)*.* WATCHDOG=1"), { timeoutMs: 60_000 });
    postern.kill("SIGHUP");
    await systemd.waitFor(from("RELOADING=1.*\n(?:.*\n)*.* READY=1"), { timeoutMs: 60_000 });
    assert.deepEqual(await postern.stop(), { code: 0, signal: null });
    await systemd.waitFor(from("STOPPING=1"), { timeoutMs: 60_000 });
  });
}
