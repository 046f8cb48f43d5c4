/** The token of requests, where it is given by flag, variable or file. @module */

import { statSync } from "node:fs";
import { type Clock, type Log, messageOf } from "../../base/mod.ts";
import { readTokenFile } from "./files.ts";

/** The token that calls carry now. */
export interface CallToken {
  /** `""`: none. */
  current(): string;
  /**
   * While there is none yet: resolves when there is one, rejects with why there is none so far. Undefined
   * or absent: calls need not wait.
   */
  readonly coming?: Promise<void> | undefined;
  /**
   * Calls `fn` when another token is in use from now on: waits with the old one are sent again with the
   * new one before the old one ends. Returns how to stop.
   */
  onChange(fn: () => void): () => void;
  /** Consul does not know `token`: one that can be replaced will be. Ignored for others. */
  rejected(token: string): void;
}

/** How often a token file is looked at, at most. */
const LOOK_MS = 1_000;

/** A given token, or that of a file, which is read again when the file changes. */
export class TokenSource implements CallToken {
  readonly #path: string;
  readonly #deps: { readonly clock: Clock; readonly log: Log };
  readonly #onChange = new Set<() => void>();
  #token: string;
  #stamp = "";
  #lookedAtMs = -Infinity;

  constructor(
    options: { readonly token: string; readonly tokenFile: string },
    deps: { readonly clock: Clock; readonly log: Log },
  ) {
    this.#token = options.token;
    this.#path = options.tokenFile;
    this.#deps = deps;
  }

  current(): string {
    const agoMs = this.#deps.clock.monotonic() - this.#lookedAtMs;
    if (this.#path && agoMs >= LOOK_MS) this.reload();
    return this.#token;
  }

  onChange(fn: () => void): () => void {
    this.#onChange.add(fn);
    return () => this.#onChange.delete(fn);
  }

  rejected(): void {}

  /** Looks now. A file that is gone, empty or bad leaves the token that is in use. */
  reload(): void {
    const file = this.#path;
    const { clock, log } = this.#deps;
    if (!file) return;
    this.#lookedAtMs = clock.monotonic();
    try {
      const { mtimeMs, size, ino } = statSync(file);
      const stamp = `${mtimeMs} ${size} ${ino}`;
      if (stamp === this.#stamp) return;
      const token = readTokenFile(file, "-token-file (CONSUL_HTTP_TOKEN_FILE)");
      this.#stamp = stamp;
      if (!token || token === this.#token) return;
      this.#token = token;
      log.info("token read", { file });
      for (const fn of [...this.#onChange]) fn();
    } catch (error) {
      const fields = { file, error: messageOf(error) };
      log.warn("token file cannot be read, the last token stays in use", fields);
    }
  }
}
