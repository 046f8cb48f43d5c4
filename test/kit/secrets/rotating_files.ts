/**
 * A certificate, its key and the roots in files, rotated in each of the ways in which people and their
 * tools do it, on a real file system.
 *
 * @module
 */

import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pause } from "../process/process.ts";

interface PemSet {
  readonly certPem: string;
  readonly keyPem: string;
  readonly caPem: string;
}

interface FilePaths {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

/** How files come to a place where they are read all the time. */
export interface RotationScheme {
  readonly name: string;
  /** Real time between the writes of one rotation; most have none. */
  readonly gapMs?: number;
  prepare(root: string, set: PemSet): Promise<FilePaths>;
  /** `round`: 1, 2, 3, ... Resolves with the last write. */
  rotate(root: string, set: PemSet, round: number): Promise<void>;
}

export const ROTATION_SCHEMES: readonly RotationScheme[] = [
  {
    name: "a symlink to a directory, replaced by mv -T",
    async prepare(root, set) {
      await writeSet(join(root, "v0"), set);
      await symlink("v0", join(root, "current"));
      return pathsIn(join(root, "current"));
    },
    async rotate(root, set, round) {
      await writeSet(join(root, `v${round}`), set);
      await symlink(`v${round}`, join(root, "next"));
      await rename(join(root, "next"), join(root, "current"));
      await rm(join(root, `v${round - 1}`), { recursive: true });
    },
  },
  {
    name: "Kubernetes' ..data",
    async prepare(root, set) {
      await writeSet(join(root, "..v0"), set);
      await symlink("..v0", join(root, "..data"));
      for (const name of Object.values(NAMES)) await symlink(`..data/${name}`, join(root, name));
      return pathsIn(root);
    },
    async rotate(root, set, round) {
      await writeSet(join(root, `..v${round}`), set);
      await symlink(`..v${round}`, join(root, "..data_tmp"));
      await rename(join(root, "..data_tmp"), join(root, "..data"));
      await rm(join(root, `..v${round - 1}`), { recursive: true });
    },
  },
  {
    name: "mv of each file",
    prepare: prepareFlat,
    async rotate(root, set) {
      const from = pathsIn(join(root, "next"));
      const to = pathsIn(join(root, "tls"));
      await writeSet(join(root, "next"), set);
      await rename(from.cert, to.cert);
      await rename(from.key, to.key);
    },
  },
  {
    name: "cp in place",
    prepare: prepareFlat,
    // Opens with O_TRUNC, then writes: readers may see nothing or half of it.
    async rotate(root, set) {
      await writeSet(join(root, "tls"), set);
    },
  },
  {
    name: "a directory that is removed and made anew",
    prepare: prepareFlat,
    async rotate(root, set) {
      await rm(join(root, "tls"), { recursive: true });
      await writeSet(join(root, "tls"), set);
    },
  },
  {
    name: "the key 2 s before the certificate",
    gapMs: 2_000,
    prepare: prepareFlat,
    async rotate(root, { keyPem, certPem }) {
      const { cert, key } = pathsIn(join(root, "tls"));
      await writeKey(key, keyPem);
      // The time between the two is the subject of the test.
      await pause(2_000);
      await writeFile(cert, certPem);
    },
  },
  {
    name: "the key 2 s after the certificate",
    gapMs: 2_000,
    prepare: prepareFlat,
    async rotate(root, { keyPem, certPem }) {
      const { cert, key } = pathsIn(join(root, "tls"));
      await writeFile(cert, certPem);
      await pause(2_000);
      await writeKey(key, keyPem);
    },
  },
];

export function rotationScheme(name: string): RotationScheme {
  const scheme = ROTATION_SCHEMES.find((scheme) => scheme.name === name);
  if (!scheme) throw new Error(`There is no scheme "${name}"`);
  return scheme;
}

/** One place with files, of one scheme; a directory of its own that goes away in the end. */
export class RotatingFiles implements AsyncDisposable {
  readonly root: string;
  readonly paths: FilePaths;
  /**
   * Rotations that this process, or the machine, was so slow to write that their files may well have
   * been taken for torn ones: half of the second that is waited for the rest.
   */
  tornByUs = 0;
  readonly #scheme: RotationScheme;
  #round = 0;

  private constructor(scheme: RotationScheme, root: string, paths: FilePaths) {
    this.#scheme = scheme;
    this.root = root;
    this.paths = paths;
  }

  static async create(scheme: RotationScheme, set: PemSet): Promise<RotatingFiles> {
    const root = await mkdtemp(join(tmpdir(), "postern-rotating-"));
    return new RotatingFiles(scheme, root, await scheme.prepare(root, set));
  }

  /** The time (`performance.now()`) at which everything was written. */
  async rotate(set: PemSet): Promise<number> {
    const started = performance.now();
    await this.#scheme.rotate(this.root, set, ++this.#round);
    const written = performance.now();
    if (written - started > (this.#scheme.gapMs ?? 0) + 500) this.tornByUs++;
    return written;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
  }
}

const NAMES = { cert: "tls.crt", key: "tls.key", ca: "ca.crt" } as const;

function pathsIn(directory: string): FilePaths {
  const { cert, key, ca } = NAMES;
  return { cert: join(directory, cert), key: join(directory, key), ca: join(directory, ca) };
}

async function prepareFlat(root: string, set: PemSet): Promise<FilePaths> {
  return await writeSet(join(root, "tls"), set);
}

async function writeSet(directory: string, set: PemSet): Promise<FilePaths> {
  const paths = pathsIn(directory);
  await mkdir(directory, { recursive: true });
  await writeFile(paths.ca, set.caPem);
  await writeFile(paths.cert, set.certPem);
  await writeKey(paths.key, set.keyPem);
  return paths;
}

function writeKey(path: string, pem: string): Promise<void> {
  return writeFile(path, pem, { mode: 0o600 });
}
