/**
 * With few descriptors: accepting pauses before they are gone, nothing spins, and it goes on by itself
 * when clients leave.
 *
 * @module
 */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { connect, type Socket } from "node:net";
import process from "node:process";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../../src/base/mod.ts";
import { engine, Waiting } from "./kit.ts";

interface Told {
  readonly kind: "ready" | "paused" | "resumed" | "usage";
  readonly accepted: number;
  readonly cpuMs: number;
  readonly port?: number;
  readonly headroom?: number;
}

class Child extends Waiting implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly told: Told[] = [];

  constructor(limit: number) {
    super();
    const script = fileURLToPath(new URL("descriptors_child.ts", import.meta.url));
    const runtime = engine.name.startsWith("bun") ? [] : ["run", "-A", "--no-check"];
    const command = `ulimit -n ${limit}; exec "$@"`;
    this.#process = spawn("bash", ["-c", command, "-", process.execPath, ...runtime, script], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const { stdout } = this.#process;
    assert.ok(stdout);
    createInterface({ input: stdout }).on("line", (line) => {
      this.told.push(JSON.parse(line));
      this.woken();
    });
  }

  async next(kind: Told["kind"], from = 0): Promise<Told> {
    const found = () => this.told.slice(from).find((told) => told.kind === kind);
    await this.until(() => found() !== undefined, () => JSON.stringify(this.told));
    const told = found();
    assert.ok(told);
    return told;
  }

  usage(): Promise<Told> {
    const from = this.told.length;
    this.#process.stdin?.write("?\n");
    return this.next("usage", from);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const gone = new Promise<void>((resolve) => this.#process.once("exit", () => resolve()));
    this.#process.kill();
    await gone;
  }
}

test("a listener pauses before descriptors run out, spins not, and goes on by itself", async () => {
  await using child = new Child(80);
  const { port = 0 } = await child.next("ready");
  const clients: Socket[] = [];
  const open = () => {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.on("error", () => {});
    socket.resume();
    clients.push(socket);
    return socket;
  };
  for (let index = 0; index < 200; index++) open();
  const paused = await child.next("paused");
  assert.ok((paused.headroom ?? 0) >= 0);
  const before = await child.usage();
  await new Promise<void>((resolve) => systemClock.after(400, resolve));
  const after = await child.usage();
  // A runtime that spins takes all of it.
  assert.ok(after.cpuMs - before.cpuMs < 150, `${after.cpuMs - before.cpuMs} ms of 400`);
  assert.ok(after.accepted < 80);
  for (const client of clients.splice(0)) client.destroy();
  // Where clients cannot wait they were refused, and it went on already.
  const last = () => child.told.findLast(({ kind }) => kind === "paused" || kind === "resumed");
  await child.until(() => last()?.kind === "resumed", () => JSON.stringify(child.told));
  const late = open();
  late.write("hello");
  const answer = await new Promise<Uint8Array>((resolve) => late.once("data", resolve));
  assert.equal(String(answer), "hello");
  for (const client of clients) client.destroy();
});
