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
  DevServers,
  flipIntention,
  freePorts,
  portOf,
  type Probe,
  probe,
  registerDemoMesh,
  startApp,
} from "../../dev/mod.ts";
import { proxyFlags } from "./dev_servers.ts";
import { RESTART_MS, Sidecar } from "./sidecar_process.ts";

export interface DemoControl {
  readonly stop: () => void;
  readonly stopped: Promise<void>;
  readonly token: string | undefined;
}

const TICK_MS = 1_000;
/** Longer than an election takes, so that one can watch it. */
const SERVER_RESTART_MS = 10_000;

export async function runDemo(
  consul: DevAgent | DevServers,
  control: DemoControl,
): Promise<void> {
  // First who takes any port: it might be given one of those that are only meant to be taken.
  const api = await startApp("api");
  const [webPort = 0, webSidecar = 0, apiSidecar = 0, upstreamPort = 0] = await freePorts(4);
  registerDemoMesh(consul, {
    web: { port: webPort, sidecarPort: webSidecar },
    api: { port: portOf(api), sidecarPort: apiSidecar },
    upstreamPort,
  });
  const web = await startApp("web", webPort);
  const ending = new AbortController();
  const servers = consul instanceof DevServers ? consul : undefined;
  const agent = consul instanceof DevServers ? undefined : consul.address;
  const args = servers ? [...proxyFlags(servers), "-node", servers.node] : [];
  const sidecars = ["web-1", "api-1"].map((id) =>
    new Sidecar(id, agent, { token: control.token, args })
  );
  const url = `http://127.0.0.1:${upstreamPort}/`;
  try {
    for (const sidecar of sidecars) sidecar.start();
    await firstAnswer(url, control.stopped);
    process.stdout.write(introduction(consul, url, sidecars));
    listenForKeys(consul, sidecars, control.stop);
    const line = showStatus(consul, url, sidecars, ending.signal);
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

function introduction(
  consul: DevAgent | DevServers,
  url: string,
  sidecars: readonly Sidecar[],
): string {
  const [web, api] = sidecars;
  const servers = consul instanceof DevServers ? consul : undefined;
  const exact = `${consul.address}/v1/connect/intentions/exact?source=web&destination=api`;
  const { allow, permissions, deny } = DEMO_INTENTIONS;
  return `
A mesh of two services on ${
    servers ? `${servers.hosts.length} servers in memory, without an agent` : "an agent in memory"
  } (${consul.address}):

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
      ? `\nOr press i (the next of these intentions), k (kill), ${
        servers
          ? `l (kill the server that leads; it is back after ${SERVER_RESTART_MS / 1_000} s), `
          : ""
      }q (quit). `
      : "\n"
  }Ctrl-C stops everything.

`;
}

async function firstAnswer(url: string, stopped: Promise<void>): Promise<void> {
  process.stdout.write("Starting two services and their sidecars ...\n");
  let given = false;
  stopped.then(() => given = true);
  for (let attempt = 0; attempt < 150 && !given; attempt++) {
    if ((await probe(url)).status === 200) return;
    await sleep(systemClock, 200);
  }
}

async function showStatus(
  consul: DevAgent | DevServers,
  url: string,
  sidecars: readonly Sidecar[],
  signal: AbortSignal,
): Promise<void> {
  let last = "";
  while (!signal.aborted) {
    const [reads, writes] = await Promise.all([probe(url), probe(url, "POST")]);
    const { intention, services } = demoMeshState(consul);
    const health = sidecars.map(({ id, pid }) =>
      `${id} ${pid ? services.get(`${id}-sidecar-proxy`) ?? "unknown" : "killed"}`
    );
    const line = (shown: (probe: Probe) => string) =>
      [
        `web -> api: GET ${shown(reads)}, POST ${shown(writes)}`,
        `intention ${intention}`,
        ...health,
        ...consul instanceof DevServers ? [serversText(consul)] : [],
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

/** Each by its number: the one that leads, and those that do not run. */
function serversText(servers: DevServers): string {
  const shown = servers.hosts.map((_host, server) =>
    servers.stateOf(server) !== "running" ? "dead" : servers.leader === server ? "leads" : "follows"
  );
  return `servers ${shown.join(", ")}`;
}

/** Nobody in the mesh should notice. */
function killLeader(servers: DevServers): void {
  const { leader } = servers;
  if (leader === undefined) return;
  servers.kill(leader);
  systemClock.after(SERVER_RESTART_MS, () => {
    if (!servers.closed) void servers.restart(leader, { empty: true });
  });
}

function listenForKeys(
  consul: DevAgent | DevServers,
  sidecars: readonly Sidecar[],
  stop: () => void,
): void {
  if (!process.stdin.isTTY) return;
  process.stdin.setRawMode(true);
  process.stdin.resume();
  process.stdin.on("data", (data: Uint8Array) => {
    switch (String.fromCharCode(data[0] ?? 0)) {
      case "i":
        flipIntention(consul);
        return;
      case "k":
        sidecars[1]?.kill();
        return;
      case "l":
        if (consul instanceof DevServers) killLeader(consul);
        return;
      case "q":
      case "\u0003":
        stop();
    }
  });
}
