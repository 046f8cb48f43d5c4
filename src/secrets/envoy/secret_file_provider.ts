/**
 * Follows secrets of Envoy's files: the file that describes a secret, and the files that it names. A
 * description that cannot be used leaves the one before in force, with the files that it follows.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import { type FileProviderOptions, followSpec } from "../file/file_provider.ts";
import type { SecretRef } from "../plan.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "../secret_provider.ts";
import { type ParsedSecretFile, parseSecretFile, SECRET_FILE_LIMIT_BYTES } from "./secret_file.ts";

/** Follows references of source kind `secret_file`. Closes the hub, too. */
export function createSecretFileProvider(options: FileProviderOptions): SecretProvider {
  return {
    watch: (ref, events) => followSecretFile(ref, options, events),
    close: () => options.hub.close(),
  };
}

function followSecretFile(
  ref: SecretRef,
  options: FileProviderOptions,
  events: SecretEvents,
): SecretWatch {
  const { source, name, type, defaults } = ref;
  if (source.kind !== "secret_file") {
    throw new ProxyError("internal", `Cannot follow a secret of source "${source.kind}" in a file`);
  }
  const { hub } = options;
  const { path, watchedDirectory } = source;
  let parts: SecretWatch | undefined;
  let closed = false;
  // Both must be good for the whole to be.
  const faulty = { description: false, parts: false };
  const recover = (which: "description" | "parts") => {
    faulty[which] = false;
    if (!faulty.description && !faulty.parts) events.onRecovered();
  };
  const reject = (which: "description" | "parts", reason: string) => {
    faulty[which] = true;
    events.onRejected(reason);
  };
  const follow = ({ spec, version }: ParsedSecretFile) => {
    parts?.close();
    const base = { ...options, watch: true, ...defaults && { defaults } };
    parts = followSpec(spec, base, {
      onSecret(secret) {
        faulty.parts = false;
        events.onSecret(secret, version);
      },
      onRejected: (reason) => reject("parts", reason),
      onRecovered: () => recover("parts"),
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
    async refresh() {
      await description.refresh();
      await parts?.refresh();
    },
    close() {
      closed = true;
      description.close();
      parts?.close();
    },
  };
}
