/**
 * Says of key files that others can read them, once each. Kubernetes mounts with `fsGroup` are 0640, so
 * a readable group is only worth a note.
 *
 * @module
 */

import type { Log } from "../../base/mod.ts";
import type { SecretFile } from "../load/mod.ts";

const OTHERS_READ = 0o004;
const GROUP_READS = 0o040;

export class PermissionNotes {
  readonly #log: Log;
  readonly #noted = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  note(file: SecretFile, mode = 0): void {
    const { path } = file;
    if (!file.secret || !(mode & (OTHERS_READ | GROUP_READS)) || this.#noted.has(path)) return;
    this.#noted.add(path);
    const fields = { file: path, mode: mode.toString(8).padStart(4, "0") };
    if (mode & OTHERS_READ) this.#log.warn("key file is readable by others", fields);
    else this.#log.info("key file is readable by its group", fields);
  }
}
