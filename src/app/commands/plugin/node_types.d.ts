/** The part of `node:test` that `postern plugin test` has. */
declare module "node:test" {
  type Declare = (name: string, body: () => unknown) => void;
  export const test: Declare;
  export const it: Declare;
  export const describe: (name: string, body: () => void) => void;
  export const suite: typeof describe;
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
