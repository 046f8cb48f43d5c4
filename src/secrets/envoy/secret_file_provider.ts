/**
 * Follows secrets of Envoy's files: the file that describes a secret, and the files that it names. A
 * description that cannot be used leaves the one before in force, with the files that it follows.
 *
 * @module
 */

import { type Clock, type Log, ProxyError } from "../../base/mod.ts";
import { FileHub } from "../file/file_hub.ts";
import { followSpec } from "../file/file_provider.ts";
import type { FileSystem } from "../file/file_system.ts";
import type { Environment, TlsFault } from "../load/mod.ts";
import type { SecretRef } from "../plan.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "../secret_provider.ts";
import { type ParsedSecretFile, parseSecretFile, SECRET_FILE_LIMIT_BYTES } from "./secret_file.ts";

export interface SecretFileProviderOptions {
  readonly clock: Clock;
  readonly log?: Log;
  /** The engine's. */
  readonly tlsFault: TlsFault;
  readonly env: Environment;
  readonly files?: FileSystem;
  /** Shared with other providers, and closed by its owner; absent: one of its own. */
  readonly hub?: FileHub;
}

/** Follows references of source kind `secret_file`. */
export function createSecretFileProvider(options: SecretFileProviderOptions): SecretProvider {
  const { clock, log, files } = options;
  const hub = options.hub ?? new FileHub({ clock, ...log && { log }, ...files && { files } });
  return {
    watch: (ref, events) => followSecretFile(ref, { ...options, hub }, events),
    async close() {
      if (!options.hub) await hub.close();
    },
  };
}

function followSecretFile(
  ref: SecretRef,
  options: SecretFileProviderOptions & { readonly hub: FileHub },
  events: SecretEvents,
): SecretWatch {
  const { source, name, type, defaults } = ref;
  if (source.kind !== "secret_file") {
    throw new ProxyError("internal", `Cannot follow a secret of source "${source.kind}" in a file`);
  }
  const { hub, clock, env, tlsFault } = options;
  const { path, watchedDirectory } = source;
  let parts: SecretWatch | undefined;
  let closed = false;
  // Both must be good for the whole to be.
  const faulty = { description: false, parts: false };
  const recover = (which: "description" | "parts") => {
    faulty[which] = false;
    if (!faulty.description && !faulty.parts) events.onRecovered?.();
  };
  const reject = (which: "description" | "parts", reason: string) => {
    faulty[which] = true;
    events.onRejected(reason);
  };
  // The same secret after a new description is no news.
  let last = "";
  const follow = ({ spec, version }: ParsedSecretFile) => {
    parts?.close();
    const base = { hub, clock, env, tlsFault, watch: true, ...defaults && { defaults } };
    parts = followSpec(spec, base, {
      onSecret(secret) {
        const text = JSON.stringify(secret);
        if (text === last) return recover("parts");
        last = text;
        faulty.parts = false;
        events.onSecret(secret, version);
      },
      onRejected: (reason) => reject("parts", reason),
      onRecovered: () => recover("parts"),
      onUnreachable: (reason) => events.onUnreachable(reason),
      onRemoved: () => events.onRemoved(),
    });
  };
  const description = hub.follow<ParsedSecretFile>({
    // Keys may be inline.
    files: [{ path, limitBytes: SECRET_FILE_LIMIT_BYTES, secret: true }],
    ...watchedDirectory && { directory: watchedDirectory.path },
    watch: true,
    async load(read) {
      const bytes = await read(path, SECRET_FILE_LIMIT_BYTES);
      const text = new TextDecoder().decode(bytes);
      return await parseSecretFile(text, { path, wantedName: name, wantedType: type });
    },
  }, {
    onValue(file) {
      if (closed) return;
      faulty.description = false;
      follow(file);
    },
    onRejected: (reason) => reject("description", reason),
    onRecovered: () => recover("description"),
  });
  return {
    refresh() {
      description.refresh();
      parts?.refresh();
    },
    close() {
      closed = true;
      description.close();
      parts?.close();
    },
  };
}
