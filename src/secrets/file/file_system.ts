/** The file system as a port, so that tests can tear reads and exhaust watches; sets of files. @module */

import { constants, watch } from "node:fs";
import { lstat, open, readlink, stat } from "node:fs/promises";
import { type Clock, messageOf, ProxyError, sleep } from "../../base/mod.ts";
import { createHash } from "node:crypto";
import type { SecretFile } from "../load/mod.ts";

export interface FileReading {
  readonly bytes: Uint8Array;
  /** Equal while the file is the same, as far as its file system shows. */
  readonly stamp: string;
  /** Permission bits. */
  readonly mode: number;
}

export interface DirectoryWatch {
  close(): void;
}

export interface FileSystem {
  /**
   * A whole regular file; `null`: it changed meanwhile. Throws `credentials_invalid` that names it. Never
   * blocks, whatever is at the path.
   */
  read(path: string, limitBytes: number): Promise<FileReading | null>;
  /** The stamp that {@link FileSystem.read} would give; "": there is no file. Never throws. */
  stamp(path: string): Promise<string>;
  /** `none`: there is nothing, or nothing that can be seen. */
  entry(path: string): Promise<
    | { readonly kind: "symlink"; readonly target: string }
    | { readonly kind: "directory" | "other" | "none" }
  >;
  /** Distinguishes a directory from a later one at the same path; "": there is none. */
  identity(path: string): Promise<string>;
  /**
   * `onHint` gets the name of a changed entry, or `null` if it is not known; `onLost` is called when the
   * watch ends by itself. Throws if there are no watches, or none left.
   */
  watch(
    path: string,
    hints: { onHint(name: string | null): void; onLost(reason: string): void },
  ): DirectoryWatch;
}

export const realFiles: FileSystem = {
  read: readRegularFile,
  async stamp(path) {
    try {
      return stampOf(await stat(path, { bigint: true }));
    } catch {
      // The read that follows reports the reason.
      return "";
    }
  },
  async entry(path) {
    try {
      const facts = await lstat(path);
      if (facts.isSymbolicLink()) return { kind: "symlink", target: await readlink(path) };
      return { kind: facts.isDirectory() ? "directory" : "other" };
    } catch {
      // The read that follows reports the reason; a link that is replaced meanwhile is seen in the next round.
      return { kind: "none" };
    }
  },
  async identity(path) {
    try {
      const facts = await stat(path, { bigint: true });
      // Inode numbers of removed directories are used again at once; the birth time differs.
      return facts.isDirectory() ? `${facts.dev}:${facts.ino}:${facts.birthtimeNs}` : "";
    } catch {
      return "";
    }
  },
  watch(path, { onHint, onLost }) {
    const watcher = watch(path, { persistent: false }, (_kind, name) => onHint(name));
    watcher.on("error", (error) => onLost(messageOf(error)));
    return { close: () => watcher.close() };
  },
};

/** A file that is being written is at rest a moment later. */
const READ_TRIES = 5;

/** Reads a whole regular file once; throws `credentials_invalid` that names it. */
export async function readWhole(path: string, limitBytes: number): Promise<Uint8Array> {
  for (let tries = 0; tries < READ_TRIES; tries++) {
    const reading = await readRegularFile(path, limitBytes);
    if (reading) return reading.bytes;
  }
  return refuse(path, "it changes all the time");
}

async function readRegularFile(path: string, limitBytes: number): Promise<FileReading | null> {
  try {
    // The type is checked before the file is opened, because some devices act on the opening itself.
    const seen = await stat(path);
    if (!seen.isFile()) return refuse(path, seen.isDirectory() ? "it is a directory" : NOT_REGULAR);
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const before = await file.stat({ bigint: true });
      if (!before.isFile()) return refuse(path, NOT_REGULAR);
      if (before.size > limitBytes) return refuse(path, `it has more than ${limitBytes} bytes`);
      const bytes = await readAll(file, Number(before.size));
      const after = await file.stat({ bigint: true });
      const stamp = stampOf(after);
      if (stamp !== stampOf(before) || BigInt(bytes.length) !== after.size) return null;
      return { bytes, stamp, mode: Number(after.mode) & 0o7777 };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof ProxyError) throw error;
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const fact = FACTS[code] ?? (code || messageOf(error));
    throw new ProxyError("credentials_invalid", `Cannot read ${path}: ${fact}`, { cause: error });
  }
}

