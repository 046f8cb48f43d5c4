import { strict as assert } from "node:assert";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { type DatagramResult, sendUnixDatagram } from "./bun_datagram.ts";

/** Prints, of one datagram, the process id of the sender and the text. */
const RECEIVER = `
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
path = sys.argv[1]
s.bind("\\0" + path[1:] if path.startswith("@") else path)
s.settimeout(20)
print("bound", flush=True)
data, extra, _, _ = s.recvmsg(4096, 256)
pid, _, _ = struct.unpack("3i", extra[0][2])
print(pid, data.decode(), flush=True)
`;
const onBun = process.versions.bun !== undefined && process.platform === "linux";

for (const kind of ["path", "abstract name"]) {
  test(`sendUnixDatagram() reaches a receiver at a ${kind}, from this process`, async () => {
    const directory = await mkdtemp(join(tmpdir(), "postern-datagram-"));
    const path = kind === "path" ? join(directory, "socket") : `@postern-${process.pid}`;
    const receiver = spawn("python3", ["-c", RECEIVER, path], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      let output = "";
      let result: DatagramResult | undefined;
      for await (const chunk of receiver.stdout) {
        output += chunk;
        if (result !== undefined || !output.includes("bound")) continue;
        result = sendUnixDatagram(path, "READY=1\nSTATUS=grün");
        if (result === "unsupported") receiver.kill();
      }
      if (!onBun) return assert.equal(result, "unsupported");
      assert.equal(result, "sent");
      assert.equal(output, `bound\n${process.pid} READY=1\nSTATUS=grün\n`);
    } finally {
      receiver.kill();
      await rm(directory, { recursive: true });
    }
  });
}

for (
  const [name, path] of [
    ["no receiver", "/nonexistent/socket"],
    ["a relative path", "socket"],
    ["an empty path", ""],
    ["a path too long", `/${"x".repeat(108)}`],
    ["an abstract name too long", `@${"x".repeat(108)}`],
  ] as const
) {
  test(`sendUnixDatagram() says that it failed: ${name}`, () => {
    assert.equal(sendUnixDatagram(path, "READY=1"), onBun ? "failed" : "unsupported");
  });
}
