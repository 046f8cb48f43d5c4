/**
 * Files are rotated by every scheme in use while clients open and close connections: no client notices,
 * each new certificate is shown within a second, and nothing grows.
 */
import assert from "node:assert/strict";
import test from "node:test";
import { rounds } from "../../kit/clock/long.ts";
import { pause } from "../../kit/process/process.ts";
import { ROTATION_SCHEMES, type RotationScheme } from "../../kit/secrets/rotating_files.ts";
import { clientOf, RotatingMesh } from "./rotating_mesh.ts";
import {
  assertPrompt,
  figures,
  type Held,
  heldOver,
  rotateAndWait,
  type Shown,
} from "./rotations.ts";
import { TlsLoad } from "./tls_load.ts";

/** Rotations of each place whose scheme has no pause within a rotation. */
const ROUNDS = rounds("rotations of each scheme under load", { few: 5, all: 200 });
/** By then everything that grows only at first has done so. */
const SETTLED_ROUNDS = ROUNDS / 4;
/**
 * Memory that the collectors leave behind; 750 rotations more would leave more if they left anything.
 */
const RESIDENT_LIMIT_BYTES = 80 * 1_048_576;
const CLIENTS = rounds("clients beside rotations", { few: 8, all: 50 });
const CLIENT_PAUSE_MS = 250;

/**
 * The most followers of one place's files: listener, upstream and inbound, with two forms of files each.
 */
const FOLLOWERS = 6;

const prompt = ROTATION_SCHEMES.filter(({ gapMs }) => gapMs === undefined);
/** 200 rotations of each scheme take 20 rounds of ten places at the same time. */
const LATE_ROUNDS = rounds("rounds of late keys under load", { few: 2, all: 20 });
const LATE_PLACES = rounds("places of late keys at the same time", { few: 2, all: 10 });
const late = ROTATION_SCHEMES.filter(({ gapMs }) => gapMs !== undefined)
  .flatMap((scheme) => Array.from({ length: LATE_PLACES }, () => scheme));

test("files rotated by every scheme under load fail no connection", async () => {
  const { before, after, failed, torn } = await rotateUnderLoad(prompt, ROUNDS, SETTLED_ROUNDS);
  // A file that the test itself left torn for too long is rightly called torn, by every follower.
  assert.ok(failed <= FOLLOWERS * torn, `${failed} were called failed, ${torn} took long to write`);
  const grownBytes = after.residentBytes - before.residentBytes;
  assert.ok(grownBytes < RESIDENT_LIMIT_BYTES, `grew by ${grownBytes} bytes`);
  assert.ok(after.descriptors <= before.descriptors, `${after.descriptors} descriptors`);
});

test("a key seconds before or after its certificate under load is waited for", async () => {
  const { before, after, failed } = await rotateUnderLoad(late, LATE_ROUNDS, 1);
  assert.ok(failed > 0, "a pair that does not match for two seconds is logged");
  assert.ok(after.descriptors <= before.descriptors, `${after.descriptors} descriptors`);
});

interface Outcome {
  readonly before: Held;
  readonly after: Held;
  /** Rotations that the proxy called failed. */
  readonly failed: number;
  /** Rotations that this process was too slow to write. */
  readonly torn: number;
}

/** `settled`: the rounds before the first measurement. */
async function rotateUnderLoad(
  schemes: readonly RotationScheme[],
  rounds: number,
  settled: number,
): Promise<Outcome> {
  await using mesh = await RotatingMesh.start(schemes);
  const client = clientOf(mesh.authority);
  await using load = new TlsLoad(mesh.upstreams, client, {
    clients: CLIENTS,
    pauseMs: CLIENT_PAUSE_MS,
  });
  const shown = schemes.map((): Shown[] => []);
  const rotate = (count: number) =>
    Promise.all(schemes.map(async (_, index) => {
      for (let round = 0; round < count; round++) {
        shown[index]?.push(await rotateAndWait(mesh, client, { index }));
      }
    }));
  const started = performance.now();
  await rotate(settled);
  await load.stop();
  const { before, after } = await heldOver(mesh, { limitBytes: RESIDENT_LIMIT_BYTES }, async () => {
    load.resume();
    await rotate(rounds - settled);
    // Clients that were there all the time, and some after the last rotation.
    await pause(2 * CLIENT_PAUSE_MS);
    await load.stop();
  });
  const { exchanges, failures } = load.result;
  const seconds = (performance.now() - started) / 1_000;
  console.log(
    `${exchanges} connections, ${failures.length} failures in ${seconds.toFixed(0)} s; ` +
      `${(before.residentBytes / 1_048_576).toFixed(1)} to ` +
      `${(after.residentBytes / 1_048_576).toFixed(1)} MiB, ` +
      `${before.descriptors} to ${after.descriptors} descriptors`,
  );
  // All times of a scheme that several places use are judged together: the median of a few measures
  // the machine.
  const byScheme = Map.groupBy(shown.keys(), (index) => schemes[index]?.name ?? "");
  const all = [...byScheme].map(([name, indexes]) =>
    [name, indexes.flatMap((index) => shown[index] ?? [])] as const
  );
  for (const [name, those] of all) console.log(`  ${figures(name, those)}`);
  assert.deepEqual(failures, [], mesh.postern.process.tail());
  assert.ok(exchanges >= rounds, `only ${exchanges} connections`);
  for (const [name, those] of all) assertPrompt(name, those);
  return {
    before,
    after,
    failed: await mesh.postern.metric("postern_secret_rotation_failed_total"),
    torn: mesh.files.reduce((sum, { tornByUs }) => sum + tornByUs, 0),
  };
}
