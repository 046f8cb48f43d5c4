/** Rotations leave nothing behind: no TLS context, no timer, no watch. */
import assert from "node:assert/strict";
import test from "node:test";
import { rounds } from "../../kit/clock/long.ts";
import { type RotationScheme, rotationScheme } from "../../kit/secrets/rotating_files.ts";
import { clientOf, RotatingMesh } from "./rotating_mesh.ts";
import { figures, heldOver, rotateAndWait, type Shown } from "./rotations.ts";

const ROTATIONS = rounds("rotations that leave nothing", { few: 40, all: 1_000 });
const SETTLED = ROTATIONS / 5;
/** A few that rotate at the same time take as long as one. */
const PLACES = 4;
/**
 * Engines free TLS contexts when their collector runs, which is late where so many are made: resident
 * memory goes up and down by 40 MiB, and on Bun comes to rest after 2,000 rotations.
 */
const LIMIT_BYTES = 80 * 1_048_576;

test("rotations leave memory and descriptors as they were", async () => {
  const schemes: RotationScheme[] = Array.from(
    { length: PLACES },
    () => rotationScheme("mv of each file"),
  );
  await using mesh = await RotatingMesh.start(schemes);
  const client = clientOf(mesh.authority);
  const shown: Shown[] = [];
  const rotate = async (count: number) => {
    await Promise.all(schemes.map(async (_, index) => {
      // Each is shown to a client, so that its context is made.
      for (let i = 0; i < count / PLACES; i++) {
        shown.push(await rotateAndWait(mesh, client, { index }));
      }
    }));
  };
  await rotate(SETTLED);
  const { before, after } = await heldOver(
    mesh,
    { limitBytes: LIMIT_BYTES },
    () => rotate(ROTATIONS - SETTLED),
  );
  console.log(
    `${(before.residentBytes / 1_048_576).toFixed(1)} MiB after ${SETTLED}, ` +
      `${(after.residentBytes / 1_048_576).toFixed(1)} MiB after ${ROTATIONS}, ` +
      `${before.descriptors} to ${after.descriptors} descriptors; ${figures("", shown)}`,
  );
  const grown = after.residentBytes - before.residentBytes;
  assert.ok(grown < LIMIT_BYTES, `grew by ${grown} bytes`);
  assert.ok(after.descriptors <= before.descriptors, `${after.descriptors} descriptors`);
});
