/**
 * A set of files, read until two readings agree, so that files which are being written are not used.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { type Clock, ProxyError, sleep } from "../../base/mod.ts";
import type { SecretFile } from "../load/mod.ts";
import type { FileReading, FileSystem } from "./file_system.ts";

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
