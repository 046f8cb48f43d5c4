import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { type Postern, runPostern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";
import { waitForEcho } from "../../kit/wire/echo.ts";

interface Shown {
  readonly seq: number;
  readonly text: string;
  readonly severity: string;
  readonly earlier: boolean;
}

/** Oldest first. */
async function eventsOf(postern: Postern): Promise<readonly Shown[]> {
  return JSON.parse((await postern.admin("/events")).body).events.toReversed();
}

test("events survive a restart under -state-dir, and the restart is one", async () => {
  await using mesh = await createFileSidecar();
  const args = [...mesh.args, "-state-dir", join(mesh.directory, "state")];
  const file = join(mesh.directory, "web.json");
  const good = JSON.parse(await readFile(file, "utf8"));
  const isStarted = /^started, version [\d.]+/;
  {
    await using web = runPostern(args);
    await web.waitReady();
    await writeFile(
      file,
      JSON.stringify({ ...good, intentions: [{ source: "web", action: "deny" }] }),
    );
    web.kill("SIGHUP");
    await eventually("the denial is an event", async () => {
      return (await eventsOf(web)).some(({ text }) => /from allow to deny$/.test(text));
    });
    assert.equal((await web.stop()).code, 0);
  }
  await writeFile(file, JSON.stringify(good));
  {
    await using web = runPostern(args);
    await web.waitReady();
    const events = await eventsOf(web);
    const [restart] = events.filter(({ earlier }) => !earlier);
    assert.match(restart?.text ?? "", /^started, version \S+; the earlier process ended at 20/);
    const earlier = events.filter((event) => event.earlier).map(({ text }) => text);
    assert.match(earlier[0] ?? "", isStarted);
    assert.ok(earlier.some((text) => /from allow to deny$/.test(text)), earlier.join("\n"));
    assert.deepEqual(events.map(({ seq }) => seq), events.map((_, at) => at + 1));
    web.kill("SIGKILL");
    await web.process.exited;
  }
  await using web = runPostern(args);
  await web.waitReady();
  const [restart] = (await eventsOf(web)).filter(({ earlier }) => !earlier);
  assert.match(restart?.text ?? "", /; the earlier process did not end in order: /);
  assert.equal(restart?.severity, "warn");
});

test("a -state-dir that cannot be used costs one line about events, and no traffic", async () => {
  await using mesh = await createFileSidecar();
  const path = join(mesh.directory, "state");
  await writeFile(path, "a file");
  await using web = runPostern([...mesh.args, "-state-dir", path]);
  await web.waitReady();
  await web.process.waitFor(/\[WARN\] +events not stored/, { timeoutMs: 20_000 });
  await waitForEcho(mesh.upstream);
  assert.match((await eventsOf(web))[0]?.text ?? "", /^started/);
  await web.stop();
  assert.equal(web.output.match(/events not stored/g)?.length, 1, web.output);
});
