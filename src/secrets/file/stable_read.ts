/**
 * Files that belong together, read until two readings agree: what is written meanwhile is not taken
 * for whole.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { type Clock, ProxyError, sleep } from "../../base/mod.ts";
import type { SecretFile } from "../load/mod.ts";
import type { FileReading, FileSystem } from "./file_system.ts";

export interface FileSet {
  readonly readings: ReadonlyMap<string, FileReading>;
  /** Of paths and contents. */
  readonly hash: string;
  /** Of all files, joined; equal while no file changes. */
  readonly stamps: string;
}

export interface StableReadOptions {
  readonly files: FileSystem;
  readonly clock: Clock;
  /** Runs each reading; bounds how many run at once. */
  readonly bounded: <T>(task: () => Promise<T>) => Promise<T>;
  /** A content that was read stably before: one reading that equals it is enough. */
  readonly isKnown: (hash: string) => boolean;
}

const TRIES = 5;
/** Longer than the pause between two writes of one `cp`. */
const PAUSE_MS = 20;

/** Throws `credentials_invalid` where a file cannot be read, or none of the tries found rest. */
export async function readStable(
  wanted: readonly SecretFile[],
  options: StableReadOptions,
): Promise<FileSet> {
  const { files, clock, bounded, isKnown } = options;
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
