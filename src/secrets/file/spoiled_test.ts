/** Other content in place of a key. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { follow, SILENT, specIn, writePair } from "../../../test/kit/secrets/followed_files.ts";
import { temporaryDirectory } from "../../../test/kit/secrets/secret_files.ts";

const FAULTS: readonly {
  readonly name: string;
  readonly fault: RegExp;
  spoil(path: string): Promise<void> | void;
}[] = [
  { name: "a directory", fault: /: it is a directory$/, spoil: (path) => mkdir(path) },
  {
    name: "a FIFO",
    fault: /: it is not a regular file$/,
    spoil: (path) => void execFileSync("mkfifo", [path]),
  },
  { name: "a device", fault: /: it is not a regular file$/, spoil: (p) => symlink("/dev/zero", p) },
  {
    name: "a loop of links",
    fault: /: its path is a loop of symbolic links$/,
    spoil: (path) => symlink("web.key", path),
  },
  { name: "a dead link", fault: /: there is no such file$/, spoil: (path) => symlink("no", path) },
  {
    name: "a large file",
    fault: /: it has more than 1048576 bytes$/,
    spoil: (path) => writeFile(path, "x".repeat(2 << 20)),
  },
];

for (const { name, fault, spoil } of FAULTS) {
  test(`${name} in place of a key is reported with path and reason, and its end is reported`, async () => {
    await using directory = await temporaryDirectory();
    const old = await writePair(directory.path);
    // Deno's watcher opens new entries, and blocks on a FIFO for ever, so only the poll is used there.
    const setup = name === "a FIFO" && "Deno" in globalThis ? { files: SILENT, pollMs: 100 } : {};
    await using follower = follow(specIn(directory.path), setup);
    const { record } = follower;
    await record.holds(old);
    const key = join(directory.path, "web.key");
    await rm(key);
    await spoil(key);
    await record.until(() => record.rejected.some((reason) => fault.test(reason)));
    assert.ok(record.rejected.every((reason) => reason.includes(key)));
    assert.equal(record.certificate?.certPem, old.certPem);
    await rm(key, { recursive: true });
    await writeFile(key, old.keyPem);
    await record.until(() => record.recovered === 1);
    await record.holds(await writePair(directory.path));
    assert.equal(record.secrets.length, 2);
  });
}
