/**
 * Follows Envoy's secret files: the file that describes a secret, and the files that it names. A
 * description that cannot be used leaves the one before in force, with its files.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import { type FileProviderOptions, followSpec } from "../file/file_provider.ts";
import type { SecretRef } from "../model/plan.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "../model/secret_provider.ts";
import { type ParsedSecretFile, parseSecretFile, SECRET_FILE_LIMIT_BYTES } from "./secret_file.ts";

/** Follows references of source kind `secret_file`. Closes the hub, too. */
export function createSecretFileProvider(options: FileProviderOptions): SecretProvider {
  return {
    watch: (ref, events) => followSecretFile(ref, options, events),
    close: () => options.hub.close(),
  };
}

function followSecretFile(
  { source, name, type, defaults }: SecretRef,
  options: FileProviderOptions,
  events: SecretEvents,
): SecretWatch {
  if (source.kind !== "secret_file") {
    throw new ProxyError("internal", `Cannot follow a secret of source "${source.kind}" in a file`);
  }
  const { path, watchedDirectory } = source;
  let parts: SecretWatch | undefined;
  let closed = false;
  // The secret is good when both are.
  const faulty = { description: false, parts: false };
  const faultsOf = (which: "description" | "parts") => ({
    onRejected(reason: string) {
      faulty[which] = true;
      events.onRejected(reason);
    },
    onRecovered() {
      faulty[which] = false;
      if (!faulty.description && !faulty.parts) events.onRecovered();
    },
  });
  const description = options.hub.follow<ParsedSecretFile>({
    // Keys may be inline.
    files: [{ path, limitBytes: SECRET_FILE_LIMIT_BYTES, secret: true }],
    ...watchedDirectory && { directory: watchedDirectory.path },
    watch: true,
    async load(read) {
      const text = new TextDecoder().decode(await read(path, SECRET_FILE_LIMIT_BYTES));
      return await parseSecretFile(text, { path, wantedName: name, wantedType: type });
    },
  }, {
    onValue({ spec, version }) {
      if (closed) return;
      faulty.description = false;
      parts?.close();
      parts = followSpec(spec, { ...options, watch: true, defaults }, {
        onSecret(secret) {
          faulty.parts = false;
          events.onSecret(secret, version);
        },
        ...faultsOf("parts"),
      });
    },
    ...faultsOf("description"),
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
