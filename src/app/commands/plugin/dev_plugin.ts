/**
 * `postern plugin dev`: a mesh on this machine with the plugin in it, loaded anew whenever it is saved, and
 * what it does to each request.
 *
 * @module
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { silentLog, sleep, systemClock, systemRandom } from "../../../base/mod.ts";
import { freePorts, probe, registerDemoMesh, startApp, startDevAgent } from "../../../dev/mod.ts";
import { onSignals } from "../../process/signals.ts";
import { Sidecar } from "../sidecar_process.ts";
import { toldOf } from "./dev_lines.ts";
import { shown, type Write } from "./plugin_files.ts";
import watchedText from "./watched_plugin.ts" with { type: "text" };

interface DevPluginOptions {
  readonly file: string;
  /** The plugin's. */
  readonly config: unknown;
  readonly write: Write;
  /** Resolves when it shall end. */
  readonly stopped: Promise<void>;
}

const PROBE_PAUSE_MS = 100;
const MAX_PROBES = 50;

/** Runs until a signal; the exit code. */
export async function runDevPlugin(file: string, config: unknown, write: Write): Promise<number> {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const signals = onSignals({ stop, stopNow: () => {}, reload: () => {} });
  await devPlugin({ file, config, write, stopped }).finally(() => signals.off());
  return 0;
}

async function devPlugin({ file, config, write, stopped }: DevPluginOptions): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const watched = await writeWatched(resolve(file), stack);
  const agent = await startDevAgent({ clock: systemClock, random: systemRandom, log: silentLog });
  stack.defer(() => agent.close());
  const api = await startApp("api");
  stack.defer(() => api.stop());
  const [web = 0, webSidecar = 0, apiSidecar = 0, upstreamPort = 0] = await freePorts(4);
  // The runtime's own are among them, and nothing that can be allowed.
  const allow = builtinModules.filter((name) => !name.includes(":") && name !== "bun")
    .map((name) => `node:${name}`);
  registerDemoMesh(agent.world, {
    web: { port: web, sidecarPort: webSidecar },
    api: {
      port: api.port,
      sidecarPort: apiSidecar,
      proxyConfig: { postern_plugins: [{ use: watched, config, allow }] },
    },
    upstreamPort,
  });
  const url = `http://127.0.0.1:${upstreamPort}/`;
  const view = new View(shown(file), write);
  const sidecars = [
    new Sidecar("web-1", agent.address),
    new Sidecar("api-1", agent.address, {
      args: ["-watch-plugins", "-log-json"],
      logs: { level: "info", onText: (text) => view.take(text) },
    }),
  ];
  write(`Starting a mesh with ${shown(file)} in it ...\n`);
  for (const sidecar of sidecars) {
    sidecar.start();
    stack.defer(() => sidecar.stop());
  }
  const over = new AbortController();
  void stopped.then(() => over.abort());
  await firstAnswer(url, view, over.signal);
  // What we asked ourselves is logged by now.
  await sleep(systemClock, PROBE_PAUSE_MS, { signal: over.signal });
  if (!over.signal.aborted) {
    view.open(`
    you -> web's sidecar == mTLS ==> api's sidecar, with the plugin -> api

Ask, in another terminal:

    curl -i ${url}orders

Save ${shown(file)}, and it is loaded anew. Ctrl-C ends all of it.

`);
  }
  await stopped;
  write("\nStopping.\n");
}

/** Its path: a module that has the author's plugin and an eye on it. */
async function writeWatched(file: string, stack: AsyncDisposableStack): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "postern-dev-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  await writeFile(join(directory, "watched_plugin.ts"), watchedText);
  const entry = join(directory, "plugin.ts");
  const text = `import plugin from ${JSON.stringify(file)};
import { watched } from "./watched_plugin.ts";
export default watched(plugin);
`;
  await writeFile(entry, text);
  return entry;
}

/** Comes when somebody carries requests, however long the author needs for that. */
async function firstAnswer(url: string, view: View, signal: AbortSignal): Promise<void> {
  let tries = 0;
  while (!signal.aborted) {
    if (view.isLoaded) {
      const { status } = await probe(url);
      // 503 is what web's sidecar says while it knows of no api, and what a plugin may say for good.
      if (status !== 0 && (status !== 503 || ++tries > MAX_PROBES)) return;
    }
    await sleep(systemClock, PROBE_PAUSE_MS, { signal });
  }
}

/** What is printed of the sidecar's log. */
class View {
  isLoaded = false;
  readonly #name: string;
  readonly #write: Write;
  #isOpen = false;
  #rest = "";
  #refused = "";

  constructor(name: string, write: Write) {
    this.#name = name;
    this.#write = write;
  }

  /** From here on requests are the author's. */
  open(introduction: string): void {
    this.#isOpen = true;
    this.#write(introduction);
  }

  take(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#takeLine(line);
  }

  #takeLine(line: string): void {
    const told = toldOf(line);
    if (!told) return;
    switch (told.kind) {
      case "loaded":
        this.isLoaded = true;
        this.#refused = "";
        return this.#write(`${this.#name}: loaded\n`);
      case "asked":
        return this.#isOpen ? this.#write(told.text) : undefined;
      case "refused":
        // Several notice it.
        if (told.text === this.#refused) return;
        this.#refused = told.text;
        return this.#write(
          `${this.#name}: not loaded${
            this.isLoaded ? "; the last good one serves on" : ""
          }\n${told.text}`,
        );
      case "fault":
      case "line":
        return this.#write(`${this.#name}: ${told.text}`);
    }
  }
}
