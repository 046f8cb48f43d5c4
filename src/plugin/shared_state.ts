/**
 * State of plugins that lives on when their configuration is loaded anew: made by whoever asks first, gone
 * with its last user.
 *
 * @module
 */

export class SharedState {
  readonly #held = new Map<string, { readonly value: object; users: number }>();

  /** `isNewUser`: it is to be left once more. */
  use<T extends object>(key: string, make: () => T, isNewUser: boolean): T {
    let held = this.#held.get(key);
    if (!held) this.#held.set(key, held = { value: make(), users: 0 });
    if (isNewUser) held.users++;
    // Who names the same key made it by the same code, or by that of the generation before.
    return held.value as T;
  }

  leave(key: string): void {
    const held = this.#held.get(key);
    if (held && --held.users === 0) this.#held.delete(key);
  }
}
