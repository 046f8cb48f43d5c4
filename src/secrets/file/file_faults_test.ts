import assert from "node:assert/strict";
import test from "node:test";
import { execFileSync } from "node:child_process";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import {
  advanceUntil,
  follow,
  SILENT,
  specIn,
  writePair,
} from "../../../test/kit/secrets/followed_files.ts";
import { newPair, ROOT_PEM, temporaryDirectory } from "../../../test/kit/secrets/secret_files.ts";
import { SteadyClock } from "../../../test/kit/clock/steady_clock.ts";
import { ProxyError, sleep } from "../../base/mod.ts";
import { NO_RULES } from "../../identity/mod.ts";
import type { SecretSpec } from "../model/secret.ts";
import { type FileSystem, realFiles } from "./file_system.ts";

/** Faults of files and of watches, and recovery from them. */

for (const first of ["web.key", "web.pem"] as const) {
  test(`a pair whose ${first} is written two seconds early is one value, without a fault`, async () => {
    await using directory = await temporaryDirectory();
    const old = await writePair(directory.path);
    await using follower = follow(specIn(directory.path));
    const { record } = follower;
    await record.holds(old);
    const next = newPair();
    const contents = { "web.key": next.keyPem, "web.pem": next.certPem };
    const second = first === "web.key" ? "web.pem" : "web.key";
    await writeFile(join(directory.path, first), contents[first]);
    // Reported only after the grace, because the pair may still be incomplete.
    await record.until(() => record.rejected.length > 0);
    assert.match(record.rejected[0] ?? "", /web\.pem .*web\.key: the private key does not belong/);
    assert.equal(record.certificate?.certPem, old.certPem);
    await follower.unseen(() => writeFile(join(directory.path, second), contents[second]));
    await record.holds(next);
    assert.equal(record.rejected.length, 1);
    assert.equal(record.secrets.length, 2);
  });
}

test("a pair that is complete within the grace is not reported as a fault", async () => {
  await using directory = await temporaryDirectory();
  const clock = new FakeClock({ startMs: Date.now() });
  const old = await writePair(directory.path);
  await using follower = follow(specIn(directory.path), { clock, files: SILENT, pollMs: 100 });
  const { record } = follower;
  await advanceUntil(clock, () => record.certificate?.certPem === old.certPem);
  const next = newPair();
  await writeFile(join(directory.path, "web.key"), next.keyPem);
  await clock.advance(400);
  await writeFile(join(directory.path, "web.pem"), next.certPem);
  await advanceUntil(clock, () => record.certificate?.certPem === next.certPem);
  assert.deepEqual(record.rejected, []);
});

test("files that appear late are read, whatever part of the path was missing", async () => {
  await using directory = await temporaryDirectory();
  const place = join(directory.path, "a", "b", "tls");
  await using follower = follow(specIn(place));
  const { record } = follower;
  await record.until(() => record.rejected.length > 0);
  assert.match(record.rejected[0] ?? "", /^Cannot read .*\/tls\/web\.pem: there is no such file$/);
  await record.holds(
    await follower.unseen(async () => {
      await mkdir(join(directory.path, "a", "b"), { recursive: true });
      return await writePair(place);
    }),
  );
  assert.equal(record.rejected.length, 1);
});

test("the poll finds every change within its interval, without watches", async () => {
  await using directory = await temporaryDirectory();
  const clock = new FakeClock({ startMs: Date.now() });
  const old = await writePair(join(directory.path, "v1"));
  await symlink("v1", join(directory.path, "current"));
  const spec = specIn(join(directory.path, "current"));
  await using follower = follow(spec, { clock, files: SILENT, pollMs: 10_000 });
  const { record } = follower;
  await advanceUntil(clock, () => record.certificate?.certPem === old.certPem);
  for (let round = 2; round < 6; round++) {
    const pair = newPair();
    if (round % 2) await writePair(join(directory.path, "current"), pair);
    else {
      await writePair(join(directory.path, `v${round}`), pair);
      await symlink(`v${round}`, join(directory.path, "new"));
      await rename(join(directory.path, "new"), join(directory.path, "current"));
    }
    const startMs = clock.monotonic();
    await advanceUntil(clock, () => record.certificate?.certPem === pair.certPem);
    assert.ok(clock.monotonic() - startMs <= 10_200);
  }
  assert.equal(record.secrets.length, 5);
  assert.deepEqual(record.rejected, []);
});

for (const code of ["ENOSPC", "EMFILE"]) {
  test(`without watches (${code}), a directory is logged once, polled, and watched later`, async () => {
    await using directory = await temporaryDirectory();
    const clock = new FakeClock({ startMs: Date.now() });
    let exhausted = true;
    let live = 0;
    const files: Partial<FileSystem> = {
      watch() {
        if (exhausted) throw Object.assign(new Error(`${code}: limit reached`), { code });
        live++;
        return { close: () => void live-- };
      },
    };
    const old = await writePair(directory.path);
    const follower = follow(specIn(directory.path), { clock, files, pollMs: 10_000 });
    const { record, lines } = follower;
    await advanceUntil(clock, () => record.certificate?.certPem === old.certPem);
    const next = await writePair(directory.path);
    await advanceUntil(clock, () => record.certificate?.certPem === next.certPem, 10_200);
    assert.equal(lines.filter((line) => line.level === "warn").length, 1);
    assert.match(String(lines[0]?.fields["reason"]), new RegExp(code));
    exhausted = false;
    await advanceUntil(clock, () => live === 1, 20_000);
    await follower.hub.close();
    assert.equal(live, 0);
    assert.equal(clock.pending, 0);
  });
}

