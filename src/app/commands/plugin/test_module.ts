/**
 * The module `node:test` for tests of plugins: the executable has no test runner. It has the part that tests
 * on the kit need; the same file runs under Node's own runner.
 *
 * @module
 */

import type { Clock } from "../../../base/mod.ts";

type Body = () => unknown;
type Declare = (name: string, body: Body) => void;

interface Test {
  readonly name: string;
  readonly body: Body;
}

interface TestModule {
  readonly test: Declare;
  readonly it: Declare;
  readonly describe: Declare;
  readonly suite: Declare;
  readonly default: Declare;
}

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
  readonly #tests: Test[] = [];
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
