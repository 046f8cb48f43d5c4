import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { readTlsFiles, type TlsFiles } from "./files.ts";

const NONE: TlsFiles = {
  caFile: "",
  caPath: "",
  certFile: "",
  keyFile: "",
  serverName: "",
  verify: true,
};
const [one, two] = [createAuthority().rootPem, createAuthority().rootPem];

/** A directory with these files, read as `-ca-path`. */
function readPath(files: Readonly<Record<string, string>>) {
  const directory = mkdtempSync(join(tmpdir(), "postern-ca-path-"));
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
    mkdirSync(join(directory, "a-directory"));
    return readTlsFiles({ ...NONE, caPath: directory });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test("readTlsFiles() reads every certificate of every file in -ca-path", () => {
  const { caPems, caName, certName } = readPath({ "b.pem": two, "a.pem": one + two });
  assert.deepEqual(caPems.join("").match(/BEGIN/g)?.length, 3);
  assert.match(caPems.join(""), new RegExp(`^${one.slice(0, 200).replaceAll("+", "\\+")}`));
  assert.match(caName, /^-ca-path \(CONSUL_CAPATH\) ".*postern-ca-path-/);
  assert.equal(certName, "", "there is no client certificate");
});

for (
  const [what, files, fact] of [
    ["nothing", {}, /it holds no certificate/],
    ["a file without a certificate", { "a.pem": one, "b.txt": "hello" }, /b\.txt/],
    [
      "too many files",
      Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [String(at), ""])),
      /more than 1000 files/,
    ],
  ] as const
) {
  test(`readTlsFiles() refuses a -ca-path with ${what}`, () => {
    assert.throws(() => readPath(files), { code: "config_invalid", message: fact });
  });
}