test("files that change at every reading are not used until they are stable", async () => {
  await using directory = await temporaryDirectory();
  const clock = new FakeClock({ startMs: Date.now() });
  const pair = await writePair(directory.path);
  let readings = 0;
  let torn = true;
  const files: Partial<FileSystem> = {
    ...SILENT,
    async read(path, limitBytes) {
      const reading = await realFiles.read(path, limitBytes);
      if (!torn || !reading) return reading;
      // Each reading is valid and has another stamp; every third one changed while it was read.
      return ++readings % 3 === 0 ? null : { ...reading, stamp: `${readings}` };
    },
  };
  await using follower = follow(specIn(directory.path), { clock, files });
  const { record } = follower;
  await advanceUntil(clock, () => record.rejected.length > 0);
  assert.match(record.rejected[0] ?? "", /web\.(pem|key): it changes while it is read/);
  await clock.advance(30_000);
  assert.equal(record.rejected.length + record.secrets.length <= 2, true);
  assert.equal(record.secrets.length, 0);
  torn = false;
  await advanceUntil(clock, () => record.certificate?.certPem === pair.certPem);
});

test("a truncated file is not used", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "ca.pem");
  await writeFile(path, ROOT_PEM);
  const spec: SecretSpec = {
    type: "validation",
    trustedCa: { kind: "file", path },
    systemRoots: false,
    rules: NO_RULES,
  };
  await using follower = follow(spec);
  const { record } = follower;
  await record.until(() => record.secrets.length === 1);
  await writeFile(path, ROOT_PEM.slice(0, 300));
  await record.until(() => record.rejected.length === 1);
  assert.match(record.rejected[0] ?? "", /ca\.pem: PEM block "CERTIFICATE" has no END line/);
  await writeFile(path, ROOT_PEM);
  await record.until(() => record.recovered === 1);
  assert.equal(record.secrets.length, 1);
});

test("an unreadable file is reported, and read when it becomes readable", async () => {
  await using directory = await temporaryDirectory();
  const clock = new FakeClock({ startMs: Date.now() });
  const pair = await writePair(directory.path);
  let denied = true;
  const files: Partial<FileSystem> = {
    ...SILENT,
    read(path, limitBytes) {
      if (!denied || !path.endsWith(".key")) return realFiles.read(path, limitBytes);
      const message = `Cannot read ${path}: permission denied`;
      return Promise.reject(new ProxyError("credentials_invalid", message));
    },
  };
  await using follower = follow(specIn(directory.path), { clock, files });
  const { record } = follower;
  await advanceUntil(clock, () => record.rejected.length > 0);
  await clock.advance(60_000);
  assert.deepEqual(record.rejected, [
    `Cannot read ${join(directory.path, "web.key")}: permission denied`,
  ]);
  denied = false;
  await advanceUntil(clock, () => record.certificate?.certPem === pair.certPem, 5_500);
});

test("the last pair of files that are rewritten ten times a second is used", async () => {
  await using directory = await temporaryDirectory();
  using clock = new SteadyClock();
  await using follower = follow(specIn(directory.path), { clock });
  const { record } = follower;
  let last = await writePair(directory.path);
  for (let round = 0; round < 40; round++) {
    last = await clock.still(() => writePair(directory.path));
    await sleep(clock, 5);
  }
  await record.holds(last);
  assert.deepEqual(record.rejected, []);
});

test("a source without a watch is read until it is valid, and not again", async () => {
  await using directory = await temporaryDirectory();
  await using follower = follow(specIn(directory.path), { watch: false });
  const { record, hub } = follower;
  await record.until(() => record.rejected.length === 1);
  const pair = await writePair(directory.path);
  await record.holds(pair);
  await writePair(directory.path);
  follower.watching.refresh();
  assert.equal(hub.watchedDirectories, 0);
  // When another follower has the new pair, this one would have it, too.
  await using other = follow(specIn(directory.path));
  await other.record.until(() => other.record.secrets.length === 1);
  assert.equal(record.secrets.length, 1);
});

test("a key file that others can read is logged once", async () => {
  await using directory = await temporaryDirectory();
  const key = join(directory.path, "web.key");
  for (const [mode, level] of [[0o644, "warn"], [0o640, "info"], [0o600, undefined]] as const) {
    await rm(key, { force: true });
    await writePair(directory.path);
    execFileSync("chmod", [mode.toString(8), key]);
    await using follower = follow(specIn(directory.path));
    const { record, lines } = follower;
    await record.until(() => record.secrets.length === 1);
    await record.holds(await writePair(directory.path));
    assert.deepEqual(lines.map((line) => line.level), level ? [level] : []);
    if (level) assert.deepEqual(lines[0]?.fields, { file: key, mode: `0${mode.toString(8)}` });
  }
});

test("close() ends watches, timers and events", async () => {
  await using directory = await temporaryDirectory();
  const clock = new FakeClock({ startMs: Date.now() });
  const pair = await writePair(directory.path);
  const follower = follow(specIn(directory.path), { clock });
  await advanceUntil(clock, () => follower.record.certificate?.certPem === pair.certPem);
  assert.equal(follower.hub.watchedDirectories, 1);
  follower.watching.close();
  assert.equal(follower.hub.watchedDirectories, 0);
  await follower.hub.close();
  assert.equal(clock.pending, 0);
  await writePair(directory.path);
  await clock.advance(60_000);
  assert.equal(follower.record.secrets.length, 1);
});
