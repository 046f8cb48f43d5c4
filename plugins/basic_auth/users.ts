/**
 * Users and the hashes of their passwords, in the lines of an htpasswd file: `{SHA}`, which Envoy reads, and
 * PBKDF2 with SHA-256, which Web Crypto computes in another thread.
 *
 * @module
 */

import type { Bytes } from "../../src/plugin/api.ts";

export interface PasswordHash {
  /** The line's hash, which tells two hashes of one user apart. */
  readonly text: string;
  readonly digest: Bytes;
  /** `undefined`: the digest is SHA-1 without a salt. */
  readonly derived: { readonly salt: Bytes; readonly rounds: number } | undefined;
}
export type Users = ReadonlyMap<string, PasswordHash>;

const MAX_USERS = 10_000;
const NAME = /^[\x21-\x39\x3b-\x7e]{1,128}$/;
const PBKDF2 =
  /^\$pbkdf2-sha256\$(?:i=)?(\d{1,9})\$([A-Za-z0-9+/.]+)={0,2}\$([A-Za-z0-9+/.]+)={0,2}$/;
const SHA = /^\{SHA\}([A-Za-z0-9+/]{27}=)$/;
const MIN_ROUNDS = 1_000;
/** A longer check could hold a request for longer than a plugin may. */
const MAX_ROUNDS = 1_000_000;
const MIN_SALT_BYTES = 8;

/** Throws an error that names the line, and shows no hash. */
export function readUsers(lines: readonly string[]): Users {
  const users = new Map<string, PasswordHash>();
  for (const [index, raw] of lines.entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) continue;
    const fault = (what: string) => new TypeError(`line ${index + 1}: ${what}`);
    const colon = line.indexOf(":");
    if (colon < 0) throw fault("want NAME:HASH");
    const name = line.slice(0, colon);
    if (!NAME.test(name)) {
      throw fault("a name has 1 to 128 ASCII characters, without spaces and colons");
    }
    if (users.has(name)) throw fault(`"${name}" is there already`);
    const hash = hashOf(line.slice(colon + 1));
    if (typeof hash === "string") throw fault(`"${name}": ${hash}`);
    users.set(name, hash);
    if (users.size > MAX_USERS) throw fault(`more than ${MAX_USERS} users`);
  }
  return users;
}

/** A text says what is wrong. */
function hashOf(text: string): PasswordHash | string {
  const [, sha] = SHA.exec(text) ?? [];
  if (sha !== undefined) return { text, digest: decoded(sha), derived: undefined };
  const [, rounds = "", salt = "", digest = ""] = PBKDF2.exec(text) ?? [];
  if (rounds === "") return "its hash is neither $pbkdf2-sha256$ROUNDS$SALT$HASH nor {SHA}";
  const derived = { salt: decoded(salt), rounds: Number(rounds) };
  if (derived.rounds < MIN_ROUNDS || derived.rounds > MAX_ROUNDS) {
    return `want ${MIN_ROUNDS} to ${MAX_ROUNDS} rounds`;
  }
  if (derived.salt.length < MIN_SALT_BYTES) return `want a salt of ${MIN_SALT_BYTES} bytes or more`;
  const hash = { text, digest: decoded(digest), derived };
  return hash.digest.length === 32 ? hash : "its hash does not have 32 bytes";
}

/** Base64 with or without padding; passlib writes `.` in place of `+`. */
function decoded(text: string): Bytes {
  const plain = text.replaceAll(".", "+").replace(/=+$/, "");
  // One character more than a multiple of four has no whole byte.
  if (plain.length % 4 === 1) return new Uint8Array();
  return Uint8Array.from(atob(plain), (char) => char.charCodeAt(0));
}

export async function isPassword(
  password: Bytes,
  { digest, derived }: PasswordHash,
): Promise<boolean> {
  // Web Crypto takes no empty key.
  if (password.length === 0) return false;
  const { subtle } = crypto;
  if (!derived) return isSame(new Uint8Array(await subtle.digest("SHA-1", password)), digest);
  const key = await subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
  const { salt, rounds: iterations } = derived;
  const bits = await subtle.deriveBits(
    { name: "PBKDF2", hash: "SHA-256", salt, iterations },
    key,
    256,
  );
  return isSame(new Uint8Array(bits), digest);
}

/** Takes the same time wherever the bytes differ. */
function isSame(a: Bytes, b: Bytes): boolean {
  let difference = a.length ^ b.length;
  for (let at = 0; at < b.length; at++) difference |= (a[at] ?? 0) ^ (b[at] ?? 0);
  return difference === 0;
}
