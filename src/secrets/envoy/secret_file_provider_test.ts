import assert from "node:assert/strict";
import test from "node:test";
import { mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  newPair,
  SecretRecord,
  temporaryDirectory,
  type TestPair,
} from "../../../test/kit/secrets/secret_files.ts";
import { fileOptions } from "../../../test/kit/secrets/followed_files.ts";
import { followChanges } from "../../../test/kit/secrets/secret_changes.ts";
import { SteadyClock } from "../../../test/kit/clock/steady_clock.ts";
import { FileHub } from "../file/file_hub.ts";
import type { WatchedDirectory } from "../model/secret.ts";
import type { SecretEvents, SecretRef } from "../model/plan.ts";
import { watchSecretFile } from "./secret_file.ts";

/** Envoy's secret files and the files that they name, on a real file system. */

/** Longer than the tests, so that only watches find changes. */
const POLL_MS = 3_600_000;

function follow(path: string, watchedDirectory?: WatchedDirectory) {
  const record = new SecretRecord();
  const clock = new SteadyClock();
  const hub = new FileHub({ clock, pollMs: POLL_MS });
  const options = fileOptions(hub, clock);
  const provider = {
    watch: (ref: SecretRef, events: SecretEvents) => watchSecretFile(ref, options, events),
  };
  const watch = followChanges(provider, {
    type: "certificate",
    name: "web",
    source: { kind: "secret_file", path, ...watchedDirectory && { watchedDirectory } },
    initialFetchTimeoutMs: 15_000,
  }, record);
  const close = async () => {
    await hub.close();
    clock[Symbol.dispose]();
  };
  return { record, hub, watch, [Symbol.asyncDispose]: close };
}

async function writePair(directory: string, pair: TestPair, name = "web"): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, `${name}.pem`), pair.certPem);
  await writeFile(join(directory, `${name}.key`), pair.keyPem, { mode: 0o600 });
}

/** A secret file in YAML that names files in `directory`. */
function described(directory: string, name = "web"): string {
  return JSON.stringify({
    name: "web",
    tls_certificate: {
      certificate_chain: { filename: join(directory, `${name}.pem`) },
      private_key: { filename: join(directory, `${name}.key`) },
    },
  });
}

async function write(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text, { mode: 0o600 });
  await rename(`${path}.new`, path);
}

test("watchSecretFile() follows the description and the files that it names", async () => {
  await using directory = await temporaryDirectory();
  const [first, second, third] = [newPair(), newPair(), newPair()];
  const path = join(directory.path, "sds.yaml");
  const tls = join(directory.path, "tls");
  await writePair(tls, first);
  await writePair(tls, third, "other");
  await write(path, described(tls));
  await using followed = follow(path);
  const { record } = followed;
  await record.holds(first);

  const next = join(directory.path, "next");
  await writePair(next, second);
  await rename(join(next, "web.pem"), join(tls, "web.pem"));
  await rename(join(next, "web.key"), join(tls, "web.key"));
  await record.holds(second);

  await write(path, described(tls, "other"));
  await record.holds(third);
  assert.equal(record.secrets.length, 3);
  assert.deepEqual(record.rejected, []);
});

test("watchSecretFile() keeps its secret while the description is broken", async () => {
  await using directory = await temporaryDirectory();
  const [first, second] = [newPair(), newPair()];
  const path = join(directory.path, "sds.yaml");
  const tls = join(directory.path, "tls");
  await writePair(tls, first);
  await write(path, described(tls));
  await using followed = follow(path);
  const { record } = followed;
  await record.holds(first);

  await write(path, "tls_certificate: [");
  await record.until(() => record.rejected.length === 1);
  assert.match(record.rejected[0] ?? "", /^Cannot use the secret in .*sds\.yaml: it is not YAML/);
  // The files of the last valid description are still followed.
  await writePair(tls, second);
  await record.holds(second);

  const other = newPair();
  await writePair(tls, other, "other");
  await write(path, described(tls, "other"));
  await record.holds(other);
  assert.equal(record.secrets.length, 3);
});

test("watchSecretFile() reports no secret twice, and recovers when all files are good", async () => {
  await using directory = await temporaryDirectory();
  const pair = newPair();
  const path = join(directory.path, "sds.json");
  const tls = join(directory.path, "tls");
  await writePair(tls, pair);
  await writePair(tls, pair, "same");
  await write(path, described(tls));
  await using followed = follow(path);
  const { record } = followed;
  await record.holds(pair);

  await write(path, described(tls, "missing"));
  await record.until(() => record.rejected.length === 1);
  assert.match(record.rejected[0] ?? "", /missing\.pem: there is no such file/);
  await write(path, described(tls, "same"));
  await record.until(() => record.recovered > 0);
  assert.equal(record.secrets.length, 1);
});

test("watchSecretFile() follows Kubernetes' ..data link", async () => {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  const [first, second] = [newPair(), newPair()];
  const put = async (name: string, pair: TestPair) => {
    await writePair(join(root, name), pair);
    await writeFile(join(root, name, "sds.yaml"), described(root), { mode: 0o600 });
  };
  await put("..v1", first);
  await symlink("..v1", join(root, "..data"));
  for (const name of ["sds.yaml", "web.pem", "web.key"]) {
    await symlink(`..data/${name}`, join(root, name));
  }
  await using followed = follow(join(root, "sds.yaml"), { path: root, watchModify: false });
  await followed.record.holds(first);
  await put("..v2", second);
  await symlink("..v2", join(root, "..data_tmp"));
  await rename(join(root, "..data_tmp"), join(root, "..data"));
  await followed.record.holds(second);
  assert.deepEqual(followed.record.rejected, []);
});

test("watchSecretFile() reads an inline secret", async () => {
  await using directory = await temporaryDirectory();
  const pair = newPair();
  const path = join(directory.path, "sds.json");
  await write(
    path,
    JSON.stringify({
      tls_certificate: {
        certificate_chain: { inline_string: pair.certPem },
        private_key: { inline_string: pair.keyPem },
      },
    }),
  );
  await using followed = follow(path);
  await followed.record.holds(pair);
});
