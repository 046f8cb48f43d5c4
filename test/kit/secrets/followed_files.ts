/**
 * A follower of files for tests: with its record, its log, and a fake clock that waits for the disk.
 *
 * @module
 */

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, createLog, type LogRecord } from "../../../src/base/mod.ts";
import { type FileSystem, readWhole, realFiles } from "../../../src/secrets/file/file_system.ts";
import {
  FileHub,
  type FileProviderOptions,
  watchSpec,
} from "../../../src/secrets/file/file_hub.ts";
import { createLoader } from "../../../src/secrets/load/mod.ts";
import type {
  CertificateSpec,
  SecretProvider,
  SecretSpec,
  SecretWatch,
} from "../../../src/secrets/mod.ts";
import { type FakeClock, settle } from "../clock/clock.ts";
import { followChanges } from "./secret_changes.ts";
import { newPair, pairSpec, refOf, SecretRecord, type TestPair } from "./secret_files.ts";
import { SteadyClock } from "../clock/steady_clock.ts";

interface FollowSetup {
  /** Default: a {@link SteadyClock} of its own. */
  readonly clock?: Clock;
  readonly files?: Partial<FileSystem>;
  readonly pollMs?: number;
  readonly watch?: boolean;
}

export interface Followed extends AsyncDisposable {
  readonly record: SecretRecord;
  readonly hub: FileHub;
  readonly lines: readonly LogRecord[];
  readonly watching: SecretWatch;
  /**
   * Runs `act` while nothing is read and no time passes: its changes are seen whole, or not at all.
   */
  unseen<T>(act: () => Promise<T>): Promise<T>;
}

export function follow(spec: SecretSpec, setup: FollowSetup = {}): Followed {
  const { clock = new SteadyClock(), pollMs = 3_600_000, watch = true } = setup;
  const files = counted({ ...realFiles, ...setup.files });
  const lines: LogRecord[] = [];
  const write = (line: LogRecord) => void lines.push(line);
  const log = createLog({ clock, write, holder: { level: "trace" } });
  const record = new SecretRecord();
  const hub = new FileHub({ clock, log, files, pollMs });
  const watching = followChanges(fileProvider(hub, clock), refOf(spec, watch), record);
  const close = async () => {
    await hub.close();
    if (!setup.clock && clock instanceof SteadyClock) clock[Symbol.dispose]();
  };
  const unseen = async <T>(act: () => Promise<T>) => {
    const alone = async () => {
      while (reading > 0) await settle();
      return await act();
    };
    return await (clock instanceof SteadyClock ? clock.still(alone) : alone());
  };
  return { record, hub, lines, watching, unseen, [Symbol.asyncDispose]: close };
}

/** For a provider whose TLS library takes everything. */
export function fileOptions(hub: FileHub, clock: Clock): FileProviderOptions {
  const load = createLoader({ clock, read: readWhole, tlsFault: () => undefined });
  return { hub, env: {}, load };
}

/** Follows references of source kind `spec`. */
export function fileProvider(hub: FileHub, clock: Clock): Pick<SecretProvider, "watch"> {
  return { watch: (ref, events) => watchSpec(ref, fileOptions(hub, clock), events) };
}

let reading = 0;

/** Counts calls to the disk that are not answered yet: the fake clock does not move meanwhile. */
export function counted(files: FileSystem): FileSystem {
  const count = async <T>(answer: Promise<T>) => {
    reading++;
    try {
      return await answer;
    } finally {
      reading--;
    }
  };
  return {
    read: (path, limitBytes) => count(files.read(path, limitBytes)),
    stamp: (path) => count(files.stamp(path)),
    entry: (path) => count(files.entry(path)),
    identity: (path) => count(files.identity(path)),
    watch: (path, hints) => files.watch(path, hints),
  };
}

/** Moves a fake clock on until `fact` is true; reads meanwhile take real time. */
export async function advanceUntil(
  clock: FakeClock,
  fact: () => boolean,
  limitMs = 60_000,
): Promise<void> {
  const endMs = clock.monotonic() + limitMs;
  for (;;) {
    do await settle(); while (reading > 0);
    if (fact()) return;
    assert.ok(clock.monotonic() < endMs, `not within ${limitMs} ms`);
    await clock.advance(10);
  }
}

/** A file system without events. */
export const SILENT: Partial<FileSystem> = { watch: () => ({ close() {} }) };

/** `web.pem` and `web.key`. */
export async function writePair(
  directory: string,
  pair: TestPair = newPair(),
): Promise<TestPair> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "web.pem"), pair.certPem);
  await writeFile(join(directory, "web.key"), pair.keyPem, { mode: 0o600 });
  return pair;
}

export function specIn(directory: string, rest: Partial<CertificateSpec> = {}): CertificateSpec {
  return pairSpec(join(directory, "web.pem"), join(directory, "web.key"), rest);
}
