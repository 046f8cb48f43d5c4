/** Debian package, container image and bill of materials. @module */

import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import project from "../../deno.json" with { type: "json" };
import { ar, gzip, type PackedEntry, tar } from "./archives.ts";
import { debianFiles, ROOT, textFile } from "./contents.ts";

const SUMMARY = "sidecar proxy for Consul service mesh";
/** Imports that are not in the executable. */
const TESTS_ONLY = ["@grpc/grpc-js", "axe-core"];

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

interface PackageOptions {
  readonly version: string;
  readonly architecture: "amd64" | "arm64";
  readonly time: Date;
}

/** Starts nothing and restarts nothing: the operator does, one host after the other. */
const POSTINST = `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ]; then
  if ! getent passwd postern > /dev/null; then
    useradd --system --user-group --no-create-home --home-dir /nonexistent \\
      --shell /usr/sbin/nologin postern
  fi
  if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
fi
`;

export function debianPackage(
  executable: Uint8Array,
  { version, architecture, time }: PackageOptions,
): Uint8Array {
  const seconds = time.getTime() / 1000;
  const files = debianFiles(executable, time);
  const bytesOf = (entry: PackedEntry) => entry.kind === "file" ? entry.bytes.length : 0;
  const installed = files.reduce((sum, entry) => sum + bytesOf(entry), 0);
  const glibc = newestGlibc(executable);
  const control = [
    "Package: postern",
    `Version: ${version}`,
    `Architecture: ${architecture}`,
    "Section: net",
    "Priority: optional",
    "Maintainer: Postern <postern@localhost>",
    `Installed-Size: ${Math.ceil(installed / 1024)}`,
    ...glibc === undefined ? [] : [`Depends: libc6 (>= ${glibc})`],
    "Recommends: ca-certificates",
    `Description: ${SUMMARY}`,
    " Identity, intentions and mutual TLS for a service that implements none of them.",
    "",
  ].join("\n");
  const sums = files.flatMap((entry) =>
    entry.kind === "file"
      ? [`${createHash("md5").update(entry.bytes).digest("hex")}  ${entry.path}\n`]
      : []
  );
  const controlFiles = [
    textFile("./control", control),
    textFile("./md5sums", sums.join("")),
    textFile("./postinst", POSTINST, 0o755),
  ];
  const data = files.map((file) => ({ ...file, path: `./${file.path}` }));
  return ar([
    ["debian-binary", Buffer.from("2.0\n")],
    ["control.tar.gz", gzip(tar(controlFiles, seconds))],
    ["data.tar.gz", gzip(tar(data, seconds))],
  ], seconds);
}

/** The newest version of glibc that the executable names. */
function newestGlibc(executable: Uint8Array): string | undefined {
  const text = Buffer.from(executable.buffer, executable.byteOffset, executable.length)
    .toString("latin1");
  const minors = Array.from(text.matchAll(/\0GLIBC_2\.(\d+)\0/g), ([, minor]) => Number(minor));
  return minors.length === 0 ? undefined : `2.${minors.reduce((a, b) => Math.max(a, b))}`;
}

