/** Files that a plugin reads, and reads again when they change. The last good value stays. @module */

import { open, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import process from "node:process";
import { type Clock, messageOf, type Timer } from "../base/mod.ts";
import type { FileOptions, Log, Secret, SecretFrom, WatchedFile } from "./api.ts";
import { HiddenSecret, hide } from "./secrets.ts";
import { faultOf } from "./source_positions.ts";

/** Files and environment variables as the proxy sees them; a test has its own. */
export interface HostFiles {
  /** Differs once the file has changed; `""`: there is no file. */
  stampOf(path: string): Promise<string>;
  /** Rejects if it is no file, or has more bytes. */
  read(path: string, limitBytes: number): Promise<Uint8Array>;
  env(name: string): string | undefined;
}

const MAX_FILES = 16;
const DEFAULT_LIMIT_BYTES = 1024 * 1024;
const MAX_LIMIT_BYTES = 16 * 1024 * 1024;
const SECRET_LIMIT_BYTES = 64 * 1024;
/** A changed file is read when it was the same at two polls: one that is still being written is not. */
const POLL_MS = 1_000;

interface Followed {
  readonly path: string;
  /** As it was read last. */
  stamp: string;
  /** At the last poll. */
  seen: string;
  /** The failure that was logged last; `""`: none since the value was good. */
  fault: string;
  readAgain(): Promise<void>;
}

export class WatchedFiles {
  readonly #files: HostFiles;
  readonly #clock: Pick<Clock, "after">;
  readonly #log: Log;
  readonly #followed: Followed[] = [];
  /** Ends the removal of each secret from texts. */
  readonly #shown: (() => void)[] = [];
  #opened = 0;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor({ files = PROXY_FILES, clock, log }: {
    readonly files?: HostFiles | undefined;
    readonly clock: Pick<Clock, "after">;
    readonly log: Log;
  }) {
    this.#files = files;
    this.#clock = clock;
    this.#log = log;
  }

  async file<T = string>(path: string, options: FileOptions<T> = {}): Promise<WatchedFile<T>> {
    const { parse = asText, limitBytes = DEFAULT_LIMIT_BYTES } = options;
    if (!isAbsolute(path)) throw new TypeError(`file ${JSON.stringify(path)}: no absolute path`);
    if (!(limitBytes > 0 && limitBytes <= MAX_LIMIT_BYTES)) {
      throw new RangeError(`file: want a limitBytes above 0, and up to ${MAX_LIMIT_BYTES}`);
    }
    this.#enter();
    const read = async () => {
      const bytes = await this.#files.read(path, limitBytes);
      return parse(UTF8.decode(bytes)) as T;
    };
    const stamp = await this.#files.stampOf(path);
    let value = await read().catch((error) => {
      throw new TypeError(`Cannot use ${path}: ${messageOf(error)}`, { cause: error });
    });
    const callbacks: ((value: T) => void)[] = [];
    this.#follow({
      path,
      stamp,
      seen: stamp,
      fault: "",
      readAgain: async () => {
        value = await read();
        for (const callback of callbacks) callback(value);
      },
    });
    return {
      get value() {
        return value;
      },
      onChange(callback) {
        if (callbacks.length >= MAX_FILES) throw new RangeError(`more than ${MAX_FILES} callbacks`);
        callbacks.push(callback);
      },
    };
  }

  async secret(from: SecretFrom): Promise<Secret> {
    if ("env" in from) {
      this.#enter();
      const value = this.#files.env(from.env) ?? "";
      if (value === "") throw new TypeError(`Cannot use the secret ${from.env}: it is not set`);
      this.#shown.push(hide(value));
      return new HiddenSecret(() => value);
    }
    let show = () => {};
    let showBefore = show;
    this.#shown.push(() => show(), () => showBefore());
    const file = await this.file(from.file, {
      limitBytes: SECRET_LIMIT_BYTES,
      parse: (text) => {
        const value = text.replace(/\r?\n$/, "");
        if (value === "") throw new TypeError("it is empty");
        // The secret that it replaces may be in use still.
        showBefore();
        showBefore = show;
        show = hide(value);
        return value;
      },
    });
    return new HiddenSecret(() => file.value);
  }

  #enter(): void {
    if (this.#isClosed) throw new TypeError("file: the plugin was closed");
    if (++this.#opened > MAX_FILES) {
      throw new RangeError(`more than ${MAX_FILES} files and secrets`);
    }
  }

  #follow(file: Followed): void {
    if (this.#isClosed) return;
    this.#followed.push(file);
    if (this.#followed.length === 1) this.#pollLater();
  }

  #pollLater(): void {
    this.#timer = this.#clock.after(POLL_MS, async () => {
      for (const file of this.#followed) await this.#poll(file);
      if (!this.#isClosed) this.#pollLater();
    });
  }

  async #poll(file: Followed): Promise<void> {
    const { path } = file;
    try {
      const stamp = await this.#files.stampOf(path);
      const isSettled = stamp === file.seen;
      file.seen = stamp;
      if (stamp === file.stamp || !isSettled || this.#isClosed) return;
      file.stamp = stamp;
      await file.readAgain();
      file.fault = "";
      this.#log.info("file read again", { path });
    } catch (error) {
      const reason = faultOf(error);
      if (reason === file.fault) return;
      file.fault = reason;
      this.#log.warn("file not used: its last good content stays", { path, reason });
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const show of this.#shown.splice(0)) show();
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });

function asText(text: string): unknown {
  return text;
}

const PROXY_FILES: HostFiles = {
  async stampOf(path) {
    try {
      const { ino, size, mtimeMs, ctimeMs } = await stat(path);
      return `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
    } catch {
      // Why it cannot be read is told by the reading that follows.
      return "";
    }
  },
  async read(path, limitBytes) {
    await using file = await open(path);
    const { size } = await whatIs(file);
    if (size > limitBytes) throw new RangeError(`it has ${size} bytes, more than ${limitBytes}`);
    const bytes = new Uint8Array(size);
    let length = 0;
    while (length < size) {
      const { bytesRead } = await file.read(bytes, length, size - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return bytes.subarray(0, length);
  },
  env: (name) => process.env[name],
};

async function whatIs(file: Awaited<ReturnType<typeof open>>): Promise<{ readonly size: number }> {
  const facts = await file.stat();
  if (facts.isFile()) return facts;
  throw new TypeError("it is no regular file");
}
