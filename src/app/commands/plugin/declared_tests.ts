/** The part of `node:test` that `postern plugin test` has: declares tests, and runs them one after the other. @module */

import type { Clock } from "../../../base/mod.ts";

/** Longer tests are stuck: the clock of the kit does not move by itself. */
export const TEST_LIMIT_MS = 10_000;
const MAX_TESTS = 10_000;

export interface TestOutcome {
  readonly name: string;
  readonly ms: number;
  /** `skipped`: it did not run, or gave up; `todo`: it may fail. */
  readonly kind: "ran" | "skipped" | "todo";
  /** The error; absent: the test passed. */
  readonly thrown?: { readonly error: unknown };
  /** Why it was skipped, and lines of `t.diagnostic()`. */
  readonly notes: readonly string[];
}

/** The argument of a test's function. */
interface TestContext {
  readonly name: string;
  readonly fullName: string;
  /** Aborted once the test has ended. */
  readonly signal: AbortSignal;
  diagnostic(text: string): void;
  skip(why?: string): void;
  todo(why?: string): void;
  /** Runs when the test has ended. */
  after(hook: Hook): void;
  test: Declare<Promise<void>>;
}

type Hook = () => unknown;
type Body = (t: TestContext) => unknown;

interface TestOptions {
  readonly skip?: boolean | string;
  readonly todo?: boolean | string;
  readonly only?: boolean;
  /** Milliseconds. */
  readonly timeout?: number;
}
const OPTION_NAMES = ["skip", "todo", "only", "timeout"];

interface Declare<Declared = void> {
  (name: string, body: Body): Declared;
  (name: string, options: TestOptions, body: Body): Declared;
}
type Mode = "skip" | "todo" | "only";
type Declarations = Declare & Readonly<Record<Mode, Declare>>;

type TestModule =
  & Readonly<
    Record<"test" | "it" | "describe" | "suite" | "default", Declarations>
  >
  & Readonly<Record<HookKind, (hook: Hook) => void>>
  & { readonly mock: object };

const NO_MOCK = new Proxy({}, {
  get(_, name) {
    throw new TypeError(
      `mock.${
        String(name)
      } is not known here; mount() takes scripted upstreams, callees and a clock`,
    );
  },
});

const HOOKS = ["before", "after", "beforeEach", "afterEach"] as const;
type HookKind = (typeof HOOKS)[number];

class Group {
  readonly hooks: Record<HookKind, Hook[]> = {
    before: [],
    after: [],
    beforeEach: [],
    afterEach: [],
  };
  readonly parent: Group | undefined;
  readonly name: string;
  readonly options: TestOptions;
  /** Tests that are still to run, those of groups within included. */
  left = 0;
  hasBegun = false;

  constructor(parent?: Group, name = "", options: TestOptions = {}) {
    this.parent = parent;
    this.name = name;
    // Tests and groups within have these options, too.
    this.options = { ...parent?.options, ...options };
  }

  /** From the outermost one. */
  get path(): readonly Group[] {
    return [...this.parent?.path ?? [], this];
  }
}

interface Declared {
  readonly name: string;
  readonly body: Body;
  readonly options: TestOptions;
  readonly group: Group;
}

interface Running {
  readonly clock: Clock;
  readonly onBegin?: (name: string) => void;
  readonly onOutcome: (outcome: TestOutcome) => void;
  /** Reports errors that no code awaits while a test runs. */
  readonly stray: (fail: (error: unknown) => void) => () => void;
  /** Only tests whose full name contains it run. */
  readonly only?: string | undefined;
}

export class Tests {
  readonly module: TestModule;
  readonly #tests: Declared[] = [];
  #group = new Group();
  #isOpen = true;

