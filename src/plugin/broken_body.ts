/**
 * A body that could not be read for a reason that is not its reader's.
 *
 * @module
 */

import type { ErrorCode } from "../base/mod.ts";

/** A body that passed ended before its time, or is too long: the plugin that read it did not fail. */
export class BrokenBody extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, reason: string) {
    super(reason);
    this.code = code;
  }
}

/** The body that an error is about: plugins may have put it into one of their own. */
export function brokenBodyOf(error: unknown): BrokenBody | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof BrokenBody) return cause;
  }
  return undefined;
}
