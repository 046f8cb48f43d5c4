/**
 * How many retries may be under way at once: a share of the requests that are, as Envoy's retry budget,
 * so that an upstream which fails is not asked a multiple of what it cannot answer.
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

  /** False: there are as many as may be. Else it is given back once. */
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
