/**
 * Checks passwords one after the other, so that guesses take at most one processor. Passwords that were
 * right are remembered by a digest, so that only the first request of a client waits.
 *
 * @module
 */

import type { BoundedMap, Bytes, Host } from "../../src/plugin/api.ts";
import { isPassword, type PasswordHash, type Users } from "./users.ts";

export interface BasicCredentials {
  readonly user: string;
  readonly password: Bytes;
  /** User and password as they were sent. */
  readonly whole: Bytes;
}
/** `busy`: too many passwords wait for their check. */
export type PasswordVerdict = "right" | "wrong" | "busy";

const REMEMBERED = 1_024;
const REMEMBERED_MS = 600_000;
/** A check takes up to half a second, and a plugin may hold a request for ten. */
const MAX_WAITING = 8;

export class PasswordVerifier {
  /** The hash that the password had, by the digest of user and password. */
  readonly #right: BoundedMap<string>;
  readonly #waiting = new Map<string, Promise<boolean>>();
  #last: Promise<unknown> = Promise.resolve();
  #users: Users = new Map();
  /** Stands for the hash of an unknown user, so that the time does not tell users apart. */
  #decoy: PasswordHash | undefined;

  constructor(host: Host) {
    this.#right = host.map<string>({ limit: REMEMBERED, ttlMs: REMEMBERED_MS });
  }

  set users(users: Users) {
    this.#users = users;
    const cost = (hash: PasswordHash | undefined) => hash?.derived?.rounds ?? 0;
    this.#decoy = undefined;
    for (const hash of users.values()) {
      if (!this.#decoy || cost(hash) > cost(this.#decoy)) this.#decoy = hash;
    }
  }

  async check({ user, password, whole }: BasicCredentials): Promise<PasswordVerdict> {
    const known = this.#users.get(user);
    const hash = known ?? this.#decoy;
    if (!hash) return "wrong";
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
    // The digest is no secret that a caller can guess bit by bit, so a map may look it up.
    const key = `${digest.toHex()} ${hash.text}`;
    if (known && this.#right.get(key) === hash.text) return "right";
    let checking = this.#waiting.get(key);
    if (!checking) {
      if (this.#waiting.size >= MAX_WAITING) return "busy";
      checking = this.#last.then(() => isPassword(password, hash));
      this.#waiting.set(key, checking);
      this.#last = checking.then(() => {}, () => {}).finally(() => this.#waiting.delete(key));
    }
    const isRight = await checking && known !== undefined;
    if (isRight) this.#right.set(key, hash.text);
    return isRight ? "right" : "wrong";
  }
}
