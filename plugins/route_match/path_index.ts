/**
 * An index of routes by path, so that a lookup among a thousand routes costs as much as among one.
 *
 * @module
 */

export class PathIndex {
  readonly #exact = new Map<string, number[]>();
  readonly #prefixes = new Map<string, number[]>();
  /** The distinct lengths of prefixes, in ascending order. */
  #lengths: number[] = [];

  get isEmpty(): boolean {
    return this.#exact.size + this.#prefixes.size === 0;
  }

  /** Requires that `place` rises from call to call. */
  add(place: number, kind: "exact" | "prefix", path: string): void {
    const index = kind === "exact" ? this.#exact : this.#prefixes;
    const places = index.get(path);
    if (places) places.push(place);
    else index.set(path, [place]);
    if (kind === "exact" || this.#lengths.includes(path.length)) return;
    this.#lengths.push(path.length);
    this.#lengths.sort((a, b) => a - b);
  }

  /** The lowest place below `best` whose path matches and that fits, else `best`. */
  first(path: string, best: number, fits: (place: number) => boolean): number {
    let lowest = firstOf(this.#exact.get(path), best, fits);
    for (const length of this.#lengths) {
      if (length > path.length) break;
      lowest = firstOf(this.#prefixes.get(path.slice(0, length)), lowest, fits);
    }
    return lowest;
  }
}

function firstOf(
  places: readonly number[] | undefined,
  best: number,
  fits: (place: number) => boolean,
): number {
  if (!places) return best;
  for (const place of places) {
    if (place >= best) break;
    if (fits(place)) return place;
  }
  return best;
}