  constructor() {
    const test = declarations((name, options, body) => this.#add(name, options, body));
    const describe = declarations((name, options, body) => this.#describe(name, options, body));
    const hook = (kind: HookKind) => (body: Hook) => {
      if (typeof body !== "function") {
        throw new TypeError(`${kind}: give a function`);
      }
      this.#group.hooks[kind].push(body);
    };
    this.module = {
      test,
      it: test,
      describe,
      suite: describe,
      default: test,
      before: hook("before"),
      after: hook("after"),
      beforeEach: hook("beforeEach"),
      afterEach: hook("afterEach"),
      mock: NO_MOCK,
    };
  }

  #add(name: string, options: TestOptions, body: Body): void {
    if (!this.#isOpen) {
      throw new TypeError(
        `test: "${name}" is declared while tests run; use t.test()`,
      );
    }
    if (this.#tests.length >= MAX_TESTS) {
      throw new RangeError(`more than ${MAX_TESTS} tests`);
    }
    const group = this.#group;
    const names = [...group.path.map((outer) => outer.name), name].filter((
      part,
    ) => part !== "");
    this.#tests.push({
      name: names.join(" > "),
      body,
      options: { ...group.options, ...options },
      group,
    });
  }

  #describe(name: string, options: TestOptions, body: Body): void {
    const outer = this.#group;
    this.#group = new Group(outer, name, options);
    try {
      const result = (body as () => unknown)();
      if (result instanceof Promise) {
        throw new TypeError(`describe: "${name}" is async`);
      }
    } finally {
      this.#group = outer;
    }
  }

  /** Never rejects. */
  async run(running: Running): Promise<void> {
    this.#isOpen = false;
    const isNarrowed = this.#tests.some(({ options }) => options.only);
    const wanted = this.#tests.filter(({ name, options }) =>
      (!isNarrowed || options.only) && name.includes(running.only ?? "")
    );
    for (const { group, options } of wanted) {
      if (!options.skip) { for (const one of group.path) one.left++; }
    }
    for (const { name, body, options, group } of wanted) {
      if (options.skip) {
        running.onOutcome({
          name,
          ms: 0,
          kind: "skipped",
          notes: notesOf(options.skip),
        });
        continue;
      }
      running.onBegin?.(name);
      await new TestRun({ name, body, options }, running, group).outcome;
    }
  }
}

/** One test with its subtests. */
class TestRun {
  readonly outcome: Promise<TestOutcome>;
  readonly #running: Running;
  readonly #declared: Omit<Declared, "group">;
  readonly #notes: string[] = [];
  readonly #afterwards: Hook[] = [];
  readonly #subtests: Promise<TestOutcome>[] = [];
  #kind: TestOutcome["kind"] = "ran";

  constructor(declared: Omit<Declared, "group">, running: Running, group?: Group) {
    this.#declared = declared;
    this.#running = running;
    if (declared.options.todo) this.#todo(declared.options.todo);
    this.outcome = this.#run(group);
  }