/** The dynamic loader and libraries of a file of this machine; `undefined`: it cannot be run here. */
function librariesOf(file: string): readonly string[] | undefined {
  try {
    const text = execFileSync("ldd", [file], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return Array.from(text.matchAll(/(?:=> )?(\/\S+) \(0x/g), ([, path = ""]) => path);
  } catch {
    return undefined; // A script, or an executable for another machine.
  }
}

const CA_FILE = "/etc/ssl/certs/ca-certificates.crt";

/**
 * An OCI image layout, as `podman load` and `skopeo copy oci-archive:` read it. It holds the executable, the
 * C library of this machine and the CAs of this machine, and nothing else: no shell. `undefined`: the
 * executable does not run on this machine, which therefore lacks its libraries.
 */
export function containerImage(
  file: string,
  { version, architecture, time }: PackageOptions,
): Uint8Array | undefined {
  const libraries = librariesOf(file);
  if (!libraries) return undefined;
  const seconds = time.getTime() / 1000;
  const copied = (path: string, from: string, mode: number): PackedEntry => {
    return { kind: "file", path, mode, bytes: readFileSync(realpathSync(from)) };
  };
  const system = tar([
    ...libraries.map((path) => copied(path.slice(1), path, 0o755)),
    ...existsSync(CA_FILE) ? [copied(CA_FILE.slice(1), CA_FILE, 0o644)] : [],
    textFile("etc/passwd", "root:x:0:0::/:/sbin/nologin\npostern:x:65532:65532::/:/sbin/nologin\n"),
    textFile("etc/group", "root:x:0:\npostern:x:65532:\n"),
    textFile("etc/nsswitch.conf", "hosts: files dns\n"),
    { kind: "directory", path: "etc/postern", mode: 0o755 },
    { kind: "directory", path: "tmp", mode: 0o1777 },
  ], seconds);
  const program = tar([
    copied("usr/bin/postern", file, 0o755),
    // Orchestrators of Consul start the program by this name.
    { kind: "link", path: "usr/local/bin/consul-dataplane", to: "/usr/bin/postern" },
  ], seconds);
  return ociLayout([system, program], { version, architecture, time });
}

function ociLayout(
  layers: readonly Uint8Array[],
  { version, architecture, time }: PackageOptions,
): Uint8Array {
  const blobs = new Map<string, Uint8Array>();
  const add = (mediaType: string, bytes: Uint8Array) => {
    const digest = sha256(bytes);
    blobs.set(digest, bytes);
    return { mediaType, digest: `sha256:${digest}`, size: bytes.length };
  };
  const addJson = (mediaType: string, value: unknown) =>
    add(mediaType, new TextEncoder().encode(JSON.stringify(value)));
  const type = (name: string) => `application/vnd.oci.image.${name}`;
  const packed = layers.map((layer) => add(type("layer.v1.tar+gzip"), gzip(layer)));
  const labels = {
    "org.opencontainers.image.title": "postern",
    "org.opencontainers.image.description": SUMMARY,
    "org.opencontainers.image.version": version,
    "org.opencontainers.image.licenses": "MIT",
  };
  const config = addJson(type("config.v1+json"), {
    created: time.toISOString(),
    architecture,
    os: "linux",
    config: {
      User: "65532:65532",
      Entrypoint: ["/usr/bin/postern"],
      Cmd: ["help"],
      Env: ["PATH=/usr/local/bin:/usr/bin"],
      StopSignal: "SIGTERM",
      Labels: labels,
    },
    rootfs: { type: "layers", diff_ids: layers.map((layer) => `sha256:${sha256(layer)}`) },
    history: layers.map((_, index) => ({
      created: time.toISOString(),
      comment: ["C library and CAs", "postern"][index],
    })),
  });
  const manifest = addJson(type("manifest.v1+json"), {
    schemaVersion: 2,
    mediaType: type("manifest.v1+json"),
    config,
    layers: packed,
    annotations: labels,
  });
  const annotations = { "org.opencontainers.image.ref.name": version };
  const index = {
    schemaVersion: 2,
    mediaType: type("index.v1+json"),
    manifests: [{ ...manifest, platform: { architecture, os: "linux" }, annotations }],
  };
  return tar([
    textFile("oci-layout", '{"imageLayoutVersion":"1.0.0"}'),
    textFile("index.json", JSON.stringify(index)),
    ...Array.from(blobs, ([digest, bytes]): PackedEntry => {
      return { kind: "file", path: `blobs/sha256/${digest}`, mode: 0o644, bytes };
    }),
  ], time.getTime() / 1000);
}

/** CycloneDX 1.5: the runtime and the libraries inside the executable, with the hashes of the lock file. */
export function billOfMaterials(version: string, time: Date): string {
  const lock = JSON.parse(readFileSync(join(ROOT, "deno.lock"), "utf8"));
  const inside = Object.entries(project.imports).filter(([name]) => !TESTS_ONLY.includes(name));
  const components = inside.map(([name, specifier]) => {
    const wanted = specifier.slice("npm:".length);
    const own = wanted.slice(name.length + 1);
    // A peer's version may follow in the key of the lock file.
    const key = Object.keys(lock.npm).find((one) => one === wanted || one.startsWith(`${wanted}_`));
    const [, hash = ""] = /^sha512-(.*)$/.exec(lock.npm[key ?? ""]?.integrity ?? "") ?? [];
    const purl = `pkg:npm/${name.replace("@", "%40")}@${own}`;
    return {
      type: name === "bun" ? "platform" : "library",
      "bom-ref": purl,
      name,
      version: own,
      purl,
      hashes: [{ alg: "SHA-512", content: Buffer.from(hash, "base64").toString("hex") }],
    };
  });
  const ref = `pkg:generic/postern@${version}`;
  const bom = {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
      timestamp: time.toISOString(),
      component: {
        type: "application",
        "bom-ref": ref,
        name: "postern",
        version,
        description: SUMMARY,
        licenses: [{ license: { id: "MIT" } }],
        purl: ref,
      },
    },
    components,
    dependencies: [
      { ref, dependsOn: components.map((component) => component["bom-ref"]) },
      ...components.map((component) => ({ ref: component["bom-ref"], dependsOn: [] })),
    ],
  };
  return `${JSON.stringify(bom, null, 2)}\n`;
}
