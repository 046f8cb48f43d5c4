import assert from "node:assert/strict";
import test from "node:test";
import { readdirSync } from "node:fs";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { settle } from "../../../test/kit/clock/clock.ts";
import { rounds } from "../../../test/kit/clock/long.ts";
import { fileProvider } from "../../../test/kit/secrets/followed_files.ts";
import {
  newPair,
  pairSpec,
  refOf,
  SecretRecord,
  temporaryDirectory,
} from "../../../test/kit/secrets/secret_files.ts";
import { followChanges } from "../../../test/kit/secrets/secret_changes.ts";
import { SteadyClock } from "../../../test/kit/clock/steady_clock.ts";
import { type FileSystem, realFiles } from "./file_system.ts";
import { FileHub } from "./file_hub.ts";

/** Many rotations and many secrets, without losses and leaks. */

/** Every ninth rotation is awaited. */
const LINKED = rounds("rotations by a link", { few: 108, all: 999 });
const IN_PLACE = rounds("rotations of each file in place", { few: 24, all: 200 });
const SECRETS = rounds("secrets of one directory", { few: 100, all: 1_000 });

test("many rotations by a link leave no descriptors or watches behind", async () => {
  await using directory = await temporaryDirectory();
  const pairs = [newPair(), newPair()] as const;
  const write = async (round: number) => {
    const place = join(directory.path, `v${round}`);
    const pair = pairs[round % 2 ? 1 : 0];
    await mkdir(place);
    await writeFile(join(place, "web.pem"), pair.certPem);
    await writeFile(join(place, "web.key"), pair.keyPem);
    await symlink(`v${round}`, join(directory.path, "new"));
    await rename(join(directory.path, "new"), join(directory.path, "current"));
    if (round > 0) await rm(join(directory.path, `v${round - 1}`), { recursive: true });
    return pair;
  };
  await write(0);
  using clock = new SteadyClock();
  const hub = new FileHub({ clock, pollMs: 50 });
  const record = new SecretRecord();
  const current = join(directory.path, "current");
  const spec = pairSpec(join(current, "web.pem"), join(current, "web.key"));
  followChanges(fileProvider(hub, clock), refOf(spec), record);
  await record.holds(pairs[0]);
  const descriptors = () => readdirSync("/proc/self/fd").length;
  const before = descriptors();
  const watched = hub.watchedDirectories;
  for (let round = 1; round <= LINKED; round++) {
    const pair = await write(round);
    // Every ninth rotation has the other pair; the rest come faster than they can be followed.
    if (round % 9 === 0) await record.holds(pair);
  }
  await record.holds(await write(LINKED + 1));
  assert.ok(record.secrets.length > LINKED / 9, `${record.secrets.length} rotations seen`);
  assert.deepEqual(record.rejected, []);
  // The last swap may have come while watches for the one before were made; its hint corrects them.
  const endMs = performance.now() + 30_000;
  while (hub.watchedDirectories !== watched) {
    assert.ok(performance.now() < endMs, `${hub.watchedDirectories} watches, not ${watched}`);
    await settle();
  }
  await hub.close();
  assert.ok(descriptors() <= before + 2, `${before} descriptors before, ${descriptors()} after`);
});

test("the last pair of rotations in place is used", async () => {
  await using directory = await temporaryDirectory();
  using clock = new SteadyClock();
  const hub = new FileHub({ clock, pollMs: 3_600_000 });
  const record = new SecretRecord();
  const spec = pairSpec(join(directory.path, "web.pem"), join(directory.path, "web.key"));
  followChanges(fileProvider(hub, clock), refOf(spec), record);
  for (let round = 0; round < IN_PLACE; round++) {
    const pair = newPair();
    await writeFile(join(directory.path, "web.key"), pair.keyPem);
    await writeFile(join(directory.path, "web.pem"), pair.certPem);
    if (round % 4 === 3) await record.holds(pair);
  }
  assert.deepEqual(record.rejected, []);
  await hub.close();
});

test("many secrets of one directory share a watch and one round of reading", async () => {
  await using directory = await temporaryDirectory();
  let watches = 0;
  let reading = 0;
  let most = 0;
  const files: FileSystem = {
    ...realFiles,
    watch(path, hints) {
      watches++;
      return realFiles.watch(path, hints);
    },
    async read(path, limitBytes) {
      most = Math.max(most, ++reading);
      try {
        return await realFiles.read(path, limitBytes);
      } finally {
        reading--;
      }
    },
  };
  using clock = new SteadyClock();
  const hub = new FileHub({ clock, files, pollMs: 3_600_000 });
  const provider = fileProvider(hub, clock);
  const pairs = [newPair(), newPair()] as const;
  const records: SecretRecord[] = [];
  for (let index = 0; index < SECRETS; index++) {
    const chain = join(directory.path, `${index}.pem`);
    const key = join(directory.path, `${index}.key`);
    await writeFile(chain, pairs[0].certPem);
    await writeFile(key, pairs[0].keyPem);
    const record = new SecretRecord();
    followChanges(provider, refOf(pairSpec(chain, key)), record);
    records.push(record);
  }
  await Promise.all(records.map((record) => record.holds(pairs[0], 120_000)));
  assert.equal(watches, 1);
  const startMs = clock.monotonic();
  await writeFile(join(directory.path, "50.key"), pairs[1].keyPem);
  await writeFile(join(directory.path, "50.pem"), pairs[1].certPem);
  await records[50]?.holds(pairs[1]);
  const tookMs = clock.monotonic() - startMs;
  assert.ok(tookMs < 1_000, `passed on after ${tookMs} ms`);
  assert.ok(most <= 8, `${most} files read at once`);
  await hub.close();
});
