/** Where the system gives no watches, a poll finds every rotation, and SIGHUP finds it at once. */
import assert from "node:assert/strict";
import test from "node:test";
import { inTime } from "../../kit/clock/long.ts";
import { ROTATION_SCHEMES } from "../../kit/secrets/rotating_files.ts";
import { clientOf, issue, RotatingMesh } from "./rotating_mesh.ts";
import { figures, POLL_MS, rotateAndWait, type Shown, shows } from "./rotations.ts";

/** In a user namespace of its own the quota is the process's alone. */
const WITHOUT_INOTIFY = [
  ...["unshare", "--user", "--map-root-user", "sh", "-c"],
  'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"',
  "sh",
];
test("rotations without file events are found by a poll, and at once on SIGHUP", async () => {
  const schemes = ROTATION_SCHEMES.filter(({ gapMs }) => gapMs === undefined);
  await using mesh = await RotatingMesh.start(schemes, { under: WITHOUT_INOTIFY });
  const { postern } = mesh;
  await postern.process.waitFor(/directory cannot be watched, it is polled/, { timeoutMs: 30_000 });
  const client = clientOf(mesh.authority);
  // The second begins when a poll has just been, so it waits the whole time for the next.
  const shown: Shown[] = [];
  for (let round = 0; round < 2; round++) {
    shown.push(
      ...await Promise.all(schemes.map((_, index) => rotateAndWait(mesh, client, { index }))),
    );
  }
  console.log(figures("by poll alone", shown));
  inTime("each rotation, by poll alone,", Math.max(...shown.map(({ tookMs }) => tookMs)), 10_500);
  assert.ok(shown.some(({ tookMs }) => tookMs > 2_000), "something else than the poll found them");

  const reread: Shown[] = [];
  for (const [index, files] of mesh.files.entries()) {
    const leaf = issue(mesh.authority);
    const written = await files.rotate({ ...leaf, caPem: mesh.authority.rootPem });
    postern.kill("SIGHUP");
    await shows(mesh, client, { index, leaf });
    reread.push({ tookMs: performance.now() - written });
  }
  console.log(figures("on SIGHUP", reread));
  // One poll finds one of them at most, as each is written when the one before is shown.
  const prompt = reread.filter(({ tookMs }) => tookMs < POLL_MS / 2);
  assert.ok(prompt.length >= reread.length - 1, figures("on SIGHUP", reread));
  // Said once for each directory, not at each poll.
  const complaints = postern.output.match(/[^\n]*cannot be watched[^\n]*/g) ?? [];
  assert.equal(
    new Set(complaints.map((line) => line.match(/directory=(\S+)/)?.[1])).size,
    complaints.length,
  );
});
