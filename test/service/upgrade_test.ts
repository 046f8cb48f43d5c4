/** `postern upgrade` of the executable under load, with a broken one in between. @module */

import assert from "node:assert/strict";
import { chmod, copyFile, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { promptly } from "../kit/clock/promptly.ts";
import { createFileSidecar, type FileSidecar } from "../kit/mesh/file_sidecar.ts";
import { posternCommand } from "../kit/process/postern.ts";
import { eventually, Process, runToEnd } from "../kit/process/process.ts";
import { assertFlawless, Load } from "../kit/wire/load.ts";

/** Another file under the name of the program, as an installation puts it there. */
async function install(from: string, to: string): Promise<void> {
  await copyFile(from, `${to}.new`);
  await chmod(`${to}.new`, 0o755);
  await rename(`${to}.new`, to);
}

async function upgrade(program: string, mesh: FileSidecar): Promise<string> {
  const admin = `${mesh.admin.host}:${mesh.admin.port}`;
  return await runToEnd(program, ["upgrade", "-admin", admin], { timeoutMs: 90_000 });
}

async function waitReady(mesh: FileSidecar): Promise<void> {
  await eventually("the proxy is ready", async () => await mesh.readyStatus() === 200, {
    timeoutMs: 60_000,
  });
}

/** Upgrades, one of them to a program that ends at once; returns the pids that served. */
async function upgradeUnderLoad(program: string, mesh: FileSidecar): Promise<readonly string[]> {
  const [executable = ""] = posternCommand();
  const load = new Load(mesh.upstream, { longLived: 0, shortLived: 8, pauseMs: 0 });
  await load.past(100);
  const pids = [];
  for (const kind of ["whole", "broken", "whole"] as const) {
    if (kind === "broken") {
      await writeFile(join(mesh.directory, "broken"), "#!/bin/sh\necho no >&2\nexit 3\n");
      await install(join(mesh.directory, "broken"), program);
      await assert.rejects(
        upgrade(executable, mesh),
        /which goes on serving: it ended before it asked for the sockets/,
      );
    } else {
      await install(executable, program);
      const [, next = ""] = /process (\d+) took over/.exec(await upgrade(program, mesh)) ?? [];
      pids.push(next);
    }
    assert.equal(await mesh.readyStatus(), 200);
    await load.past(load.result.exchanges + 100);
  }
  assertFlawless(await load.stop(), { atLeast: 400 });
  return pids;
}

test("supervisord keeps the process that it started while others take over, and its stop ends all", async () => {
  await using mesh = await createFileSidecar();
  const path = (name: string) => join(mesh.directory, name);
  const program = path("postern");
  await install(posternCommand()[0] ?? "", program);
  const config = path("supervisord.conf");
  const shipped = await readFile(
    new URL("../../scripts/service/postern.supervisord.conf", import.meta.url),
    "utf8",
  );
  const command = [program, ...mesh.args].join(" ");
  await writeFile(
    config,
    `[supervisord]
nodaemon=true
${process.getuid?.() === 0 ? "user=root" : ""}
logfile=${path("supervisord.log")}
pidfile=${path("supervisord.pid")}
childlogdir=${mesh.directory}
[unix_http_server]
file=${path("supervisor.sock")}
[supervisorctl]
serverurl=unix://${path("supervisor.sock")}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
${
      shipped.replace(/^command=.*$/m, `command=${command}`)
        .replace(/^(std\w+_logfile)=.*$/gm, `$1=${path("web.log")}`)
    }`,
  );
  await using _supervisord = new Process(peer("supervisord"), ["-c", config]);
  const control = (...words: readonly string[]) =>
    runToEnd(peer("supervisord").replace(/supervisord$/, "supervisorctl"), [
      "-c",
      config,
      ...words,
    ], { timeoutMs: 90_000 });
  try {
    await waitReady(mesh);
    const supervised = (await control("pid", "postern-web")).trim();
    const pids = await upgradeUnderLoad(program, mesh);
    assert.equal(new Set([...pids, supervised]).size, 3);
    assert.equal((await control("pid", "postern-web")).trim(), supervised);
    assert.match(await control("status"), /RUNNING/);
    await promptly("it is stopped", 10_000, async () => {
      const begun = performance.now();
      await control("stop", "postern-web");
      await eventually("nothing serves", async () => await mesh.readyStatus() === 0);
      return performance.now() - begun;
    });
  } catch (error) {
    const log = await readFile(path("web.log"), "utf8").catch(() => "");
    throw new Error(`${error}\n${log.slice(-5_000)}`, { cause: error });
  }
});
