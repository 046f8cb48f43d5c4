/**
 * The init script with a stand-in for the program, which drains for as long as the test sets: the script
 * is under test.
 *
 * @module
 */

import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { eventually, Process } from "../kit/process/process.ts";

const SCRIPT = fileURLToPath(new URL("../../scripts/service/postern.init", import.meta.url));
const STAND_IN = `#!/bin/sh
[ "$1" = check ] && case "$*" in *-no-such-flag*) echo "postern: no such flag"; exit 2 ;; *) exit 0 ;; esac
trap 'echo draining >&2; [ -n "$NEVER_ENDS" ] || exit 0' TERM
trap 'echo reloading >&2' HUP
echo "args: $* token file: $CONSUL_HTTP_TOKEN_FILE" >&2
echo "an access log line"
while :; do sleep 0.05; done
`;

class Host {
  readonly directory: string;
  readonly #env: Record<string, string>;

  constructor(directory: string, stopSeconds: number) {
    this.directory = directory;
    this.#env = {
      POSTERN: join(directory, "postern"),
      POSTERN_CONFIG_DIR: join(directory, "etc"),
      POSTERN_RUN_DIR: join(directory, "run"),
      POSTERN_LOG_DIR: directory,
      POSTERN_STOP_SECONDS: String(stopSeconds),
      POSTERN_OPEN_FILES: "1024",
    };
  }

  async run(action: string): Promise<{ readonly code: number | null; readonly output: string }> {
    const script = new Process("/bin/sh", [SCRIPT, action], { env: this.#env });
    const { code } = await script.waitExit({ timeoutMs: 90_000 });
    return { code, output: script.output };
  }

  async pid(id: string): Promise<number> {
    return Number(await readFile(join(this.directory, "run", `${id}.pid`), "utf8"));
  }

  async logged(id: string, pattern: RegExp): Promise<void> {
    await eventually(
      `${pattern} in the log of ${id}`,
      async () => pattern.test(await readFile(join(this.directory, `postern-${id}.log`), "utf8")),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.run("stop");
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** `stopSeconds`: what one that does stop does not need, however slow the machine is. */
async function createHost(
  files: Readonly<Record<string, string>>,
  stopSeconds = 30,
): Promise<Host> {
  const directory = await mkdtemp(join(tmpdir(), "postern-init-"));
  await mkdir(join(directory, "etc"));
  await writeFile(join(directory, "postern"), STAND_IN);
  await chmod(join(directory, "postern"), 0o755);
  for (const [id, text] of Object.entries(files)) {
    await writeFile(join(directory, "etc", `${id}.env`), text);
  }
  return new Host(directory, stopSeconds);
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("the init script starts one proxy per file, once, and stops them", async () => {
  await using host = await createHost({
    "web-1": "CONSUL_HTTP_TOKEN_FILE=/etc/web.token\nPOSTERN_FLAGS='-log-json -workers 2'\n",
    "db-1": "",
  });
  assert.equal((await host.run("status")).code, 3);
  assert.equal((await host.run("start")).code, 0);
  await host.logged(
    "web-1",
    /^args: proxy -sidecar-for web-1 -log-json -workers 2 token file: \/etc\/web\.token$/m,
  );
  await host.logged("db-1", /^args: proxy -sidecar-for db-1 token file: $/m);
  const pid = await host.pid("web-1");
  const again = await host.run("start");
  assert.match(again.output, new RegExp(`web-1: runs already, process ${pid}`));
  assert.equal(await host.pid("web-1"), pid);
  assert.equal((await host.run("status")).code, 0);
  assert.equal((await host.run("reload")).code, 0);
  await host.logged("web-1", /reloading/);
  const log = await readFile(join(host.directory, "postern-web-1.log"), "utf8");
  assert.ok(!log.includes("an access log line"), "the access log has a file of its own");
  await host.logged("web-1.access", /^an access log line$/m);
  const stopped = await host.run("stop");
  assert.match(stopped.output, /web-1: stopped/);
  await host.logged("web-1", /draining/);
  await eventually("it is gone", () => !lives(pid));
  assert.equal((await host.run("status")).code, 3);
});

test("the init script ends a proxy that does not stop in time", async () => {
  await using host = await createHost({ "web-1": "NEVER_ENDS=1\n" }, 2);
  await host.run("start");
  await host.logged("web-1", /^args:/m);
  const pid = await host.pid("web-1");
  const { output } = await host.run("stop");
  assert.match(output, /web-1: ended after 2s/);
  await eventually("it is gone", () => !lives(pid));
});

test("the init script leaves a stranger alone that has the old process id", async () => {
  await using host = await createHost({ "web-1": "" });
  await mkdir(join(host.directory, "run"));
  await writeFile(join(host.directory, "run", "web-1.pid"), `${process.pid}\n`);
  assert.equal((await host.run("status")).code, 3);
  await host.run("stop");
  assert.ok(lives(process.pid));
});

test("the init script reports a usage error and starts nothing", async () => {
  await using host = await createHost({ "web-1": "POSTERN_FLAGS=-no-such-flag\n", "db-1": "" });
  const { code, output } = await host.run("start");
  assert.equal(code, 2);
  assert.match(output, /postern: no such flag\npostern web-1: cannot start/);
  assert.match(output, /postern db-1: started/);
  await host.logged("db-1", /^args:/m);
  await assert.rejects(host.pid("web-1"));
});

test("the init script prints its usage", async () => {
  await using host = await createHost({});
  const { code, output } = await host.run("sing");
  assert.equal(code, 2);
  assert.match(output, /Usage: .*start\|stop\|restart/);
});
