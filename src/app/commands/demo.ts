/**
 * The demonstration mesh: `web` calls `api` over HTTP through two sidecars in processes of their own, on the agent
 * in memory. Shows what to try and one line that lives.
 *
 * @module
 */

import process from "node:process";
import { sleep, systemClock } from "../../base/mod.ts";
import {
  DEMO_INTENTIONS,
  demoMeshState,
  type DevAgent,
  flipIntention,
  freePorts,
  portOf,
  type Probe,
  probe,
  registerDemoMesh,
  startApp,
} from "../../dev/mod.ts";
import { RESTART_MS, Sidecar } from "./sidecar_process.ts";

export interface DemoControl {
  readonly stop: () => void;
  readonly stopped: Promise<void>;
  readonly token: string | undefined;
}

const TICK_MS = 1_000;

export async function runDemo(agent: DevAgent, control: DemoControl): Promise<void> {
  // First who takes any port: it might be given one of those that are only meant to be taken.
  const api = await startApp("api");
  const [webPort = 0, webSidecar = 0, apiSidecar = 0, upstreamPort = 0] = await freePorts(4);
  registerDemoMesh(agent, {
    web: { port: webPort, sidecarPort: webSidecar },
    api: { port: portOf(api), sidecarPort: apiSidecar },
    upstreamPort,
  });
  const web = await startApp("web", webPort);
  const ending = new AbortController();
  const sidecars = ["web-1", "api-1"].map((id) =>
    new Sidecar(id, agent.address, { token: control.token })
  );
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
    for (const app of [api, web]) {
      app.close();
      app.closeAllConnections();
    }
  }
}

function introduction(agent: DevAgent, url: string, sidecars: readonly Sidecar[]): string {
  const [web, api] = sidecars;
  const exact = `${agent.address}/v1/connect/intentions/exact?source=web&destination=api`;
  const { allow, permissions, deny } = DEMO_INTENTIONS;
  return `
A mesh of two services on an agent in memory (${agent.address}):

    you -> web's sidecar (pid ${web?.pid}) == mTLS ==> api's sidecar (pid ${api?.pid}) -> api

Try, in another terminal:
    curl ${url}orders
    curl -X POST ${url}orders
        ask api through both sidecars
    curl -X PUT '${exact}' -d '${JSON.stringify(permissions)}'
        lets web read and no more, from its next request on, also of connections that are open
    curl -X PUT '${exact}' -d '${JSON.stringify(deny)}'
        lets web do nothing; '${JSON.stringify(allow)}' lets it do everything again
    kill -9 ${api?.pid}
        kills api's sidecar; it is started again after ${RESTART_MS / 1_000} s
${
    process.stdin.isTTY
      ? "\nOr press i (the next of these intentions), k (kill), q (quit). "
      : "\n"
  }Ctrl-C stops everything.

`;
}

async function firstAnswer(url: string, stopped: Promise<void>): Promise<void> {
  process.stdout.write("Starting the agent, two services and their sidecars ...\n");
  let given = false;
  stopped.then(() => given = true);
  for (let attempt = 0; attempt < 150 && !given; attempt++) {
    if ((await probe(url)).status === 200) return;
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
    const [reads, writes] = await Promise.all([probe(url), probe(url, "POST")]);
    const { intention, services } = demoMeshState(agent);
    const health = sidecars.map(({ id, pid }) =>
      `${id} ${pid ? services.get(`${id}-sidecar-proxy`) ?? "unknown" : "killed"}`
    );
    const line = (shown: (probe: Probe) => string) =>
      [
        `web -> api: GET ${shown(reads)}, POST ${shown(writes)}`,
        `intention ${intention}`,
        ...health,
      ].join(" | ");
    const state = line(({ status }) => status === 0 ? "no answer" : String(status));
    if (process.stdout.isTTY) {
      const time = new Date(systemClock.now()).toLocaleTimeString();
      process.stdout.write(`\r\x1b[K${time}  ${line(({ text }) => text)}`);
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
        flipIntention(agent);
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