  #todo(why: boolean | string): void {
    this.#kind = "todo";
    this.#notes.push(...notesOf(why));
  }

  async #run(group: Group | undefined): Promise<TestOutcome> {
    const { clock, onOutcome, stray } = this.#running;
    const { name, body, options } = this.#declared;
    const limitMs = options.timeout ?? TEST_LIMIT_MS;
    const startedMs = clock.monotonic();
    const failed = Promise.withResolvers<never>();
    const over = new AbortController();
    const quiet = stray((error) => failed.reject(error));
    const timer = clock.after(limitMs, () => {
      failed.reject(new Error(`not done after ${limitMs / 1_000} s`));
    });
    const errors: unknown[] = [];
    const attempt = async (step: () => unknown) => {
      try {
        await Promise.race([Promise.try(step), failed.promise]);
      } catch (error) {
        errors.push(error);
      }
    };
    await attempt(() => group && begin(group));
    if (errors.length === 0) {
      await attempt(() => body(this.#context(over.signal)));
      await attempt(() => this.#endSubtests());
    }
    over.abort();
    for (const hook of this.#afterwards.reverse()) await attempt(hook);
    await attempt(() => group && end(group));
    timer.cancel();
    quiet();
    const outcome = {
      name,
      ms: clock.monotonic() - startedMs,
      kind: this.#kind,
      notes: this.#notes,
      ...errors.length > 0 && { thrown: { error: errors[0] } },
    };
    onOutcome(outcome);
    return outcome;
  }

  #context(signal: AbortSignal): TestContext {
    const { name } = this.#declared;
    return {
      name: name.slice(name.lastIndexOf(" > ") + 1).replace(/^> /, ""),
      fullName: name,
      signal,
      diagnostic: (text) => void this.#notes.push(String(text)),
      skip: (why: string | true = true) => {
        this.#kind = "skipped";
        this.#notes.push(...notesOf(why));
      },
      todo: (why: string | true = true) => this.#todo(why),
      after: (hook) => void this.#afterwards.push(hook),
      test: declare(async (inner, options, body) => {
        const declared = { name: `${name} > ${inner}`, body, options };
        const test = options.skip
          ? Promise.resolve(this.#skipped(declared.name, options.skip))
          : new TestRun(declared, this.#running).outcome;
        this.#subtests.push(test);
        await test;
      }),
    };
  }

  #skipped(name: string, why: boolean | string): TestOutcome {
    const outcome = {
      name,
      ms: 0,
      kind: "skipped",
      notes: notesOf(why),
    } as const;
    this.#running.onOutcome(outcome);
    return outcome;
  }

  async #endSubtests(): Promise<void> {
    const outcomes = await Promise.all(this.#subtests);
    const failed = outcomes.filter(({ thrown, kind }) => thrown && kind === "ran").length;
    if (failed > 0) {
      throw new Error(`${failed} of ${outcomes.length} subtests failed`);
    }
  }
}

async function begin(group: Group): Promise<void> {
  for (const one of group.path) {
    if (one.hasBegun) continue;
    one.hasBegun = true;
    for (const hook of one.hooks.before) await hook();
  }
  for (const one of group.path) {
    for (const hook of one.hooks.beforeEach) await hook();
  }
}

async function end(group: Group): Promise<void> {
  const inward = [...group.path].reverse();
  for (const one of inward) {
    for (const hook of one.hooks.afterEach) await hook();
  }
  for (const one of inward) {
    one.left--;
    if (one.left === 0) { for (const hook of one.hooks.after) await hook(); }
  }
}

function notesOf(why: boolean | string): readonly string[] {
  return typeof why === "string" ? [why] : [];
}

type Take<Declared> = (name: string, options: TestOptions, body: Body) => Declared;

function declarations(take: Take<void>): Declarations {
  const declareAs = (mode: Mode) =>
    declare((name, options, body) =>
      take(name, { ...options, [mode]: options[mode] ?? true }, body)
    );
  return Object.assign(declare(take), {
    skip: declareAs("skip"),
    todo: declareAs("todo"),
    only: declareAs("only"),
  });
}

function declare<Declared>(take: Take<Declared>): Declare<Declared> {
  return (name: string, options: TestOptions | Body, body?: Body) => {
    const [given, run] = typeof options === "function" ? [{}, options] : [options, body];
    // A test that is only planned has no function.
    const planned = given && (given.todo || given.skip) ? () => {} : undefined;
    const code = run ?? planned;
    if (typeof name !== "string" || typeof code !== "function") {
      throw new TypeError("test: give a name and a function");
    }
    const unknown = Object.keys(given ?? {}).find((option) => !OPTION_NAMES.includes(option));
    if (unknown !== undefined) {
      throw new TypeError(
        `test: "${name}" has the option ${unknown}, which is not one of ${OPTION_NAMES.join(", ")}`,
      );
    }
    if (code.length > 1) {
      throw new TypeError(`test: "${name}" takes a callback; return a promise in its place`);
    }
    return take(name, given ?? {}, code);
  };
}
