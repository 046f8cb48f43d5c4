import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { peer } from "../../scripts/peers.ts";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
/** Stands for the executable: small, and it needs the C library. */
const EXECUTABLE = "/bin/echo";

let directory = "";
let release = "";
const at = (...parts: string[]) => join(directory, ...parts);

async function run(program: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, SOURCE_DATE_EPOCH: "1700000000" };
  return (await promisify(execFile)(program, args, { env, cwd: ROOT })).stdout;
}

async function pack(into: string): Promise<void> {
  const [deno, ...first] = "Deno" in globalThis ? [process.execPath] : ["npx", "-y", "deno@2.9.6"];
  const script = join(ROOT, "scripts", "package.ts");
  const words = [`linux-x64=${EXECUTABLE}`, "--key", at("key.pem"), "--into", into];
  await run(deno ?? "", ...first, "run", "-A", "--no-check", script, ...words);
}

const install = (...args: string[]) => run("sh", join(release, "install.sh"), ...args);

before(async () => {
  directory = await mkdtemp(join(tmpdir(), "postern-packages-"));
  release = at("release");
  await run("openssl", "genpkey", "-algorithm", "ed25519", "-out", at("key.pem"));
  await run("openssl", "pkey", "-in", at("key.pem"), "-pubout", "-out", at("key.pub"));
  await pack(release);
});
after(() => rm(directory, { recursive: true, force: true }));

test("the same executable gives the same packages", async () => {
  await pack(at("again"));
  const names = await readdir(release);
  assert.ok(names.length >= 7, names.join(" "));
  for (const name of names) {
    const [one, other] = await Promise.all([release, at("again")].map((place) => {
      return readFile(join(place, name));
    }));
    assert.ok(one && other && one.equals(other), name);
  }
});

test("packing removes the files of an earlier release, and no others", async () => {
  const place = at("used");
  await mkdir(place);
  for (const name of ["notes.txt", "postern_0.0.1_amd64.deb", "SHA256SUMS.sig"]) {
    await writeFile(join(place, name), "old");
  }
  await pack(place);
  const names = await readdir(place);
  assert.deepEqual(names.sort(), [...await readdir(release), "notes.txt"].sort());
  assert.notEqual(await readFile(join(place, "SHA256SUMS.sig"), "utf8"), "old");
});

test("dpkg installs the Debian package, and its manual shows without a warning", async () => {
  const [name = ""] = (await readdir(release)).filter((one) => one.endsWith(".deb"));
  const root = at("debian");
  for (const below of ["info", "updates"]) {
    await mkdir(join(root, "var/lib/dpkg", below), { recursive: true });
  }
  for (const below of ["status", "available"]) {
    await writeFile(join(root, "var/lib/dpkg", below), "");
  }
  const force = ["--force-script-chrootless", "--force-depends", "--force-not-root"];
  await run("dpkg", `--root=${root}`, ...force, "-i", join(release, name));
  assert.equal(await run(join(root, "usr/bin/postern"), "hello"), "hello\n");
  const unit = await readFile(join(root, "usr/lib/systemd/system/postern@.service"), "utf8");
  assert.match(unit, /^ExecStart=\/usr\/bin\/postern proxy /m);
  for (
    const file of [
      "bash-completion/completions/postern",
      "zsh/vendor-completions/_postern",
      "fish/vendor_completions.d/postern.fish",
    ]
  ) {
    assert.match(await readFile(join(root, "usr/share", file), "utf8"), /complete-words/);
  }
  const manual = join(root, "usr/share/man/man1");
  for (const page of await readdir(manual)) {
    assert.equal(await run(peer("mandoc"), "-Tlint", join(manual, page)), "", page);
  }
});

