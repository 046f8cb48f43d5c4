import test from "node:test";
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startConsul } from "../kit/consul.ts";
import { waitForEcho } from "../kit/echo.ts";
import { startPair } from "../kit/mesh.ts";
import { startPostern } from "../kit/postern.ts";
import { eventually } from "../kit/process.ts";

test("a sidecar that restarts while the agent is away serves from its state directory", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-state-"));
  try {
    await using server = await startConsul({ acl: true });
    const args = ["-state-dir", directory];
    await using pair = await startPair(server, { tokens: true, sidecar: { args } });
    await waitForEcho(pair.upstream);
    const files = await eventually("both wrote their state", async () => {
      const found = await filesBelow(directory);
      const newest = Math.max(...found.map(({ mtimeMs }) => mtimeMs));
      // Written at most once a second: with nothing new for longer, it is the last state.
      return found.length >= 2 && Date.now() - newest > 4_000 && found;
    }, { timeoutMs: 60_000 });
    for (const { path, mode } of files) {
      assert.equal(mode & 0o777, 0o600, `${path} can be read by others`);
    }

    await server.stop("SIGKILL");
    await pair.posterns.web.stop();
    await using again = startPostern(
      ["proxy", "-proxy-id", "web-1-sidecar-proxy", "-admin-bind", "127.0.0.1:0", ...args],
      { env: { CONSUL_HTTP_ADDR: server.address } },
    );
    await again.waitReady();
    await waitForEcho(pair.upstream);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

/** Those that have their name: one that is being written goes by another until it is whole. */
async function filesBelow(directory: string) {
  const found = [];
  for (const name of await readdir(directory, { recursive: true })) {
    const path = join(directory, name);
    const stats = await stat(path);
    const { mode, mtimeMs } = stats;
    if (stats.isFile() && !name.endsWith(".tmp")) found.push({ path, mode, mtimeMs });
  }
  return found;
}
