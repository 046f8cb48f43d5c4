/**
 * Limits concurrent retries to a share of the active requests, like Envoy's retry budget, so that retries do
 * not multiply the load of a failing upstream.
 *
 * @module
 */

export class Budget {
  readonly #share: number;
  readonly #minimum: number;
  #requests = 0;
  #retries = 0;

  constructor({ percent, minimum }: { readonly percent: number; readonly minimum: number }) {
    this.#share = percent / 100;
    this.#minimum = minimum;
  }

  requestBegins(): void {
    this.#requests++;
  }

  requestEnds(): void {
    this.#requests--;
  }

  /** False: the budget is used up. Otherwise the caller gives the retry back once. */
  take(): boolean {
    if (this.#retries >= Math.max(this.#minimum, Math.floor(this.#requests * this.#share))) {
      return false;
    }
    this.#retries++;
    return true;
  }

  giveBack(): void {
    this.#retries--;
  }
}
