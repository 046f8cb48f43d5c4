/**
 * The token of somebody who was given one.
 *
 * @module
 */

import { statSync } from "node:fs";
import { type Clock, type Log, messageOf } from "../../base/mod.ts";
import type { CallToken } from "../servers/types.ts";
import { readTokenFile } from "./files.ts";

/** A token that is given, or in a file: read again when it changed, looking at most once a second. */
export class TokenSource implements CallToken {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #log: Log;
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
    this.#clock = deps.clock;
    this.#log = deps.log;
  }

  current(): string {
    if (this.#path && this.#clock.monotonic() - this.#lookedAtMs >= 1_000) this.reload();
    return this.#token;
  }

  onChange(fn: () => void): () => void {
    this.#onChange.add(fn);
    return () => this.#onChange.delete(fn);
  }

  /** Who gave it gives another. */
  rejected(): void {}

  /** Looks now. A file that is gone, empty or bad leaves the token that is in use. */
  reload(): void {
    if (!this.#path) return;
    this.#lookedAtMs = this.#clock.monotonic();
    try {
      const { mtimeMs, size, ino } = statSync(this.#path);
      const stamp = `${mtimeMs} ${size} ${ino}`;
      if (stamp === this.#stamp) return;
      const token = readTokenFile(this.#path, "-token-file (CONSUL_HTTP_TOKEN_FILE)");
      this.#stamp = stamp;
      if (token && token !== this.#token) {
        this.#token = token;
        this.#log.info("token read", { file: this.#path });
        for (const fn of [...this.#onChange]) fn();
      }
    } catch (error) {
      this.#log.warn("token file cannot be read, the last token stays in use", {
        file: this.#path,
        error: messageOf(error),
      });
    }
  }
}
