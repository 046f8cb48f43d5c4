/** The demonstration mesh: `web` calls `api` through two sidecar processes. @module */

import process from "node:process";
import { sleep, systemClock } from "../../base/mod.ts";
import {
  DEMO_INTENTIONS,
  demoMeshState,
  flipIntention,
  freePorts,
  type Probe,
  probe,
  registerDemoMesh,
  startApp,
  type World,
} from "../../dev/mod.ts";
import { RESTART_MS, Sidecar } from "./sidecar_process.ts";

interface DemoConsul {
  readonly world: World;
  /** `http://127.0.0.1:PORT`, for the commands to try. */
  readonly address: string;
  /** `an agent in memory`. */
  readonly name: string;
  /** URL of the sidecars' agent; `undefined`: `sidecarArgs` name the servers. */
  readonly agent?: string;
  readonly sidecarArgs?: readonly string[];
  /** A further part of the status line. */
  readonly status?: () => string;
  /** A further key, beside those of the demo. */
  readonly key?: DemoKey;
}

interface DemoKey {
  readonly letter: string;
  readonly does: string;
  press(): void;
}

interface DemoControl {
  readonly stop: () => void;
  readonly stopped: Promise<void>;
  readonly token: string | undefined;
}

const TICK_MS = 1_000;
const FIRST_ANSWER_TRIES = 150;

export async function runDemo(consul: DemoConsul, control: DemoControl): Promise<void> {
  // First, since it takes any free port and could get one of the reserved ports.
  const api = await startApp("api");
  const [webPort = 0, webSidecar = 0, apiSidecar = 0, upstreamPort = 0] = await freePorts(4);
  registerDemoMesh(consul.world, {
    web: { port: webPort, sidecarPort: webSidecar },
    api: { port: api.port, sidecarPort: apiSidecar },
    upstreamPort,
  });
  const web = await startApp("web", webPort);
  const ending = new AbortController();
  const sidecars = ["web-1", "api-1"].map((id) =>
    new Sidecar(id, consul.agent, { token: control.token, args: consul.sidecarArgs ?? [] })
  );
  const url = `http://127.0.0.1:${upstreamPort}/`;
  try {
    for (const sidecar of sidecars) sidecar.start();
    await firstAnswer(url, control.stopped);
    process.stdout.write(introduction(consul, url, sidecars));
    listenForKeys(consul, sidecars, control.stop);
    const line = showStatus(consul, { url, sidecars, signal: ending.signal });
    await control.stopped;
    ending.abort();
    await line;
  } finally {
    process.stdout.write("\nStopping.\n");
    if (process.stdin.isTTY) process.stdin.setRawMode(false);
    process.stdin.pause();
    await Promise.all(sidecars.map((sidecar) => sidecar.stop()));
    for (const app of [api, web]) app.stop();
  }
}

function introduction(
  { address, name, key }: DemoConsul,
  url: string,
  [web, api]: readonly Sidecar[],
): string {
  const exact = `${address}/v1/connect/intentions/exact?source=web&destination=api`;
  const { allow, permissions, deny } = DEMO_INTENTIONS;
  const keys = [
    "i (the next of these intentions)",
    "k (kill)",
    ...key ? [`${key.letter} (${key.does})`] : [],
    "q (quit)",
  ];
  return `
A mesh of two services on ${name} (${address}):

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
    postern status
        shows both sidecars, and the address of each dashboard
    postern events -sidecar-for api-1 -follow
        shows what each change does
${process.stdin.isTTY ? `\nOr press ${keys.join(", ")}. ` : "\n"}Ctrl-C stops everything.

`;
}

async function firstAnswer(url: string, stopped: Promise<void>): Promise<void> {
  process.stdout.write("Starting two services and their sidecars ...\n");
  let isStopped = false;
  void stopped.then(() => isStopped = true);
  for (let tried = 0; tried < FIRST_ANSWER_TRIES && !isStopped; tried++) {
    if ((await probe(url)).status === 200) return;
    await sleep(systemClock, 200);
  }
}

async function showStatus(
  consul: DemoConsul,
  { url, sidecars, signal }: {
    readonly url: string;
    readonly sidecars: readonly Sidecar[];
    readonly signal: AbortSignal;
  },
): Promise<void> {
  let last = "";
  while (!signal.aborted) {
    const [reads, writes] = await Promise.all([probe(url), probe(url, "POST")]);
    const { intention, services } = demoMeshState(consul.world);
    const health = sidecars.map(({ id, pid }) =>
      `${id} ${pid ? services.get(`${id}-sidecar-proxy`) ?? "unknown" : "killed"}`
    );
    const line = (shown: (probe: Probe) => string) =>
      [
        `web -> api: GET ${shown(reads)}, POST ${shown(writes)}`,
        `intention ${intention}`,
        ...health,
        ...consul.status ? [consul.status()] : [],
      ].join(" | ");
    const state = line(({ status }) => status === 0 ? "no answer" : String(status));
    if (process.stdout.isTTY) {
      const time = new Date(systemClock.now()).toLocaleTimeString();
      process.stdout.write(`\r\x1b[K${time}  ${line(({ text }) => text)}`);
    } else if (state !== last) {
      // Without a terminal, each change writes a line.
      process.stdout.write(`${state}\n`);
    }
    last = state;
    await sleep(systemClock, TICK_MS, { signal });
  }
}

function listenForKeys(
  { world, key }: DemoConsul,
  sidecars: readonly Sidecar[],
  stop: () => void,
): void {
  if (!process.stdin.isTTY) return;
  process.stdin.setRawMode(true);
  process.stdin.resume();
  process.stdin.on("data", (data: Uint8Array) => {
    const pressed = String.fromCharCode(data[0] ?? 0);
    if (pressed === "i") flipIntention(world);
    else if (pressed === "k") sidecars[1]?.kill();
    else if (pressed === "q" || pressed === "\u0003") stop();
    else if (pressed === key?.letter) key.press();
  });
}
