/**
 * Limits the concurrent dials of one upstream. In a burst of thousands all would share the processor until
 * each exceeds its connect timeout and the work is lost; in turns the first complete at once and the rest wait.
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
   * Calls `start` now or when its turn comes. The caller must call the returned function at least once; it ends
   * the turn, or the wait for it.
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
