/**
 * Reading and writing one private file: only in a directory that others cannot change, only a file that
 * is ours, and a reader never sees half of it.
 *
 * @module
 */

import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, rename, unlink } from "node:fs/promises";
import process from "node:process";
import { messageOf, ProxyError } from "../../base/mod.ts";

export interface StateFiles {
  /** `undefined`: there is no such file. */
  read(directory: string, file: string, limitBytes?: number): Promise<string | undefined>;
  /** Replaces `file` as a whole; the directory is made where it is missing. */
  write(directory: string, file: string, text: string): Promise<void>;
}

/** The used functions of `node:fs/promises`, so that a test can make them fail. */
export interface StateFileSystem {
  readonly lstat: typeof lstat;
  readonly mkdir: typeof mkdir;
  readonly open: (path: string, flags: number | string, mode?: number) => Promise<FileHandle>;
  readonly rename: typeof rename;
  readonly unlink: typeof unlink;
}

const SYSTEM: StateFileSystem = { lstat, mkdir, open, rename, unlink };

/** A mesh with thousands of endpoints takes a few megabytes. */
const SIZE_LIMIT_BYTES = 64 * 1024 * 1024;

export function createStateFiles(system: Partial<StateFileSystem> = {}): StateFiles {
  const fs = { ...SYSTEM, ...system };
  return {
    read: (directory, file, limitBytes = SIZE_LIMIT_BYTES) =>
      read(fs, { directory, file, limitBytes }),
    write: (directory, file, text) => write(fs, { directory, file, text }),
  };
}

async function read(
  fs: StateFileSystem,
  { directory, file, limitBytes }: {
    readonly directory: string;
    readonly file: string;
    readonly limitBytes: number;
  },
): Promise<string | undefined> {
  try {
    await checkDirectory(fs, directory);
    // A link could point at anybody's file.
    await using handle = await fs.open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
    const { mode, uid, size } = await handle.stat();
    if ((mode & 0o077) !== 0) {
      const octal = (mode & 0o777).toString(8).padStart(4, "0");
      throw refusal(`others may use it (mode ${octal}); it must be 0600`);
    }
    if (!isOurs(uid)) throw refusal("it belongs to another user");
    if (size > limitBytes) throw refusal(`it has more than ${limitBytes} bytes`);
    return await handle.readFile("utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

async function write(
  fs: StateFileSystem,
  options: { readonly directory: string; readonly file: string; readonly text: string },
): Promise<void> {
  const { directory, file, text } = options;
  await fs.mkdir(directory, { recursive: true, mode: 0o700 });
  await checkDirectory(fs, directory);
  const temporary = `${file}.tmp`;
  // Left over from a process that was killed; `wx` below would refuse it.
  await fs.unlink(temporary).catch((error) => {
    if (codeOf(error) !== "ENOENT") throw new Error(messageOf(error), { cause: error });
  });
  try {
    {
      await using handle = await fs.open(temporary, "wx", 0o600);
      await handle.writeFile(text);
      await handle.sync();
    }
    await fs.rename(temporary, file);
  } catch (error) {
    // The first failure is reported; a file that cannot be removed is removed next time.
    await fs.unlink(temporary).catch(() => {});
    throw error;
  }
  // The rename itself must survive a power cut, too.
  await using handle = await fs.open(directory, constants.O_RDONLY);
  await handle.sync();
}

/** A user who can write the directory can replace the file, whatever the file's own mode. */
async function checkDirectory(fs: StateFileSystem, directory: string): Promise<void> {
  const status = await fs.lstat(directory);
  if (!status.isDirectory()) throw refusal(`"${directory}" is not a directory`);
  if (!isOurs(status.uid)) throw refusal(`directory "${directory}" belongs to another user`);
  if ((status.mode & 0o022) !== 0) {
    throw refusal(`directory "${directory}" can be written by others; make it 0700`);
  }
}

function isOurs(uid: number): boolean {
  const own = process.getuid?.();
  return own === undefined || uid === own;
}

function refusal(fact: string): ProxyError {
  return new ProxyError("snapshot_invalid", `Cannot use the stored state: ${fact}`);
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
