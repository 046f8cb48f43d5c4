/**
 * A response that comes, once. Where nobody awaits it no promise is made.
 *
 * @module
 */

import type { PluginResponse } from "./messages.ts";

/** Whoever is told of a response. */
export interface ResponseListener {
  settle(response: PluginResponse): void;
}

export class ResponseOutcome implements PromiseLike<PluginResponse>, ResponseListener {
  readonly #outer: ResponseOutcome | undefined;
  readonly #change: ((response: PluginResponse) => void) | undefined;
  #hasCome = false;
  #value: PluginResponse | undefined;
  #told: ResponseListener | undefined;
  #awaited: PromiseWithResolvers<PluginResponse> | undefined;

  /**
   * `outer`: what it is for, which may be settled without it. `change`: is given what comes, and calls
   * {@link become} with what that is to be, now or later.
   */
  constructor(outer?: ResponseOutcome, change?: (response: PluginResponse) => void) {
    this.#outer = outer;
    this.#change = change;
  }

  /** Nobody waits for it any more. */
  get isOver(): boolean {
    return this.#hasCome || this.#outer?.isOver === true;
  }

  /** Nobody waits for what becomes of what has come. */
  get isDone(): boolean {
    return this.#value !== undefined || this.#outer?.isOver === true;
  }

  /** There is a response, though it may not be what it shall be yet. */
  get hasCome(): boolean {
    return this.#hasCome;
  }

  /** `undefined`: not yet. */
  get value(): PluginResponse | undefined {
    return this.#value;
  }

  /** Once; what comes after is dropped. */
  settle(response: PluginResponse): void {
    if (this.#hasCome) return;
    this.#hasCome = true;
    if (this.#change) this.#change(response);
    else this.become(response);
  }

  /** Once, by what changes it. */
  become(response: PluginResponse): void {
    if (this.#value) return;
    this.#value = response;
    this.#awaited?.resolve(response);
    this.#told?.settle(response);
  }

  /** Tells one, now or in the turn in which it comes. */
  tell(told: ResponseListener): void {
    if (this.#value) told.settle(this.#value);
    else this.#told = told;
  }

  then<A = PluginResponse, B = never>(
    fulfilled?: ((response: PluginResponse) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    if (!this.#awaited) {
      this.#awaited = Promise.withResolvers();
      if (this.#value) this.#awaited.resolve(this.#value);
    }
    return this.#awaited.promise.then(fulfilled, rejected);
  }
}
