import assert from "node:assert/strict";
import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { EchoClient, pattern, type Place } from "../../kit/wire/echo.ts";
import { createFileSidecar, type FileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { OWN_ENGINE, type Postern, startPostern } from "../../kit/process/postern.ts";
import { eventually, runToEnd } from "../../kit/process/process.ts";

/** Callers without TLS in one round. */
const STRANGERS = 30;
const CALLERS = 20;
/** At most; a log of which every line is written needs no more to be full. */
const ROUNDS = 60;

for (const workers of [1, 0]) {
  test(`a log reader that stalls costs lines, no request (-workers ${workers})`, async (t) => {
    await using mesh = await createFileSidecar();
    using log = await StalledLog.create(mesh);
    await using postern = log.start(mesh, ["-workers", String(workers)]);
    await postern.waitReady();
    log.fill();

    const figures = { strangers: 0, requests: 0, failed: 0 };
    const request = async (client: EchoClient) => {
      figures.requests++;
      await client.exchange(pattern(figures.requests, 1_000)).catch(() => figures.failed++);
    };
    const call = async () => {
      const client = await EchoClient.open(mesh.upstream);
      await request(client);
      await client.finish().catch(() => figures.failed++);
    };
    const open = await EchoClient.open(mesh.upstream);
    const dropped = () => postern.metric("postern_log_lines_dropped_total");
    for (let round = 0; round < ROUNDS && await dropped() === 0; round++) {
      await Promise.all(Array.from({ length: STRANGERS }, () => stranger(mesh.inbound)));
      figures.strangers += STRANGERS;
      await Promise.all([request(open), ...Array.from({ length: CALLERS }, call)]);
      assert.equal(figures.failed, 0, JSON.stringify(figures));
    }
    assert.ok(await dropped() > 0, `nothing was dropped: ${JSON.stringify(figures)}`);
    for (const path of ["/live", "/ready"]) assert.equal((await postern.admin(path)).status, 200);

    // The pipe is read again: lost lines are logged, with the same count.
    const [, said] = await log.readUntil(/log lines lost lines=(\d+) /);
    assert.equal(Number(said), await dropped());
    t.diagnostic(JSON.stringify({ ...figures, lines_lost: Number(said) }));
    await call();
    await log.readUntil(/connection ended/);

    await open.finish();
    // A stop does not need a reader either.
    log.fill();
    const exit = await postern.stop();
    assert.equal(exit.code, 0);
  });
}

test("the last lines are written where the output is read", async () => {
  await using mesh = await createFileSidecar();
  using log = await StalledLog.create(mesh);
  await using postern = log.start(mesh, []);
  await postern.waitReady();
  await postern.stop();
  await log.readUntil(/stopped\n$/);
});

/** A pipe as standard error that is not read until the test asks for it. */
class StalledLog implements Disposable {
  readonly #path: string;
  readonly #fd: number;
  readonly #buffer = new Uint8Array(65_536);

  private constructor(path: string) {
    this.#path = path;
    this.#fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  }

  static async create({ directory }: FileSidecar): Promise<StalledLog> {
    const path = join(directory, "log");
    await runToEnd("mkfifo", [path], { timeoutMs: 5_000 });
    return new StalledLog(path);
  }

  start(mesh: FileSidecar, args: readonly string[]): Postern {
    return startPostern([...mesh.args, ...args], {
      engine: OWN_ENGINE,
      under: ["sh", "-c", `exec "$@" 2> "${this.#path}"`, "sh"],
      adminAddress: `${mesh.admin.host}:${mesh.admin.port}`,
    });
  }

  /** Leaves no room. */
  fill(): void {
    const line = new TextEncoder().encode(`${"-".repeat(4_095)}\n`);
    while (!this.#waits(() => writeSync(this.#fd, line)));
  }

  readUntil(pattern: RegExp): Promise<RegExpMatchArray> {
    let text = "";
    return eventually(`${pattern} in the log`, () => {
      while (
        !this.#waits(() => {
          const length = readSync(this.#fd, this.#buffer);
          text += new TextDecoder().decode(this.#buffer.subarray(0, length));
        })
      );
      const found = text.match(pattern);
      if (!found) throw new Error(text.slice(-3_000));
      return found;
    });
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd);
  }

  #waits(action: () => void): boolean {
    try {
      action();
      return false;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EAGAIN") return true;
      throw error;
    }
  }
}

/** Sends bytes that are no TLS, and resolves once the server closes. */
function stranger({ host, port }: Place): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port }, () => socket.write("garbage\r\n\r\n"));
    socket.setTimeout(10_000, () => reject(new Error("a stranger was neither served nor refused")));
    socket.on("data", () => {});
    socket.on("error", () => resolve());
    socket.on("close", () => resolve());
  });
}
