import test from "node:test";
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DevPair, ready } from "../../kit/dev_mesh.ts";
import { expectRefused, waitForEcho, waitForRefusal } from "../../kit/echo.ts";
import { eventually } from "../../kit/process.ts";

const SAID = { timeoutMs: 20_000 };

test("a restart while the agent is away serves from the state directory", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-state-"));
  try {
    const args = ["-state-dir", directory];
    await using pair = await DevPair.start({ web: { args }, db: { args } });
    await waitForEcho(pair.upstream);
    const files = await eventually("both wrote their state", async () => {
      const names = (await readdir(directory)).filter((name) => name.endsWith(".json"));
      return names.length === 2 && names.map((name) => join(directory, name));
    });
    for (const file of files) assert.equal((await stat(file)).mode & 0o777, 0o600, file);

    await pair.agent.stop();
    assert.equal((await pair.db.stop()).code, 0);
    await expectRefused(pair.upstream);
    const again = ["proxy", "-sidecar-for", "db-1", "-admin-bind", "127.0.0.1:0", ...args];
    {
      await using restarted = await ready(pair.mesh.run(again));
      await restarted.process.waitFor(/\[WARN\] +agent is away, stored snapshot in use/, SAID);
      assert.equal(await restarted.metric("postern_snapshot_restored"), 1);
      await waitForEcho(pair.upstream);
      // And lives on with the agent when it comes back.
      await pair.agent.start();
      await eventually(
        "it follows the agent",
        async () => await restarted.metric("postern_snapshot_restored") === 0,
      );
      pair.agent.setIntention("web", "db", "deny");
      await waitForRefusal(pair.upstream);
      pair.agent.setIntention("web", "db", "allow");
      await waitForEcho(pair.upstream);
    }

    // Half a file is no state: nothing of it is used.
    await pair.agent.stop();
    const file = files.find((name) => name.includes("db-1"));
    assert.ok(file);
    const text = await readFile(file, "utf8");
    await writeFile(file, text.slice(0, Math.floor(text.length / 2)));
    await using blank = pair.mesh.run(again);
    const [line] = await blank.process.waitFor(
      /\[WARN\] +stored snapshot not used[^\n]*/,
      SAID,
    );
    assert.ok(line.includes(file), line);
    assert.ok(!blank.output.includes("PRIVATE KEY"));
    await eventually("it says that it is not ready", async () => {
      const { status, body } = await blank.admin("/ready");
      return status === 503 && body.includes("waiting for");
    });
    await expectRefused(pair.upstream);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
