/** A burst of clients finds room to wait while the thread that accepts them is busy. @module */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { runtimeEngine } from "../../../src/net/mod.ts";
import { freePort, loopbackHost } from "../../kit/process/ports.ts";

const CHILD = join(dirname(fileURLToPath(import.meta.url)), "backlog_child.ts");
const onBun = runtimeEngine().name.startsWith("bun");
/** The largest backlog of the kernel. */
const MOST = process.platform === "linux"
  ? Number(readFileSync("/proc/sys/net/core/somaxconn", "utf8"))
  : 128;
/** On Bun more than the 512 that it asks for itself, few enough for the usual limit of open files. */
const CLIENTS = Math.min(onBun ? 800 : 500, MOST);

/** How many of them got through to a listener whose thread does not turn its event loop meanwhile. */
async function connectedInBurst(): Promise<number> {
  const host = loopbackHost();
  const port = await freePort(host);
  const options = { address: { kind: "tcp", host, port }, reusePort: false } as const;
  const listener = await runtimeEngine().listen(options, (connection) => connection.reset());
  try {
    const runtime = onBun ? [] : ["run", "-A", "--no-check"];
    const args = [...runtime, CHILD, host, String(port), String(CLIENTS)];
    const child = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
    assert.match(child.stdout, /^\d+\n$/, child.stderr);
    return Number(child.stdout);
  } finally {
    listener.close();
  }
}

test(`a burst of ${CLIENTS} clients waits for a busy thread`, async () => {
  assert.equal(await connectedInBurst(), CLIENTS);
});
