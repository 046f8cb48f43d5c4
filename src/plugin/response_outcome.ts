/**
 * A response that arrives once. No promise is made unless a plugin awaits it.
 *
 * @module
 */

import type { PluginResponse } from "./messages.ts";

export interface ResponseListener {
  settle(response: PluginResponse): void;
}

export class ResponseOutcome implements PromiseLike<PluginResponse>, ResponseListener {
  readonly #outer: ResponseOutcome | undefined;
  readonly #change: ((response: PluginResponse) => void) | undefined;
  #hasCome = false;
  #value: PluginResponse | undefined;
  #listener: ResponseListener | undefined;
  #promise: PromiseWithResolvers<PluginResponse> | undefined;

  /**
   * `outer`: the outcome that this one is made for, which may be settled without it. `change` receives the
   * response and calls {@link become} with the changed one, now or later.
   */
  constructor(outer?: ResponseOutcome, change?: (response: PluginResponse) => void) {
    this.#outer = outer;
    this.#change = change;
  }

  /** A response is no longer needed. */
  get isOver(): boolean {
    return this.#hasCome || this.#outer?.isOver === true;
  }

  /** The changed response is no longer needed. */
  get isDone(): boolean {
    return this.#value !== undefined || this.#outer?.isOver === true;
  }

  /** A response arrived, though it may not be changed yet. */
  get hasCome(): boolean {
    return this.#hasCome;
  }

  /** `undefined` until the final response is known. */
  get value(): PluginResponse | undefined {
    return this.#value;
  }

  /** Only the first response counts. */
  settle(response: PluginResponse): void {
    if (this.#hasCome) return;
    this.#hasCome = true;
    if (this.#change) this.#change(response);
    else this.become(response);
  }

  /** Sets the final response, once. */
  become(response: PluginResponse): void {
    if (this.#value) return;
    this.#value = response;
    this.#promise?.resolve(response);
    this.#listener?.settle(response);
  }

  /** Calls the one listener, now or as soon as the final response is known. */
  listen(listener: ResponseListener): void {
    if (this.#value) listener.settle(this.#value);
    else this.#listener = listener;
  }

  then<A = PluginResponse, B = never>(
    fulfilled?: ((response: PluginResponse) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    if (!this.#promise) {
      this.#promise = Promise.withResolvers();
      if (this.#value) this.#promise.resolve(this.#value);
    }
    return this.#promise.promise.then(fulfilled, rejected);
  }
}
