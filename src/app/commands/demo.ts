/**
 * The demonstration mesh: `web` calls `db` through two sidecars in processes of their own, on the agent
 * in memory. Shows what to try and one line that lives.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { sleep, systemClock } from "../../base/mod.ts";
import {
  demoMeshState,
  type DevAgent,
  flipIntention,
  freePorts,
  portOf,
  probe,
  registerDemoMesh,
  startApp,
} from "../../dev/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { IS_COMPILED } from "../command_line/version.ts";

export interface DemoControl {
  readonly stop: () => void;
  readonly stopped: Promise<void>;
  readonly token: string | undefined;
}

/** A killed sidecar comes back after this, as under a supervisor. */
const RESTART_MS = 5_000;
const TICK_MS = 1_000;

export async function runDemo(agent: DevAgent, control: DemoControl): Promise<void> {
  // First who takes any port: it might be given one of those that are only meant to be taken.
  const db = await startApp("db");
  const [webPort = 0, webSidecar = 0, dbSidecar = 0, upstreamPort = 0] = await freePorts(4);
  registerDemoMesh(agent, {
    web: { port: webPort, sidecarPort: webSidecar },
    db: { port: portOf(db), sidecarPort: dbSidecar },
    upstreamPort,
  });
  const web = await startApp("web", webPort);
  const ending = new AbortController();
  const sidecars = ["web-1", "db-1"].map((id) => new Sidecar(id, agent, control.token));
  const url = `http://127.0.0.1:${upstreamPort}/`;
  try {
    for (const sidecar of sidecars) sidecar.start();
    await firstAnswer(url, control.stopped);
    process.stdout.write(introduction(agent, url, sidecars));
    listenForKeys(agent, sidecars, control.stop);
    const line = showStatus(agent, url, sidecars, ending.signal);
    await control.stopped;
    ending.abort();
    await line;
  } finally {
    process.stdout.write("\nStopping.\n");
    if (process.stdin.isTTY) process.stdin.setRawMode(false);
    process.stdin.pause();
    await Promise.all(sidecars.map((sidecar) => sidecar.stop()));
    db.close();
    web.close();
  }
}

function introduction(agent: DevAgent, url: string, sidecars: readonly Sidecar[]): string {
  const [web, db] = sidecars;
  const exact = `${agent.address}/v1/connect/intentions/exact?source=web&destination=db`;
  return `
A mesh of two services on an agent in memory (${agent.address}):

    you -> web's sidecar (pid ${web?.pid}) == mTLS ==> db's sidecar (pid ${db?.pid}) -> db

Try, in another terminal:
    curl ${url}
        asks db through both sidecars
    curl -X PUT '${exact}' -d '{"Action":"deny"}'
        flips the intention: db's sidecar refuses web from now on ("allow" flips it back)
    kill -9 ${db?.pid}
        kills db's sidecar; it is started again after ${RESTART_MS / 1_000} s
${
    process.stdin.isTTY
      ? "\nOr press i (intention), k (kill), q (quit). "
      : "\n"
  }Ctrl-C stops everything.

`;
}

/** One sidecar in a process of its own, started again when it dies. */
class Sidecar {
  readonly id: string;
  readonly #agent: DevAgent;
  readonly #token: string | undefined;
  #child: ChildProcess | undefined;
  #stopping = false;

  constructor(id: string, agent: DevAgent, token: string | undefined) {
    this.id = id;
    this.#agent = agent;
    this.#token = token;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  start(): void {
    const [command, ...args] = ownCommand();
    const child = spawn(
      command,
      [...args, "proxy", "-sidecar-for", this.id, "-log-level", "error"],
      {
        stdio: ["ignore", "ignore", "inherit"],
        env: {
          ...process.env,
          CONSUL_HTTP_ADDR: this.#agent.address,
          ...(this.#token !== undefined && { CONSUL_HTTP_TOKEN: this.#token }),
        },
        // Ctrl-C reaches the whole group of a terminal; these end when we say so.
        detached: true,
      },
    );
    this.#child = child;
    child.on("exit", () => {
      this.#child = undefined;
      if (!this.#stopping) systemClock.after(RESTART_MS, () => !this.#stopping && this.start());
    });
  }

  kill(): void {
    this.#child?.kill("SIGKILL");
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (!child) return;
    const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    // Twice: the second one ends it without waiting for open connections.
    child.kill("SIGTERM");
    child.kill("SIGTERM");
    const force = systemClock.after(2_000, () => child.kill("SIGKILL"));
    await gone;
    force.cancel();
  }
}

/** How to start this very program again. */
function ownCommand(): [string, ...string[]] {
  if (IS_COMPILED) return [process.execPath];
  const main = fileURLToPath(new URL("../../main.ts", import.meta.url));
  if (runtimeEngine().name.startsWith("deno")) return [process.execPath, "run", "-A", main];
  return [process.execPath, main];
}

async function firstAnswer(url: string, stopped: Promise<void>): Promise<void> {
  process.stdout.write("Starting the agent, two services and their sidecars ...\n");
  let given = false;
  stopped.then(() => given = true);
  for (let attempt = 0; attempt < 150 && !given; attempt++) {
    if ((await probe(url)).ok) return;
    await sleep(systemClock, 200);
  }
}

async function showStatus(
  agent: DevAgent,
  url: string,
  sidecars: readonly Sidecar[],
  signal: AbortSignal,
): Promise<void> {
  let last = "";
  while (!signal.aborted) {
    const answer = await probe(url);
    const { intention, services } = demoMeshState(agent);
    const health = sidecars.map(({ id, pid }) =>
      `${id} ${pid ? services.get(`${id}-sidecar-proxy`) ?? "unknown" : "killed"}`
    );
    const state = `web -> db: ${answer.ok ? "answered" : "refused"} | intention ${intention} | ${
      health.join(" | ")
    }`;
    if (process.stdout.isTTY) {
      const time = new Date(systemClock.now()).toLocaleTimeString();
      process.stdout.write(
        `\r\x1b[K${time}  web -> db: ${answer.text} | intention ${intention} | ${
          health.join(" | ")
        }`,
      );
    } else if (state !== last) {
      // Not a terminal: a line whenever something changes.
      process.stdout.write(`${state}\n`);
    }
    last = state;
    await sleep(systemClock, TICK_MS, { signal });
  }
}

function listenForKeys(agent: DevAgent, sidecars: readonly Sidecar[], stop: () => void): void {
  if (!process.stdin.isTTY) return;
  process.stdin.setRawMode(true);
  process.stdin.resume();
  process.stdin.on("data", (data: Uint8Array) => {
    switch (String.fromCharCode(data[0] ?? 0)) {
      case "i":
        flipIntention(agent, "web", "db");
        return;
      case "k":
        sidecars[1]?.kill();
        return;
      case "q":
      case "\u0003":
        stop();
    }
  });
}
