/**
 * How many connections of one upstream are dialled at once. A burst of thousands would share the
 * processor until the connect timeout of each has passed and all that work is lost; in turns the first
 * are through at once and the last wait.
 *
 * @module
 */

/** Enough to keep a thread busy while answers travel, few enough that each is quick. */
const WINDOW = 128;

export class DialWindow {
  readonly #size: number;
  #dialling = 0;
  readonly #waiting = new Set<() => void>();

  constructor(size: number = WINDOW) {
    this.#size = size;
  }

  /**
   * Calls `start` now or when its turn comes. The function returned ends the turn, or the waiting for
   * it; it must be called, and once is enough.
   */
  enter(start: () => void): () => void {
    let state: "waiting" | "dialling" | "left" = "waiting";
    const begin = () => {
      state = "dialling";
      this.#dialling++;
      start();
    };
    if (this.#dialling < this.#size) begin();
    else this.#waiting.add(begin);
    return () => {
      const before = state;
      state = "left";
      if (before === "waiting") this.#waiting.delete(begin);
      else if (before === "dialling") {
        this.#dialling--;
        this.#next();
      }
    };
  }

  #next(): void {
    for (const begin of this.#waiting) {
      if (this.#dialling >= this.#size) return;
      this.#waiting.delete(begin);
      begin();
    }
  }
}
