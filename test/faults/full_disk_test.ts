import test from "node:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { eventually, runToEnd } from "../kit/process/process.ts";

test("a full disk under the state directory is reported and harms no connection", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-full-"));
  const sudo = process.getuid?.() === 0 ? [] : ["sudo"];
  const asRoot = (...words: readonly string[]) => {
    const [command = "", ...args] = [...sudo, ...words];
    return runToEnd(command, args, { timeoutMs: 10_000 });
  };
  await asRoot(
    "mount",
    "-t",
    "tmpfs",
    "-o",
    `size=64k,mode=700,uid=${process.getuid?.() ?? 0}`,
    "tmpfs",
    directory,
  );
  try {
    await fill(join(directory, "ballast"));
    await using server = await startConsul();
    await using pair = await startMeshPair(server, { both: { args: ["-state-dir", directory] } });
    await waitForEcho(pair.upstream);
    await pair.web.process.waitFor(/ENOSPC|no space/i, { timeoutMs: 60_000 });

    // Space again: it is used without a restart.
    await rm(join(directory, "ballast"));
    await server.intention("x", "db", "deny");
    await server.rotateCa();
    await eventually("a state file", async () => {
      return (await runToEnd("find", [directory, "-type", "f", "-size", "+1k"], {
        timeoutMs: 5_000,
      })).length > 0;
    }, { timeoutMs: 120_000 });
    await waitForEcho(pair.upstream);
  } finally {
    await asRoot("umount", "-l", directory);
    await rm(directory, { recursive: true, force: true });
  }
});

async function fill(path: string): Promise<void> {
  for (let size = 65_536; size >= 1; size = Math.floor(size / 2)) {
    try {
      await writeFile(path, new Uint8Array(size), { flag: "a" });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    }
  }
}
