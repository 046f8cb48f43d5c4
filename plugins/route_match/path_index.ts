/**
 * Routes by the path that they ask for, so that a thousand of them cost what one does.
 *
 * @module
 */

export class PathIndex {
  readonly #exact = new Map<string, number[]>();
  readonly #prefixes = new Map<string, number[]>();
  /** Of prefixes, each once, short ones first. */
  #lengths: number[] = [];

  get isEmpty(): boolean {
    return this.#exact.size + this.#prefixes.size === 0;
  }

  /** Places rise from call to call. */
  add(place: number, kind: "exact" | "prefix", path: string): void {
    const index = kind === "exact" ? this.#exact : this.#prefixes;
    const places = index.get(path);
    if (places) places.push(place);
    else index.set(path, [place]);
    if (kind === "exact" || this.#lengths.includes(path.length)) return;
    this.#lengths.push(path.length);
    this.#lengths.sort((a, b) => a - b);
  }

  /** The lowest place below `best` that `path` leads to and that fits, else `best`. */
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
