/**
 * Randomness as an argument, so that balancing and jitter can be tested.
 *
 * @module
 */

/** A number in [0, 1). Not for secrets. */
export type Random = () => number;

/** The runtime's generator. */
export const systemRandom: Random = (): number => Math.random();

/** A repeatable generator (mulberry32) for tests and load balancer tables. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
