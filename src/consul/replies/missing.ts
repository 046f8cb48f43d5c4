/**
 * Does a newer answer lack what an older one had? Beside servers only the leader is believed that.
 *
 * @module
 */

/** Some item of `before` has no namesake in `after`. */
export function isMissing<T>(
  after: readonly T[],
  before: readonly T[],
  nameOf: (item: T) => string,
): boolean {
  const names = new Set(after.map(nameOf));
  return before.some((item) => !names.has(nameOf(item)));
}

/** The config entry is not there any more. */
export function isGone(after: unknown, before: unknown): boolean {
  return after === null && before !== null;
}
