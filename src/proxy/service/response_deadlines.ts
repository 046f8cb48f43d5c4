/** Response timeouts of plugins. As in Envoy they begin when the request is complete. @module */

import type { Deadline, Deadlines } from "../../base/mod.ts";

interface Limit extends Deadline {
  begin(): void;
}

export class ResponseDeadlines {
  readonly #deadlines: Deadlines;
  readonly #all = new Set<Limit>();
  #isComplete: boolean;

  constructor(deadlines: Deadlines, isComplete: boolean) {
    this.#deadlines = deadlines;
    this.#isComplete = isComplete;
  }

  /** Calls `expired` once, unless cancelled. */
  add(timeoutMs: number, expired: () => void): Deadline {
    let deadline: Deadline | undefined;
    const cancel = () => {
      this.#all.delete(limit);
      deadline?.cancel();
    };
    const begin = () => {
      deadline = this.#deadlines.after(timeoutMs, () => {
        cancel();
        expired();
      });
    };
    const limit: Limit = { begin, cancel };
    this.#all.add(limit);
    if (this.#isComplete) begin();
    return limit;
  }

  requestComplete(): void {
    this.#isComplete = true;
    for (const limit of this.#all) limit.begin();
  }

  cancel(): void {
    for (const limit of this.#all) limit.cancel();
  }
}