test("the image holds all that its executable needs", async () => {
  const [name = ""] = (await readdir(release)).filter((one) => one.endsWith(".oci.tar"));
  await mkdir(at("image"));
  await mkdir(at("filesystem"));
  await run("tar", "-xf", join(release, name), "-C", at("image"));
  const blob = (digest: string) => at("image/blobs", digest.replace(":", "/"));
  const jsonOf = async (path: string) => JSON.parse(await readFile(path, "utf8"));
  const { manifests } = await jsonOf(at("image/index.json"));
  const { layers, config } = await jsonOf(blob(manifests[0].digest));
  const { config: { Entrypoint, User } } = await jsonOf(blob(config.digest));
  assert.deepEqual([Entrypoint, User], [["/usr/bin/postern"], "65532:65532"]);
  for (const { digest } of layers) {
    await run("tar", "-xzf", blob(digest), "-C", at("filesystem"), "--no-same-owner");
  }
  // Only root may change the root directory; the loader runs the program with the image's libraries.
  const loader = at("filesystem/lib64/ld-linux-x86-64.so.2");
  const libraries = at("filesystem/lib/x86_64-linux-gnu");
  const listed = await run(
    loader,
    "--library-path",
    libraries,
    "--list",
    at("filesystem/usr/bin/postern"),
  );
  assert.ok(!listed.includes("not found") && listed.includes(`${libraries}/libc.so.6`), listed);
});

test("the bill of materials has the runtime and the libraries, with their hashes", async () => {
  const [name = ""] = (await readdir(release)).filter((one) => one.endsWith(".cdx.json"));
  const { bomFormat, components } = JSON.parse(await readFile(join(release, name), "utf8"));
  assert.equal(bomFormat, "CycloneDX");
  const names = components.map((component: { readonly name: string }) => component.name);
  for (const wanted of ["bun", "hono", "valibot"]) assert.ok(names.includes(wanted), wanted);
  assert.ok(!names.includes("@grpc/grpc-js"));
  for (const { hashes: [hash], name } of components) {
    assert.match(hash.content, /^[0-9a-f]{128}$/, name);
  }
});

test("install.sh installs what is signed and has its sum", async () => {
  const said = await install(
    "--from",
    release,
    "--key",
    at("key.pub"),
    "--prefix",
    at("installed"),
  );
  assert.match(said, /^installed postern-\S+-linux-x64 in /);
  assert.equal(await run(at("installed/bin/postern"), "hello"), "hello\n");
  await readFile(at("installed/share/man/man1/postern-proxy.1"));
});

for (
  const [name, args, damage, want] of [
    ["no key", [], "", /no key was given/],
    ["another key", ["--key", "OTHER"], "", /the signature .* is not by the key/],
    ["changed sums", ["--key", "KEY"], "SHA256SUMS", /the signature .* is not by the key/],
    ["a changed archive", ["--key", "KEY"], ".tar.gz", /the sum of .* differs/],
    [
      "a changed archive without a signature",
      ["--no-signature"],
      ".tar.gz",
      /the sum of .* differs/,
    ],
  ] as const
) {
  test(`install.sh refuses ${name}`, async () => {
    const damaged = await mkdtemp(at("damaged-"));
    await cp(release, damaged, { recursive: true });
    for (const file of await readdir(damaged)) {
      if (damage !== "" && file.endsWith(damage)) {
        await chmod(join(damaged, file), 0o644);
        await writeFile(join(damaged, file), " ", { flag: "a" });
      }
    }
    await run("openssl", "genpkey", "-algorithm", "ed25519", "-out", at("other.pem"));
    await run("openssl", "pkey", "-in", at("other.pem"), "-pubout", "-out", at("other.pub"));
    const files: Readonly<Record<string, string>> = { KEY: "key.pub", OTHER: "other.pub" };
    const words = args.map((word) => files[word] === undefined ? word : at(files[word]));
    const prefix = join(damaged, "installed");
    await assert.rejects(
      install("--from", damaged, "--prefix", prefix, ...words),
      (error: { readonly stderr?: string }) => want.test(error.stderr ?? ""),
    );
    await assert.rejects(readdir(prefix), /ENOENT/);
  });
}
