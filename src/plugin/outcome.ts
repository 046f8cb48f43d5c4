/**
 * A response that comes, once. Where nobody awaits it no promise is made.
 *
 * @module
 */

import type { PluginResponse } from "./messages.ts";

export class Outcome implements PromiseLike<PluginResponse> {
  readonly #outer: Outcome | undefined;
  #value: PluginResponse | undefined;
  #told: ((response: PluginResponse) => void) | undefined;
  #promise: Promise<PluginResponse> | undefined;
  #resolve: ((response: PluginResponse) => void) | undefined;

  /** `outer`: what it is for, which may be settled without it. */
  constructor(outer?: Outcome) {
    this.#outer = outer;
  }

  /** Nobody waits for it any more. */
  get isOver(): boolean {
    return this.#value !== undefined || this.#outer?.isOver === true;
  }

  /** `undefined`: not yet. */
  get value(): PluginResponse | undefined {
    return this.#value;
  }

  /** Once; what comes after is dropped. */
  settle(response: PluginResponse): void {
    if (this.#value) return;
    this.#value = response;
    this.#resolve?.(response);
    this.#told?.(response);
  }

  /** Tells one, now or in the turn in which it comes. */
  tell(told: (response: PluginResponse) => void): void {
    if (this.#value) told(this.#value);
    else this.#told = told;
  }

  then<A = PluginResponse, B = never>(
    fulfilled?: ((response: PluginResponse) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#promise ??= new Promise((resolve) => {
      if (this.#value) resolve(this.#value);
      else this.#resolve = resolve;
    });
    return this.#promise.then(fulfilled, rejected);
  }
}
