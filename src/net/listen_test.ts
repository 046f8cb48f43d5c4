import assert from "node:assert/strict";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { UnixSocketFile } from "./listen.ts";

async function withSocket(
  judge: (at: { readonly file: UnixSocketFile; readonly path: string }) => void,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "postern-listen-"));
  const path = join(folder, "a.sock");
  const file = new UnixSocketFile({ kind: "unix", path, mode: 0o660 });
  const server = createServer();
  try {
    await new Promise<void>((resolve) => server.listen(file.path, resolve));
    judge({ file, path });
  } finally {
    await new Promise<void>((resolve) => void server.close(() => resolve()));
    rmSync(folder, { recursive: true });
  }
}

test("UnixSocketFile gives a socket its mode in a private directory, then its name", () =>
  withSocket(({ file, path }) => {
    assert.equal(existsSync(path), false);
    assert.equal(
      dirname(dirname(file.path)),
      dirname(path),
      "the private directory is beside the name",
    );
    assert.equal(statSync(dirname(file.path)).mode & 0o777, 0o700);
    file.publish();
    assert.equal(statSync(path).mode & 0o777, 0o660);
    assert.deepEqual(readdirSync(dirname(path)), ["a.sock"]);
    file.remove();
    assert.deepEqual(readdirSync(dirname(path)), []);
  }));

test("UnixSocketFile does not replace a file of another process", () =>
  withSocket(({ file, path }) => {
    writeFileSync(path, "precious");
    assert.throws(() => file.publish(), { code: "EEXIST" });
    file.remove();
    assert.deepEqual(readdirSync(dirname(path)), ["a.sock"]);
  }));

test("UnixSocketFile does not remove a name that another process has taken", () =>
  withSocket(({ file, path }) => {
    file.publish();
    rmSync(path);
    writeFileSync(path, "precious");
    file.remove();
    assert.equal(statSync(path).size, 8);
  }));

for (const [bytes, fits] of [[107, true], [108, false]] as const) {
  test(`UnixSocketFile ${fits ? "takes" : "refuses"} a path of ${bytes} bytes in its private directory`, () => {
    const folder = mkdtempSync(join(tmpdir(), "postern-listen-"));
    try {
      // Beside the name: `.`, six letters, and the socket `s`.
      const beside = "/.123456/s".length;
      const directory = join(folder, "x".repeat(bytes - beside - folder.length - 1));
      mkdirSync(directory);
      const open = () =>
        new UnixSocketFile({ kind: "unix", path: join(directory, "a"), mode: 0o660 });
      if (fits) {
        const file = open();
        assert.equal(file.path.length, bytes);
        file.discard();
      } else assert.throws(open, { code: "ENAMETOOLONG" });
      assert.deepEqual(readdirSync(directory), []);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}
