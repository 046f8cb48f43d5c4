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
import { eventually } from "../../kit/process/process.ts";
import { engine, Waiting } from "./kit.ts";

interface Report {
  readonly kind: "ready" | "paused" | "resumed" | "usage";
  readonly accepted: number;
  readonly cpuMs: number;
  readonly port?: number;
  readonly headroom?: number;
}

class Child extends Waiting implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly reports: Report[] = [];

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
      this.reports.push(JSON.parse(line));
      this.woken();
    });
  }

  async next(kind: Report["kind"], from = 0): Promise<Report> {
    const found = () => this.reports.slice(from).find((report) => report.kind === kind);
    await this.until(() => found() !== undefined, () => JSON.stringify(this.reports));
    const report = found();
    assert.ok(report);
    return report;
  }

  usage(): Promise<Report> {
    const from = this.reports.length;
    this.#process.stdin?.write("?\n");
    return this.next("usage", from);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const gone = new Promise<void>((resolve) => this.#process.once("exit", () => resolve()));
    this.#process.kill();
    await gone;
  }
}

interface Client {
  readonly socket: Socket;
  /** Resolves when it was served, with true, or closed. */
  readonly served: Promise<boolean>;
}

function openClient(port: number): Client {
  const socket = connect({ port, host: "127.0.0.1" });
  socket.on("error", () => {});
  const served = new Promise<boolean>((resolve) => {
    socket.once("data", () => resolve(true));
    socket.once("close", () => resolve(false));
  });
  socket.write("hello");
  return { socket, served };
}

const isPause = ({ kind }: Report) => kind === "paused";
const isChange = ({ kind }: Report) => kind === "paused" || kind === "resumed";

async function story(child: Child, open: (port: number) => Promise<Client[]>): Promise<void> {
  const { port = 0 } = await child.next("ready");
  const clients = await open(port);
  const paused = await child.next("paused");
  assert.ok((paused.headroom ?? 0) >= 0);
  // A runtime that spins takes all of each; one that still works off earlier events, of the first.
  const taken: number[] = [];
  while (!taken.some((ms) => ms < 150)) {
    assert.ok(taken.length < 5, `${taken.join()} ms of 400`);
    const before = await child.usage();
    await new Promise<void>((resolve) => systemClock.after(400, resolve));
    const after = await child.usage();
    taken.push(after.cpuMs - before.cpuMs);
    assert.ok(after.accepted < LIMIT);
  }
  for (const { socket } of clients) socket.destroy();
  await child.until(
    () => child.reports.findLast(isChange)?.kind === "resumed",
    () => JSON.stringify(child.reports),
  );
  // Clients that gave up in the kernel are still accepted, and may close the gate once more.
  await eventually("a late client is served", async () => {
    const late = openClient(port);
    const served = await late.served;
    late.socket.destroy();
    return served;
  });
}

const LIMIT = 120;

test("a listener pauses before descriptors run out, spins not, and goes on by itself", async () => {
  await using child = new Child(LIMIT);
  await story(child, async (port) => {
    const clients: Client[] = [];
    while (!child.reports.some(isPause)) {
      const client = openClient(port);
      clients.push(client);
      const pause = child.until(() => child.reports.some(isPause), () => "").catch(() => {});
      await Promise.race([client.served, pause]);
    }
    return clients;
  });
});

async function burst(): Promise<void> {
  await using child = new Child(LIMIT);
  await story(child, (port) => {
    return Promise.resolve(Array.from({ length: 300 }, () => openClient(port)));
  });
}

// Deno itself ends when a burst takes the last descriptor, before our code gets an error.
if (engine.name.startsWith("bun")) {
  test("a burst of clients does not use up the descriptors", burst);
}
