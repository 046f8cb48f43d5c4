/** Watches that fail only after they were made, such as Deno's when the quota is used up. */
import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import {
  advanceUntil,
  follow,
  specIn,
  writePair,
} from "../../../test/kit/secrets/followed_files.ts";
import { temporaryDirectory } from "../../../test/kit/secrets/secret_files.ts";
import { type FileSystem, realFiles } from "./file_system.ts";

/** Far longer than the first reading takes by the fake clock, which advances a step each turn. */
const POLL_MS = 30_000;

/** Advances the clock, and lets pending disk operations end. */
async function quiet(clock: FakeClock, ms: number): Promise<void> {
  const endMs = clock.monotonic() + ms;
  await advanceUntil(clock, () => clock.monotonic() >= endMs);
}

test("a broken watch is logged once, and only the poll makes it again", async () => {
  await using directory = await temporaryDirectory();
  const clock = new FakeClock({ startMs: Date.now() });
  let broken = true;
  let live = 0;
  let watches = 0;
  let readings = 0;
  const files: Partial<FileSystem> = {
    read(path, limitBytes) {
      readings++;
      return realFiles.read(path, limitBytes);
    },
    watch(_path, { onLost }) {
      watches++;
      live++;
      if (broken) queueMicrotask(() => onLost("EMFILE: too many open files"));
      return { close: () => void live-- };
    },
  };
  const old = await writePair(directory.path);
  const follower = follow(specIn(directory.path), { clock, files, pollMs: POLL_MS });
  const { record, lines } = follower;
  await advanceUntil(clock, () => record.certificate?.certPem === old.certPem);
  await quiet(clock, 5_000);
  const [watchesBefore, readingsBefore] = [watches, readings];
  await quiet(clock, 4_000);
  assert.equal(watches, watchesBefore);
  assert.equal(readings, readingsBefore, "nothing is read without a poll or a hint");
  const next = await writePair(directory.path);
  await advanceUntil(clock, () => record.certificate?.certPem === next.certPem, POLL_MS + 200);
  const warnings = lines.filter((line) => line.level === "warn");
  assert.equal(warnings.length, 1);
  assert.match(String(warnings[0]?.fields["reason"]), /EMFILE/);
  broken = false;
  await advanceUntil(clock, () => live === 1, 2 * POLL_MS);
  await follower.hub.close();
  assert.equal(live, 0);
});
