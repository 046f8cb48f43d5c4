import assert from "node:assert/strict";
import test from "node:test";
import { copyFile, mkdir, rename, rm, symlink, unlink } from "node:fs/promises";
import { join } from "node:path";
import { follow, specIn, writePair } from "../../../test/kit/secrets/followed_files.ts";
import {
  newPair,
  temporaryDirectory,
  type TestPair,
} from "../../../test/kit/secrets/secret_files.ts";
import { SteadyClock } from "../../../test/kit/clock/steady_clock.ts";
import type { CertificateSpec } from "../model/secret.ts";

/** Common schemes of file rotation, on a real file system. */

/** Each scheme prepares `root`, returns the files to follow, and rotates to the next pair. */
interface Scheme {
  readonly name: string;
  prepare(root: string, pair: TestPair): Promise<CertificateSpec>;
  rotate(root: string, pair: TestPair, round: number): Promise<void>;
}

const SCHEMES: readonly Scheme[] = [
  {
    name: "rename over a symlinked directory",
    async prepare(root, pair) {
      await writePair(join(root, "v0"), pair);
      await symlink("v0", join(root, "current"));
      return specIn(join(root, "current"));
    },
    async rotate(root, pair, round) {
      await writePair(join(root, `v${round}`), pair);
      await symlink(`v${round}`, join(root, "new"));
      await rename(join(root, "new"), join(root, "current"));
      await rm(join(root, `v${round - 1}`), { recursive: true });
    },
  },
  {
    name: "the same with a watched directory",
    async prepare(root, pair) {
      await writePair(join(root, "v0"), pair);
      await symlink("v0", join(root, "current"));
      return specIn(join(root, "current"), {
        watchedDirectory: { path: root, watchModify: false },
      });
    },
    async rotate(root, pair, round) {
      await writePair(join(root, `v${round}`), pair);
      await symlink(`v${round}`, join(root, "new"));
      await rename(join(root, "new"), join(root, "current"));
      await rm(join(root, `v${round - 1}`), { recursive: true });
    },
  },
  {
    name: "Kubernetes' ..data",
    async prepare(root, pair) {
      await writePair(join(root, "..v0"), pair);
      await symlink("..v0", join(root, "..data"));
      await symlink("..data/web.pem", join(root, "web.pem"));
      await symlink("..data/web.key", join(root, "web.key"));
      return specIn(root);
    },
    async rotate(root, pair, round) {
      await writePair(join(root, `..v${round}`), pair);
      await symlink(`..v${round}`, join(root, "..data_tmp"));
      await rename(join(root, "..data_tmp"), join(root, "..data"));
      await rm(join(root, `..v${round - 1}`), { recursive: true });
    },
  },
  {
    name: "mv of each file",
    async prepare(root, pair) {
      await writePair(root, pair);
      return specIn(root);
    },
    async rotate(root, pair) {
      const next = join(root, "next");
      await writePair(next, pair);
      await rename(join(next, "web.pem"), join(root, "web.pem"));
      await rename(join(next, "web.key"), join(root, "web.key"));
    },
  },
  {
    name: "cp in place",
    async prepare(root, pair) {
      await writePair(join(root, "tls"), pair);
      return specIn(join(root, "tls"));
    },
    async rotate(root, pair) {
      await writePair(join(root, "next"), pair);
      await copyFile(join(root, "next", "web.pem"), join(root, "tls", "web.pem"));
      await copyFile(join(root, "next", "web.key"), join(root, "tls", "web.key"));
    },
  },
  {
    name: "symlinks of the files themselves",
    async prepare(root, pair) {
      await writePair(join(root, "archive0"), pair);
      await mkdir(join(root, "live"));
      await symlink("../archive0/web.pem", join(root, "live", "web.pem"));
      await symlink("../archive0/web.key", join(root, "live", "web.key"));
      return specIn(join(root, "live"));
    },
    async rotate(root, pair, round) {
      await writePair(join(root, `archive${round}`), pair);
      for (const name of ["web.pem", "web.key"]) {
        await unlink(join(root, "live", name));
        await symlink(`../archive${round}/${name}`, join(root, "live", name));
      }
    },
  },
  {
    name: "a directory removed and made anew",
    async prepare(root, pair) {
      await writePair(join(root, "tls"), pair);
      return specIn(join(root, "tls"));
    },
    async rotate(root, pair) {
      await rm(join(root, "tls"), { recursive: true });
      await writePair(join(root, "tls"), pair);
    },
  },
];

for (const scheme of SCHEMES) {
  test(`files are followed through ${scheme.name}`, async () => {
    await using directory = await temporaryDirectory();
    const first = newPair();
    const spec = await scheme.prepare(directory.path, first);
    using clock = new SteadyClock();
    await using follower = follow(spec, { clock });
    await follower.record.holds(first);
    for (let round = 1; round <= 4; round++) {
      const pair = newPair();
      await follower.unseen(() => scheme.rotate(directory.path, pair, round));
      const startMs = clock.monotonic();
      await follower.record.holds(pair);
      const tookMs = clock.monotonic() - startMs;
      assert.ok(tookMs < 1_000, `passed on after ${tookMs} ms`);
    }
    assert.deepEqual(follower.record.rejected, []);
    assert.equal(follower.record.secrets.length, 5);
  });
}
