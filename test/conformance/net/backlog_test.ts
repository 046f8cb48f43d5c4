/**
 * A burst of clients finds room to wait while the thread that accepts them is busy.
 *
 * @module
 */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { runtimeEngine } from "../../../src/net/mod.ts";
import { freePort, loopbackHost } from "../../kit/ports.ts";

/** More than the 512 that Bun asks for, few enough for the usual limit of open files. */
const CLIENTS = 800;
const CHILD = join(dirname(fileURLToPath(import.meta.url)), "backlog_child.ts");
const applies = process.platform === "linux" && runtimeEngine().name.startsWith("bun") &&
  Number(readFileSync("/proc/sys/net/core/somaxconn", "utf8")) >= CLIENTS;

async function burst(): Promise<void> {
  const host = loopbackHost();
  const port = await freePort(host);
  const options = { address: { kind: "tcp", host, port }, reusePort: false } as const;
  const listener = await runtimeEngine().listen(options, (connection) => connection.reset());
  try {
    // Waiting for the child without turning the event loop: nobody is accepted meanwhile.
    const args = [CHILD, host, String(port), String(CLIENTS)];
    const child = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
    assert.equal(child.stdout.trim(), String(CLIENTS), child.stderr);
  } finally {
    listener.close();
  }
}

if (applies) test("a burst of clients waits for a busy thread", burst);
