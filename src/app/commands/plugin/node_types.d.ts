/** The part of `node:test` that `postern plugin test` has. */
declare module "node:test" {
  interface Options {
    readonly skip?: boolean | string;
    readonly todo?: boolean | string;
    readonly only?: boolean;
    /** Milliseconds; 10,000 if absent. */
    readonly timeout?: number;
  }
  interface Declare<Body, Result = void> {
    (name: string, body: Body): Result;
    (name: string, options: Options, body?: Body): Result;
  }
  interface Declarations<Body> extends Declare<Body> {
    readonly skip: Declare<Body>;
    readonly todo: Declare<Body>;
    readonly only: Declare<Body>;
  }
  export interface TestContext {
    readonly name: string;
    readonly fullName: string;
    /** Aborted once the test has ended. */
    readonly signal: AbortSignal;
    diagnostic(text: string): void;
    skip(why?: string): void;
    todo(why?: string): void;
    after(hook: () => unknown): void;
    test: Declare<TestBody, Promise<void>>;
  }
  type TestBody = (t: TestContext) => unknown;
  export const test: Declarations<TestBody>;
  export const it: typeof test;
  export const describe: Declarations<() => void>;
  export const suite: typeof describe;
  export const before: (hook: () => unknown) => void;
  export const after: typeof before;
  export const beforeEach: typeof before;
  export const afterEach: typeof before;
  export default test;
}

declare module "node:assert/strict" {
  type Thrown =
    | RegExp
    | (new (...args: never[]) => object)
    | object
    | ((error: unknown) => boolean);
  function assert(value: unknown, message?: string): asserts value;
  namespace assert {
    function ok(value: unknown, message?: string): asserts value;
    function equal(actual: unknown, expected: unknown, message?: string): void;
    function notEqual(actual: unknown, expected: unknown, message?: string): void;
    function deepEqual(actual: unknown, expected: unknown, message?: string): void;
    function notDeepEqual(actual: unknown, expected: unknown, message?: string): void;
    function match(text: string, pattern: RegExp, message?: string): void;
    function doesNotMatch(text: string, pattern: RegExp, message?: string): void;
    function throws(body: () => unknown, expected?: Thrown, message?: string): void;
    function rejects(
      body: PromiseLike<unknown> | (() => PromiseLike<unknown>),
      expected?: Thrown,
      message?: string,
    ): Promise<void>;
    function fail(message?: string): never;
  }
  export default assert;
}

/** The others are not described here. A plugin needs `allow` for each; a test may import any. */
declare module "node:*";
