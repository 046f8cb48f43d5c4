/**
 * Why a target has nobody who can be dialled: nobody is registered, all fail, or nobody could be asked.
 *
 * @module
 */

/** What is known of one list of instances. */
export interface ListedInstances {
  /** Instances of what: `"db" in dc1`. */
  readonly of: string;
  /** Absent: never answered. */
  readonly registered: number | undefined;
  readonly usable: number;
  /** Why the list cannot be had at present; `undefined`: it can. */
  readonly failing: string | undefined;
}

/** For people; `""`: somebody can be dialled. */
export function lackOf({ of, registered, usable, failing }: ListedInstances): string {
  if (usable > 0) return "";
  if (registered === undefined) {
    return failing === undefined
      ? `who there is of ${of} has not been answered yet`
      : `who there is of ${of} cannot be known: ${failing}`;
  }
  const fact = registered === 0
    ? `nobody is registered as ${of}`
    : registered === 1
    ? `the only instance of ${of} fails its checks`
    : `all ${registered} instances of ${of} fail their checks`;
  return failing === undefined ? fact : `${fact}, as far as is known: ${failing}`;
}
