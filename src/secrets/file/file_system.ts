/**
 * What following files needs of a file system, as a port: tests tear reads, exhaust watches and make
 * files unreadable through it, which a test that runs as root cannot do otherwise.
 *
 * @module
 */

import { constants, watch } from "node:fs";
import { lstat, open, readlink, stat } from "node:fs/promises";
import { messageOf, ProxyError } from "../../base/mod.ts";

export interface FileReading {
  readonly bytes: Uint8Array;
  /** Equal while the file is the same, as far as its file system tells. */
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
  /** The stamp that {@link FileSystem.read} would give; `""` where there is none. Never throws. */
  stamp(path: string): Promise<string>;
  /** Where a symlink points, or what else is there; `none`: nothing, or nothing that can be seen. */
  entry(path: string): Promise<DirectoryEntry>;
  /** Says what makes a directory this one and no other at the same path; `""`: there is none. */
  identity(path: string): Promise<string>;
  /**
   * Calls `onHint` with the name of what changed, or `null` where that is not known. Throws where there
   * are no watches, or none left. A watch that ends by itself says so through `onLost`.
   */
  watch(path: string, hints: WatchHints): DirectoryWatch;
}

export type DirectoryEntry =
  | { readonly kind: "symlink"; readonly target: string }
  | { readonly kind: "directory" | "other" | "none" };

export interface WatchHints {
  onHint(name: string | null): void;
  onLost(reason: string): void;
}

export const realFiles: FileSystem = {
  read: readRegularFile,
  async stamp(path) {
    try {
      return stampOf(await stat(path, { bigint: true }));
    } catch {
      // Why it cannot be seen is told by the read that follows.
      return "";
    }
  },
  async entry(path) {
    try {
      const facts = await lstat(path);
      if (facts.isSymbolicLink()) return { kind: "symlink", target: await readlink(path) };
      return { kind: facts.isDirectory() ? "directory" : "other" };
    } catch {
      // Same reason; a link that is replaced meanwhile is seen the next time.
      return { kind: "none" };
    }
  },
  async identity(path) {
    try {
      const facts = await stat(path, { bigint: true });
      // Numbers of removed directories are used again at once; their birth tells them apart.
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

/** A file that is written just now is at rest a moment later; one that never is gets no further try. */
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
    // Before it is opened: opening alone does things to some devices.
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
  // One byte more than it should have tells a file that grows.
  const buffer = new Uint8Array(sizeBytes + 1);
  let length = 0;
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return buffer.subarray(0, length);
}

interface StampFacts {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly size: bigint;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
}

function stampOf({ dev, ino, size, mtimeNs, ctimeNs }: StampFacts): string {
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}

function refuse(path: string, fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot read ${path}: ${fact}`);
}
