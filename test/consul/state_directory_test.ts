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
      const names = await readdir(directory, { recursive: true });
      const paths = names.map((name) => join(directory, name));
      const found = [];
      for (const path of paths) if ((await stat(path)).isFile()) found.push(path);
      return found.length >= 2 && found;
    });
    for (const file of files) {
      assert.equal((await stat(file)).mode & 0o777, 0o600, `${file} can be read by others`);
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
