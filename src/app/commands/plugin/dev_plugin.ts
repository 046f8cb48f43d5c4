/** `postern plugin dev`: runs a mesh with the plugin, and loads it again when it is saved. @module */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { silentLog, sleep, systemClock, systemRandom } from "../../../base/mod.ts";
import { freePorts, probe, registerDemoMesh, startApp, startDevAgent } from "../../../dev/mod.ts";
import { onSignals } from "../../process/signals.ts";
import { Sidecar } from "../sidecar_process.ts";
import { shown, type Write } from "./plugin_files.ts";
import watchedText from "./watched_plugin.ts" with { type: "text" };

const PROBE_PAUSE_MS = 100;
const MAX_PROBES = 50;

/** Runs until a signal; returns the exit code. */
export async function runDevPlugin(file: string, config: unknown, write: Write): Promise<number> {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const signals = onSignals({ stop, stopNow: () => {}, reload: stop });
  await using stack = new AsyncDisposableStack();
  stack.defer(() => signals.off());
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
  // The probe's own requests are logged by now.
  await sleep(systemClock, PROBE_PAUSE_MS, { signal: over.signal });
  if (!over.signal.aborted) {
    view.open(`
    you -> web's sidecar == mTLS ==> api's sidecar, with the plugin -> api

Ask, in another terminal:

    curl -i ${url}orders

Save ${shown(file)}, and it is loaded again. Ctrl-C ends all of it.

`);
  }
  await stopped;
  write("\nStopping.\n");
  return 0;
}

/** Writes a module that wraps the author's plugin; returns its path. */
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

/** Resolves when the mesh carries requests; the author may need any time for that. */
async function firstAnswer(url: string, view: View, signal: AbortSignal): Promise<void> {
  let tries = 0;
  while (!signal.aborted) {
    if (view.isLoaded) {
      const { status } = await probe(url);
      // web's sidecar answers 503 while it knows of no api; a plugin may always answer it.
      if (status !== 0 && (status !== 503 || ++tries > MAX_PROBES)) return;
    }
    await sleep(systemClock, PROBE_PAUSE_MS, { signal });
  }
}

/** Prints the lines of the sidecar's log that concern the plugin. */
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

  /** Shows requests from now on: all further ones are the author's. */
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
    const read = readLogLine(line);
    if (!read) return;
    switch (read.kind) {
      case "loaded":
        this.isLoaded = true;
        this.#refused = "";
        return this.#write(`${this.#name}: loaded\n`);
      case "request":
        return this.#isOpen ? this.#write(read.text) : undefined;
      case "refused":
        // Several log lines report the same fault.
        if (read.text === this.#refused) return;
        this.#refused = read.text;
        return this.#write(
          `${this.#name}: not loaded${
            this.isLoaded ? "; the last good one serves on" : ""
          }\n${read.text}`,
        );
      case "fault":
      case "line":
        return this.#write(`${this.#name}: ${read.text}`);
    }
  }
}

/** Messages of `watched_plugin.ts`, which this program reads as text, not as a module. */
const LOADED = "loaded";
const WATCHED = "watched request";

interface DevLine {
  readonly kind: "loaded" | "refused" | "request" | "fault" | "line";
  readonly text: string;
}

type LogLine = Readonly<Record<string, unknown>>;

/** Reads a log line in JSON; `undefined`: it is not about the plugin. */
export function readLogLine(line: string): DevLine | undefined {
  let record: LogLine;
  try {
    record = JSON.parse(line) as LogLine;
  } catch {
    // Not a log line: an error of the runtime.
    return line.trim() === "" ? undefined : { kind: "fault", text: `${line}\n` };
  }
  const { time: _, level, message, plugin, listener: __, worker, ...facts } = record;
  if (plugin === undefined) return refusedOf(record);
  switch (message) {
    case LOADED:
      return worker === 0 || worker === undefined ? { kind: "loaded", text: "" } : undefined;
    case WATCHED:
      return { kind: "request", text: requestText(facts) };
    case "plugin failed": {
      const { hook = "", reason = "" } = facts;
      return { kind: "fault", text: `failed in ${hook}: ${placed(String(reason))}\n` };
    }
  }
  const shown = Object.entries(facts).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`);
  return { kind: "line", text: `${level}: ${message}${shown.join("")}\n` };
}

/** The reason why the plugin is not loaded, on separate lines. */
function refusedOf({ level, reason, error }: LogLine): DevLine | undefined {
  const why = String(reason ?? error ?? "");
  if (!["warn", "error"].includes(String(level).toLowerCase()) || !why.includes("plugin")) return;
  const fault = why.replace(/^.*(?:cannot be loaded|Cannot load \S+ \(\S+\.use\)):\s*/s, "");
  return {
    kind: "refused",
    text: fault.split("\n").map((line) => `    ${line.trim()}\n`).join(""),
  };
}

/** The place and the line on lines of their own. */
function placed(reason: string): string {
  return reason.replace(/ \((\S+:\d+:\d+): (.*)\)$/s, "\n    at $1\n       $2");
}

function requestText(
  { what, source, status, code, sentTimes, ms, request, response }: LogLine,
): string {
  const by = source === "" ? "" : `, asked by ${source}`;
  const head = `${what} -> ${status === 0 ? "no answer" : status} (${ms} ms${by})\n`;
  const lines = [
    ...changes("request", request),
    ...changes("response", response),
    ...(sentTimes === 0 && code !== "plugin_failed"
      ? ["answered by the plugin; not sent to the upstream"]
      : []),
    ...(Number(sentTimes) > 1 ? [`sent ${sentTimes} times`] : []),
    ...(code === "" ? [] : [`ended with ${code}`]),
  ];
  return head +
    (lines.length === 0 ? ["unchanged"] : lines).map((text) => `    ${text}\n`).join("");
}

function changes(of: string, text: unknown): string[] {
  const lines = String(text ?? "").split("\n").filter((line) => line !== "");
  return lines.map((line, index) =>
    `${(index === 0 ? of : "").padEnd("response".length)}  ${line}`
  );
}
