/** `postern plugin test`: runs tests, bundled as plugins are, in this process. @module */

import process from "node:process";
import { type Clock, formatText, messageOf, systemClock } from "../../../base/mod.ts";
import { AUTHOR_KIT, type Mounted } from "../../../kit/mod.ts";
import {
  builtinModule,
  LIBRARIES,
  librariesOf,
  placeOf,
  runCode,
  whyNoImport,
} from "../../../plugin/mod.ts";
import { bundle } from "../../../source/mod.ts";
import { nodeName, shown, testFilesOf, type Write } from "./plugin_files.ts";

const KIT = "postern/kit";
const TEST_MODULE = "node:test";
/** A test's stack is deep below the proxy's layers. */
const STACK_FRAMES = 100;

/** Length of a log line's time, which is the fake clock's. */
const TIME_CHARS = "2026-11-21T07:30:00.000Z ".length;

/** Runs the tests of these files, which are tests, plugins with tests beside them, or directories. The exit code. */
export async function testPlugins(paths: readonly string[], write: Write): Promise<number> {
  const files = [...new Set((await Promise.all(paths.map(testFilesOf))).flat())];
  const startedMs = systemClock.monotonic();
  let passed = 0;
  let failed = 0;
  for (const file of files) {
    write(`${shown(file)}\n`);
    await testFile(file, (outcome, logs) => {
      if (outcome.thrown) failed++;
      else passed++;
      write(outcomeText(outcome, logs));
    }).catch((error) => {
      failed++;
      write(`  failed  cannot be run\n${faultText(error)}`);
    });
  }
  const took = Math.round(systemClock.monotonic() - startedMs);
  if (passed + failed === 0) write("  no test is declared there\n");
  write(`\n${passed} passed, ${failed} failed (${took} ms)\n`);
  return failed === 0 && passed > 0 ? 0 : 1;
}

async function testFile(
  file: string,
  onOutcome: (outcome: TestOutcome, logs: Mounted["logs"]) => void,
): Promise<void> {
  const tests = new Tests();
  let mounts: Mounted[] = [];
  const kit = {
    ...AUTHOR_KIT,
    mount: async (...[plugin, options]: Parameters<typeof AUTHOR_KIT.mount>) => {
      const mounted = await AUTHOR_KIT.mount(plugin, options);
      mounts.push(mounted as Mounted);
      return mounted;
    },
  };
  const code = await bundle(file, { lent: [...LIBRARIES, KIT, TEST_MODULE] });
  const provided = new Map(await librariesOf(code));
  provided.set(KIT, kit).set(TEST_MODULE, tests.module);
  Error.stackTraceLimit = STACK_FRAMES;
  await runCode({ ...code, path: file }, (name) => {
    // Tests may import any module of Node: they serve no traffic.
    const why = provided.has(name) ? undefined : whyNoImport(name, [nodeName(name)]);
    if (why) throw new TypeError(`it ${why}`);
    return provided.get(name) ?? builtinModule(name);
  });
  await tests.run(systemClock, {
    stray,
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

function outcomeText({ name, ms, thrown }: TestOutcome, logs: Mounted["logs"]): string {
  if (!thrown) return `  ok      ${name} (${Math.round(ms)} ms)\n`;
  // A test that only sees a status finds the fault in the log.
  const lines = logs.filter(({ level }) => level === "warn" || level === "error")
    .map((line) => `          ${formatText(line).slice(TIME_CHARS)}\n`);
  return `  failed  ${name} (${Math.round(ms)} ms)\n${faultText(thrown.error)}${lines.join("")}`;
}

/** The error, its place, and that line. */
function faultText(error: unknown): string {
  const place = placeOf(error);
  const lines = messageOf(error).trimEnd().split("\n");
  const at = place
    ? [`at ${shown(place.path)}:${place.line}:${place.column}`, `   ${place.text}`]
    : [];
  return [...lines, ...at].map((line) => `          ${line}`.trimEnd() + "\n").join("");
}

type Body = () => unknown;
type Declare = (name: string, body: Body) => void;

type TestModule = Readonly<Record<"test" | "it" | "describe" | "suite" | "default", Declare>>;

export interface TestOutcome {
  readonly name: string;
  readonly ms: number;
  /** The error; absent: the test passed. */
  readonly thrown?: { readonly error: unknown };
}

/** Longer tests are stuck: the clock of the kit does not move by itself. */
export const TEST_LIMIT_MS = 10_000;
const MAX_TESTS = 10_000;

/** Tests as they are declared, run one after the other. */
export class Tests {
  readonly module: TestModule;
  readonly #tests: { readonly name: string; readonly body: Body }[] = [];
  readonly #groups: string[] = [];
  #isOpen = true;

  constructor() {
    const test: Declare = (name, body) => this.#add(name, body);
    const describe: Declare = (name, body) => this.#group(name, body);
    this.module = { test, it: test, describe, suite: describe, default: test };
  }

  #add(name: string, body: Body): void {
    if (typeof name !== "string" || typeof body !== "function") {
      throw new TypeError("test: give a name and a function; options are not known here");
    }
    if (!this.#isOpen) throw new TypeError(`test: "${name}" is declared while tests run`);
    if (this.#tests.length >= MAX_TESTS) throw new RangeError(`more than ${MAX_TESTS} tests`);
    this.#tests.push({ name: [...this.#groups, name].join(" > "), body });
  }

  #group(name: string, body: Body): void {
    if (typeof name !== "string" || typeof body !== "function") {
      throw new TypeError("describe: give a name and a function; options are not known here");
    }
    this.#groups.push(name);
    try {
      if (body() instanceof Promise) throw new TypeError(`describe: "${name}" is async`);
    } finally {
      this.#groups.pop();
    }
  }

  /** `stray` reports errors that no code awaits while a test runs. Never rejects. */
  async run(clock: Clock, { onOutcome, stray }: {
    readonly onOutcome: (outcome: TestOutcome) => void;
    readonly stray: (fail: (error: unknown) => void) => () => void;
  }): Promise<void> {
    this.#isOpen = false;
    for (const { name, body } of this.#tests) {
      const startedMs = clock.monotonic();
      const failed = Promise.withResolvers<never>();
      const quiet = stray((error) => failed.reject(error));
      const timer = clock.after(TEST_LIMIT_MS, () => {
        failed.reject(new Error(`not done after ${TEST_LIMIT_MS / 1_000} s`));
      });
      let thrown: TestOutcome["thrown"];
      try {
        await Promise.race([Promise.try(body), failed.promise]);
      } catch (error) {
        thrown = { error };
      }
      timer.cancel();
      quiet();
      onOutcome({ name, ms: clock.monotonic() - startedMs, ...(thrown && { thrown }) });
    }
  }
}
