/** `postern plugin test`: runs tests, bundled as plugins are, in this process. @module */

import process from "node:process";
import { formatText, messageOf, systemClock } from "../../../base/mod.ts";
import { AUTHOR_KIT, type Mounted } from "../../../kit/mod.ts";
import {
  builtinModule,
  LIBRARIES,
  librariesOf,
  placeOf,
  runCode,
  whyNoImport,
} from "../../../plugin/mod.ts";
import { bundle, PluginWatch } from "../../../source/mod.ts";
import { onSignals } from "../../process/signals.ts";
import { type TestOutcome, Tests } from "./declared_tests.ts";
import { LoopWatch } from "./loop_watch.ts";
import { nodeName, shown, testFilesOf, type Write } from "./plugin_files.ts";

const KIT = "postern/kit";
const TEST_MODULE = "node:test";
/** A test's stack is deep below the proxy's layers. */
const STACK_FRAMES = 100;

/** Length of a log line's time, which is the fake clock's. */
const TIME_CHARS = "2026-11-21T07:30:00.000Z ".length;

export interface TestPluginOptions {
  /** Only tests whose name contains it run. */
  readonly only?: string | undefined;
  /** Runs the tests again whenever one of their files is saved, until a signal. */
  readonly watch?: boolean;
}

/** Runs the tests of these files, which are tests, plugins with tests beside them, or directories. The exit code. */
export async function testPlugins(
  paths: readonly string[],
  write: Write,
  { only, watch = false }: TestPluginOptions = {},
): Promise<number> {
  if (!watch) return await testOnce(paths, { write, only });
  const files = new PluginWatch(systemClock);
  const hint = "\nSave a file, and its tests run again. Ctrl-C ends.\n\n";
  const options = { write, only, watch: files };
  let code = await testOnce(paths, options);
  write(hint);
  const stopped = Promise.withResolvers<void>();
  const signals = onSignals({ stop: stopped.resolve, reload: () => {} });
  const again = async () => {
    // A file that was renamed comes back with the next save.
    code = await testOnce(paths, options).catch((error) => {
      write(`${messageOf(error)}\n`);
      return 1;
    });
    write(hint);
  };
  let running = Promise.resolve();
  files.start(() => running = running.then(again));
  await stopped.promise;
  files.close();
  await running;
  signals.off();
  return code;
}

interface TestOnce {
  readonly write: Write;
  readonly only: string | undefined;
  readonly watch?: PluginWatch;
}

async function testOnce(paths: readonly string[], options: TestOnce): Promise<number> {
  const { write, only } = options;
  const files = [
    ...new Set((await Promise.all(paths.map(testFilesOf))).flat()),
  ];
  const startedMs = systemClock.monotonic();
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  using loops = new LoopWatch();
  for (const file of files) {
    write(`${shown(file)}\n`);
    loops.runs(shown(file));
    await testFile(file, { ...options, loops }, (outcome, logs) => {
      if (outcome.kind !== "ran") skipped++;
      else if (outcome.thrown) failed++;
      else passed++;
      write(outcomeText(outcome, logs));
    }).catch((error) => {
      failed++;
      write(`  failed  cannot be run\n${faultText(error)}`);
    });
  }
  const took = Math.round(systemClock.monotonic() - startedMs);
  if (passed + failed + skipped === 0) {
    write(
      only === undefined
        ? "  no test is declared there\n"
        : `  no test has "${only}" in its name\n`,
    );
  }
  const rest = skipped === 0 ? "" : `, ${skipped} skipped`;
  write(`\n${passed} passed, ${failed} failed${rest} (${took} ms)\n`);
  return failed === 0 && passed + skipped > 0 ? 0 : 1;
}

async function testFile(
  file: string,
  { only, watch, loops }: TestOnce & { readonly loops: LoopWatch },
  onOutcome: (outcome: TestOutcome, logs: Mounted["logs"]) => void,
): Promise<void> {
  const tests = new Tests();
  let mounts: Mounted[] = [];
  const kit = {
    ...AUTHOR_KIT,
    mount: async (
      ...[plugin, options]: Parameters<typeof AUTHOR_KIT.mount>
    ) => {
      const mounted = await AUTHOR_KIT.mount(plugin, options);
      mounts.push(mounted as Mounted);
      return mounted;
    },
  };
  const code = await bundle(file, {
    lent: [...LIBRARIES, KIT, TEST_MODULE],
    watch,
  });
  const provided = new Map(await librariesOf(code));
  provided.set(KIT, kit).set(TEST_MODULE, tests.module);
  Error.stackTraceLimit = STACK_FRAMES;
  await runCode({ ...code, path: file }, (name) => {
    // Tests may import any module of Node: they serve no traffic.
    const why = provided.has(name) ? undefined : whyNoImport(name, [nodeName(name)]);
    if (why) throw new TypeError(`it ${why}`);
    return provided.get(name) ?? builtinModule(name);
  });
  await tests.run({
    clock: systemClock,
    only,
    stray,
    onBegin: (name) => loops.runs(name),
    onOutcome: (outcome) => {
      onOutcome(outcome, mounts.flatMap(({ logs }) => logs));
      mounts = [];
    },
  });
}

function stray(fail: (error: unknown) => void): () => void {
  process.on("uncaughtException", fail).on("unhandledRejection", fail);
  return () => void process.off("uncaughtException", fail).off("unhandledRejection", fail);
}

function outcomeText(
  { name, ms, kind, thrown, notes }: TestOutcome,
  logs: Mounted["logs"],
): string {
  const noted = notes.map((note) => `          ${note}\n`).join("");
  if (kind !== "ran") return `  ${kind.padEnd(7)} ${name}\n${noted}`;
  if (!thrown) return `  ok      ${name} (${Math.round(ms)} ms)\n${noted}`;
  // A test that only sees a status finds the fault in the log.
  const lines = logs.filter(({ level }) => level === "warn" || level === "error")
    .map((line) => `          ${formatText(line).slice(TIME_CHARS)}\n`);
  return `  failed  ${name} (${Math.round(ms)} ms)\n${faultText(thrown.error)}${noted}${
    lines.join("")
  }`;
}

/** The error, its place, and that line. */
function faultText(error: unknown): string {
  const place = placeOf(error);
  const lines = messageOf(error).trimEnd().split("\n");
  const at = place
    ? [
      `at ${shown(place.path)}:${place.line}:${place.column}`,
      `   ${place.text}`,
    ]
    : [];
  return [...lines, ...at].map((line) => `          ${line}`.trimEnd() + "\n")
    .join("");
}
