/**
 * Packs executables for a release: an archive for each, Debian packages, a container image, and for all of
 * them a bill of materials (CycloneDX), SHA256SUMS and its signature.
 *
 *     deno run -A scripts/package.ts                              dist/postern, for this machine
 *     deno run -A scripts/package.ts linux-arm64=dist/postern-linux-arm64
 *     deno run -A scripts/package.ts --key release.pem --into DIR
 *
 * The same executables give the same bytes. The time in them is SOURCE_DATE_EPOCH, else that of the commit.
 * The key is PEM, Ed25519, from `--key FILE` or the variable POSTERN_SIGNING_KEY:
 *
 *     openssl genpkey -algorithm ed25519 -out release.pem
 *     openssl pkey -in release.pem -pubout -out postern-release.pub
 *
 * @module
 */

import { execFileSync } from "node:child_process";
import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import project from "../deno.json" with { type: "json" };
import { gzip, tar } from "./package/archives.ts";
import { archiveFiles, ROOT } from "./package/contents.ts";
import { billOfMaterials, containerImage, debianPackage, sha256 } from "./package/formats.ts";

/** Names of the files that this script writes. */
const PACKED =
  /^(?:postern[-_].+(?:\.tar\.gz|\.deb|\.oci\.tar|\.cdx\.json)|SHA256SUMS(?:\.sig)?|install\.sh)$/;
const TARGET = /^(?:linux|darwin)-(x64|arm64)(-musl)?$/;

interface Request {
  /** Executable by target. */
  readonly executables: ReadonlyMap<string, string>;
  readonly directory: string;
  readonly key: KeyObject | undefined;
  readonly time: Date;
}

function readRequest(argv: readonly string[]): Request {
  const executables = new Map<string, string>();
  let directory = join(ROOT, "dist", "packages");
  let keyText = process.env.POSTERN_SIGNING_KEY ?? "";
  for (let index = 0; index < argv.length; index++) {
    const word = argv[index] ?? "";
    const value = argv[index + 1];
    if (word === "--into" && value !== undefined) {
      directory = resolve(value);
      index++;
    } else if (word === "--key" && value !== undefined) {
      keyText = readFileSync(value, "utf8");
      index++;
    } else {
      const [target = "", file] = word.split("=");
      if (file === undefined || !TARGET.test(target)) {
        throw new Error(`Cannot take "${word}": want TARGET=FILE, --into DIR or --key FILE`);
      }
      executables.set(target, file);
    }
  }
  if (executables.size === 0) {
    executables.set(`${process.platform}-${process.arch}`, join(ROOT, "dist", "postern"));
  }
  const key = keyText === "" ? undefined : createPrivateKey(keyText);
  if (key && key.asymmetricKeyType !== "ed25519") {
    throw new Error(`Cannot sign with a key of type ${key.asymmetricKeyType}: want Ed25519`);
  }
  return { executables, directory, key, time: sourceTime() };
}

function sourceTime(): Date {
  const given = process.env.SOURCE_DATE_EPOCH;
  const seconds = given ??
    execFileSync("git", ["-C", ROOT, "log", "-1", "--format=%ct"], { encoding: "utf8" }).trim();
  if (!/^\d{1,11}$/.test(seconds)) {
    throw new Error(`Cannot read SOURCE_DATE_EPOCH "${seconds}": want seconds since 1970`);
  }
  return new Date(Number(seconds) * 1000);
}

/** The files of the release, by name. */
function pack({ executables, time }: Request): ReadonlyMap<string, Uint8Array> {
  const { version } = project;
  const files = new Map<string, Uint8Array>();
  for (const [target, file] of executables) {
    const executable = readFileSync(file);
    const directory = `postern-${version}-${target}`;
    const entries = archiveFiles(executable, { time, directory });
    files.set(`${directory}.tar.gz`, gzip(tar(entries, time.getTime() / 1000)));
    const architecture = target.includes("arm64") ? "arm64" : "amd64";
    const options = { version, architecture, time } as const;
    if (!target.startsWith("linux") || target.endsWith("-musl")) continue;
    files.set(`postern_${version}_${architecture}.deb`, debianPackage(executable, options));
    const image = containerImage(file, options);
    if (image) files.set(`${directory}.oci.tar`, image);
    else process.stderr.write(`no image of ${file}: its libraries are not on this machine\n`);
  }
  const utf8 = new TextEncoder();
  files.set(`postern-${version}.cdx.json`, utf8.encode(billOfMaterials(version, time)));
  files.set("install.sh", readFileSync(join(ROOT, "scripts", "package", "install.sh")));
  return files;
}

function main(): void {
  const request = readRequest(process.argv.slice(2));
  const { directory, key } = request;
  const files = pack(request);
  mkdirSync(directory, { recursive: true });
  // Files of an earlier release would not be in the sums. Other files are not of this script.
  for (const name of readdirSync(directory).filter((name) => PACKED.test(name))) {
    rmSync(join(directory, name));
  }
  const sums = Array.from(files, ([name, bytes]) => `${sha256(bytes)}  ${name}\n`).sort().join("");
  const all = new Map([...files, ["SHA256SUMS", new TextEncoder().encode(sums)] as const]);
  if (key) all.set("SHA256SUMS.sig", sign(null, new TextEncoder().encode(sums), key));
  for (const [name, bytes] of all) {
    writeFileSync(join(directory, name), bytes);
    process.stdout.write(`${join(directory, name)}  ${bytes.length} bytes\n`);
  }
  if (!key) process.stderr.write("not signed: give --key FILE or POSTERN_SIGNING_KEY\n");
}

try {
  main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}
