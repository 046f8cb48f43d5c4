/** The program that `scripts/service` has for supervisord, under the real one. @module */

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { parseCommand } from "../../src/app/command_line/args.ts";
import { createFileSidecar, type FileSidecar } from "../kit/mesh/file_sidecar.ts";
import { peer } from "../../scripts/peers.ts";
import { EchoClient, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { posternCommand } from "../kit/process/postern.ts";
import { eventually, Process, runToEnd } from "../kit/process/process.ts";
import { promptly } from "../kit/clock/promptly.ts";

const PROGRAM = "postern-web";
const SHIPPED = new URL("../../scripts/service/postern.supervisord.conf", import.meta.url);
/** A program that ends with 1 at once, under the same settings. */
const FAILING = "failing";
const ENDED_BY_ITSELF = /stopped: postern-web \(exit status 0\)/;
const HELLO = new TextEncoder().encode("hello");

/**
 * The shipped file with another command and log, and the sections that a supervisord of its own needs.
 */
async function startSupervisord(
  mesh: FileSidecar,
  ...flags: readonly string[]
): Promise<Process> {
  const command = [...posternCommand(), ...mesh.args, ...flags].join(" ");
  const shipped = await readFile(SHIPPED, "utf8");
  const programOf = (name: string, command: string) => {
    const program = shipped
      .replace(`[program:${PROGRAM}]`, `[program:${name}]`)
      .replace(/^command=.*$/m, `command=${command}`)
      .replace(/^stdout_logfile=.*$/m, `stdout_logfile=${mesh.directory}/${name}.access.log`)
      .replace(/^stderr_logfile=.*$/m, `stderr_logfile=${mesh.directory}/${name}.log`);
    assert.ok([`:${name}]`, command, mesh.directory].every((part) => program.includes(part)));
    return program;
  };
  const config = join(mesh.directory, "supervisord.conf");
  const socket = join(mesh.directory, "supervisor.sock");
  await writeFile(
    config,
    `[supervisord]
nodaemon=true
${process.getuid?.() === 0 ? "user=root" : ""}
logfile=${mesh.directory}/supervisord.log
pidfile=${mesh.directory}/supervisord.pid
childlogdir=${mesh.directory}
[unix_http_server]
file=${socket}
[supervisorctl]
serverurl=unix://${socket}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
${programOf(PROGRAM, command)}
${programOf(FAILING, '/bin/sh -c "exit 1"')}
`,
  );
  return new Process(peer("supervisord"), ["-c", config], { name: "supervisord" });
}

function control(mesh: FileSidecar, ...words: readonly string[]): Promise<string> {
  const program = peer("supervisord").replace(/supervisord$/, "supervisorctl");
  const config = join(mesh.directory, "supervisord.conf");
  return runToEnd(program, ["-c", config, ...words], { timeoutMs: 90_000 });
}

async function pidOf(mesh: FileSidecar): Promise<number> {
  return Number((await control(mesh, "pid", PROGRAM)).trim());
}

async function waitReady(mesh: FileSidecar): Promise<void> {
  await eventually("the proxy is ready", async () => await mesh.readyStatus() === 200, {
    timeoutMs: 60_000,
  });
}

async function withLog<T>(mesh: FileSidecar, story: () => Promise<T>): Promise<T> {
  try {
    return await story();
  } catch (error) {
    const read = (name: string) => readFile(join(mesh.directory, name), "utf8").catch(() => "");
    const logs = `${await read("supervisord.log")}\n${await read(`${PROGRAM}.log`)}`;
    throw new Error(`${error instanceof Error ? error.message : error}\n${logs}`, { cause: error });
  }
}

test("supervisord starts the proxy, and restarts one that was killed", async () => {
  await using mesh = await createFileSidecar();
  await using _supervisord = await startSupervisord(mesh);
  await withLog(mesh, async () => {
    await waitReady(mesh);
    await waitForEcho(mesh.upstream);
    const first = await pidOf(mesh);
    assert.ok(first > 1);
    process.kill(first, "SIGKILL");
    const second = await eventually("another process", async () => {
      const pid = await pidOf(mesh);
      return pid > 1 && pid !== first && pid;
    });
    await waitReady(mesh);
    await waitForEcho(mesh.upstream);
    assert.equal(await pidOf(mesh), second);
  });
});

test("supervisord's stop lets an open connection finish, and the proxy ends with 0", async () => {
  // When it has nothing to wait for, it does not wait for its deadline either.
  await promptly("it is stopped", 5_000, async () => {
    await using mesh = await createFileSidecar();
    await using supervisord = await startSupervisord(mesh);
    return await withLog(mesh, async () => {
      await waitReady(mesh);
      await waitForEcho(mesh.upstream);
      const open = await EchoClient.open(mesh.upstream);
      await open.exchange(HELLO);
      const stopped = control(mesh, "stop", PROGRAM);
      await eventually("it drains", async () => await mesh.readyStatus() !== 200);
      await waitForRefusal(mesh.upstream);
      assert.equal(open.isOver, false, "the open connection lives on");
      await open.exchange(HELLO);
      await open.finish();
      const finishedMs = performance.now();
      await stopped;
      const tookMs = performance.now() - finishedMs;
      await supervisord.waitFor(ENDED_BY_ITSELF, { timeoutMs: 30_000 });
      assert.doesNotMatch(supervisord.output, /SIGKILL/);
      return tookMs;
    });
  });
});

test("supervisord's stop ends a connection that never does, before it would kill", async () => {
  const command = parseCommand(["proxy", "-sidecar-for", "web"], {});
  assert.ok(command.kind === "proxy");
  const stopSeconds = Number((await readFile(SHIPPED, "utf8")).match(/^stopwaitsecs=(\d+)$/m)?.[1]);
  assert.ok(
    command.options.drainTimeoutMs <= (stopSeconds - 2) * 1_000,
    "by default it would be killed",
  );
  // Seconds before that, as a machine may stop for two.
  await using mesh = await createFileSidecar();
  await using supervisord = await startSupervisord(mesh, "-drain-timeout", "3s");
  await withLog(mesh, async () => {
    await waitReady(mesh);
    await waitForEcho(mesh.upstream);
    const open = await EchoClient.open(mesh.upstream);
    await open.exchange(HELLO);
    await control(mesh, "stop", PROGRAM);
    await open.over;
    await supervisord.waitFor(ENDED_BY_ITSELF, { timeoutMs: 30_000 });
    assert.doesNotMatch(supervisord.output, /SIGKILL/);
  });
});

test("supervisord restarts a failed process, and not one with a usage error", async () => {
  await using mesh = await createFileSidecar();
  await using supervisord = await startSupervisord(mesh, "-no-such-flag");
  await withLog(mesh, async () => {
    await supervisord.waitFor(/exited: postern-web \(exit status 2; expected\)/, {
      timeoutMs: 30_000,
    });
    const spawned = (name: string) => supervisord.output.split(`spawned: '${name}'`).length - 1;
    const before = spawned(FAILING);
    await eventually("the other is started again and again", () => spawned(FAILING) >= before + 2);
    assert.equal(spawned(PROGRAM), 1);
    assert.match(await readFile(join(mesh.directory, `${PROGRAM}.log`), "utf8"), /-no-such-flag/);
  });
});
