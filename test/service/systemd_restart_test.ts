/** A restart by systemd, which keeps the listening sockets meanwhile: no connection is refused. @module */

import assert from "node:assert/strict";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { startFilePair } from "../kit/mesh/file_pair.ts";
import { handsOver } from "../kit/process/postern.ts";
import { startCountingOrigin } from "../kit/wire/http_origin.ts";
import { assertExactlyOnce, HttpLoad } from "../kit/wire/http_load.ts";

/**
 * What systemd does with `FileDescriptorStoreMax=$1`: it keeps descriptors that the service sends, and passes
 * them to the next start. SIGHUP restarts the service.
 */
const SYSTEMD = `
import array, fcntl, os, signal, socket, sys
most, command = sys.argv[1], sys.argv[2:]
kept, asked = [], []
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, lambda number, frame: asked.append(number))
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind("\\0postern-test-%d" % os.getpid())
notify.settimeout(0.05)
def start():
    pid = os.fork()
    if pid > 0:
        return pid
    os.environ.update(NOTIFY_SOCKET="@postern-test-%d" % os.getppid(), FDSTORE=most)
    if kept:
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 500) for name, fd in kept]
        for at, fd in enumerate(high):
            os.dup2(fd, 3 + at)
        names = ":".join(name for name, fd in kept)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(kept)), LISTEN_FDNAMES=names)
    os.execvp(command[0], command)
def receive():
    global kept
    try:
        data, extra, _, _ = notify.recvmsg(4096, 4096)
    except TimeoutError:
        return
    fds = array.array("i")
    for _, kind, value in extra:
        fds.frombytes(value)
    fields = dict(line.split("=", 1) for line in data.decode().splitlines())
    name = fields.get("FDNAME")
    if fields.get("FDSTORE") == "1":
        known = [os.fstat(fd).st_ino for _, fd in kept]
        kept += [(name, fd) for fd in fds if os.fstat(fd).st_ino not in known]
        print("systemd keeps", len(kept), flush=True)
    elif fields.get("FDSTOREREMOVE") == "1":
        for fd in [fd for at, fd in kept if at == name]:
            os.close(fd)
        kept = [one for one in kept if one[0] != name]
        print("systemd keeps", len(kept), flush=True)
pid = start()
stopping = False
while True:
    receive()
    if asked:
        stopping = asked.pop() == signal.SIGTERM
        os.kill(pid, signal.SIGTERM)
    if os.waitpid(pid, os.WNOHANG)[0] == pid:
        if stopping:
            sys.exit(0)
        pid = start()
`;
const TIMEOUT = { timeoutMs: 60_000 };

test("a restart by systemd loses no request, however many workers", async () => {
  await using origin = await startCountingOrigin();
  await using pair = await startFilePair({
    protocol: "http",
    apps: [origin],
    args: ["-workers", "2"],
    upstream: { connectTimeout: "30s" },
    underDb: [peer("python3"), "-u", "-c", SYSTEMD, "16"],
  });
  const [db] = pair.dbs;
  assert.ok(db);
  if (!handsOver(db)) return;
  const load = new HttpLoad(pair.upstream, origin.counts, { maxBodyBytes: 0 });
  for (const times of [1, 2]) {
    await load.past(load.result.exchanges + 100);
    db.kill("SIGHUP");
    await db.process.waitFor(new RegExp(`(?:systemd keeps 0[^]*){${times}}`), TIMEOUT);
  }
  await load.past(load.result.exchanges + 100);
  assertExactlyOnce(await load.stop(), { atLeast: 300 });
  assert.match(db.output, /systemd has the sockets for the next process sockets=3/);
});
