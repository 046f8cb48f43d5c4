/**
 * Public keys of an issuer. A token's algorithm must match the type of the key that verifies it, so that no
 * public key is ever used as a shared secret.
 *
 * @module
 */

import { compactVerify, createLocalJWKSet, errors, type JSONWebKeySet, type JWK } from "jose";
import type { JwtToken } from "./token.ts";

/** A token that names no key is verified with each key. */
const MAX_KEYS = 64;

/** `noKey`: no key fits the token; `signature`: no fitting key verifies it. */
export type KeyVerdict = "verified" | "noKey" | "signature";

type Find = ReturnType<typeof createLocalJWKSet>;

export class KeySet {
  readonly #all: Find;
  /** Keys without a name may be the one that a token names, as in Envoy. */
  readonly #unnamed: Find;

  private constructor(keys: readonly JWK[]) {
    this.#all = createLocalJWKSet({ keys: [...keys] });
    this.#unnamed = createLocalJWKSet({ keys: keys.filter(({ kid }) => kid === undefined) });
  }

  /** Throws if `text` is not a JSON Web Key Set. */
  static read(text: string): KeySet {
    if (!isShallow(text)) throw new RangeError("JWKS: it has too many lists and objects");
    const { keys } = JSON.parse(text) as Partial<JSONWebKeySet>;
    if (!Array.isArray(keys)) throw new TypeError("JWKS: it has no list of keys");
    if (keys.length > MAX_KEYS) throw new RangeError(`JWKS: more than ${MAX_KEYS} keys`);
    return new KeySet(keys);
  }

  async verify(token: JwtToken): Promise<KeyVerdict> {
    const { text, algorithm: alg, keyName: kid } = token;
    let isTried = false;
    const tries = kid === undefined
      ? [() => this.#all({ alg })]
      : [() => this.#all({ alg, kid }), () => this.#unnamed({ alg })];
    for (const find of tries) {
      for await (const key of keysFrom(find)) {
        isTried = true;
        try {
          await compactVerify(text, key, { algorithms: [alg] });
          return "verified";
        } catch {
          // This key does not verify it; another may.
        }
      }
    }
    return isTried ? "signature" : "noKey";
  }
}

/** A key is an object with few lists. Text full of brackets would take far more memory than its size. */
function isShallow(text: string): boolean {
  let left = MAX_KEYS * 16;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if ((code === OPEN_LIST || code === OPEN_OBJECT) && --left < 0) return false;
  }
  return true;
}

const OPEN_LIST = 0x5b;
const OPEN_OBJECT = 0x7b;

async function* keysFrom(find: () => ReturnType<Find>): AsyncGenerator<Awaited<ReturnType<Find>>> {
  try {
    yield await find();
  } catch (error) {
    if (error instanceof errors.JWKSMultipleMatchingKeys) yield* error;
    // Else the key is absent or unusable.
  }
}