const NOT_REGULAR = "it is not a regular file";

const FACTS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  ENOTDIR: "a part of its path is not a directory",
  EACCES: "permission denied",
  EPERM: "permission denied",
  ELOOP: "its path is a loop of symbolic links",
  EISDIR: "it is a directory",
  ENXIO: NOT_REGULAR,
  EMFILE: "this process has too many files open",
  ENFILE: "this machine has too many files open",
  ENAMETOOLONG: "its path is too long",
  ESTALE: "its network file system lost it",
  EIO: "its disk failed",
};

async function readAll(
  file: Awaited<ReturnType<typeof open>>,
  sizeBytes: number,
): Promise<Uint8Array> {
  // The extra byte shows that a file grows.
  const buffer = new Uint8Array(sizeBytes + 1);
  let length = 0;
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return buffer.subarray(0, length);
}

function stampOf(
  facts: Readonly<Record<"dev" | "ino" | "size" | "mtimeNs" | "ctimeNs", bigint>>,
): string {
  const { dev, ino, size, mtimeNs, ctimeNs } = facts;
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}

function refuse(path: string, fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot read ${path}: ${fact}`);
}

export interface FileSet {
  readonly readings: ReadonlyMap<string, FileReading>;
  /** Over paths and contents. */
  readonly hash: string;
  /** Stamps of all files, joined; equal while no file changes. */
  readonly stamps: string;
}

const TRIES = 5;
/** Longer than the pause between two writes of one `cp`. */
const PAUSE_MS = 20;

/** Throws `credentials_invalid` if a file cannot be read, or changes during every attempt. */
export async function readStable(
  wanted: readonly SecretFile[],
  { files, clock, bounded, isKnown }: {
    readonly files: FileSystem;
    readonly clock: Clock;
    /** Runs each reading; bounds how many run at once. */
    readonly bounded: <T>(task: () => Promise<T>) => Promise<T>;
    /** Whether a set with this hash was read before: then one reading is enough. */
    readonly isKnown: (hash: string) => boolean;
  },
): Promise<FileSet> {
  let before: FileSet | undefined;
  let moving = wanted[0]?.path;
  for (let attempt = 0; attempt <= TRIES; attempt++) {
    if (attempt > 0) await sleep(clock, PAUSE_MS);
    const set = await bounded(() => readOnce(wanted, files));
    if ("moving" in set) {
      moving = set.moving;
      before = undefined;
      continue;
    }
    if (isKnown(set.hash)) return set;
    if (before && before.hash === set.hash && before.stamps === set.stamps) return set;
    moving = (before && firstDifference(before, set)) ?? moving;
    before = set;
  }
  throw new ProxyError(
    "credentials_invalid",
    `Cannot read ${moving ?? "files"}: it changes while it is read`,
  );
}

async function readOnce(
  wanted: readonly SecretFile[],
  files: FileSystem,
): Promise<FileSet | { readonly moving: string }> {
  const readings = new Map<string, FileReading>();
  const hash = createHash("sha256");
  const stamps: string[] = [];
  for (const { path, limitBytes } of wanted) {
    const reading = await files.read(path, limitBytes);
    if (!reading) return { moving: path };
    readings.set(path, reading);
    hash.update(JSON.stringify([path, reading.bytes.length])).update(reading.bytes);
    stamps.push(reading.stamp);
  }
  return { readings, hash: hash.digest("hex"), stamps: stamps.join(" ") };
}

function firstDifference(before: FileSet, now: FileSet): string | undefined {
  for (const [path, { stamp }] of now.readings) {
    if (before.readings.get(path)?.stamp !== stamp) return path;
  }
  return undefined;
}
