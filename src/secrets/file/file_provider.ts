/**
 * Secrets that the configuration describes itself, with parts in files, inline or in the environment.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import { type Environment, filesOf, type LoadSecret, withDefaults } from "../load/mod.ts";
import type { FileEvents, SecretProvider, SecretWatch } from "../model/secret_provider.ts";
import type { SecretSpec, ValidationSpec } from "../model/spec.ts";
import type { FileHub } from "./file_hub.ts";

export interface FileProviderOptions {
  readonly hub: FileHub;
  readonly load: LoadSecret;
  readonly env: Environment;
}

/** Follows the files of `spec`. Events come later, never before this returns. */
export function followSpec(
  spec: SecretSpec,
  { hub, load, env, watch, defaults }: FileProviderOptions & {
    /** False: read until it is good once. */
    readonly watch: boolean;
    readonly defaults: ValidationSpec | undefined;
  },
  events: FileEvents,
): SecretWatch {
  const whole = withDefaults(spec, defaults);
  return hub.follow({
    files: filesOf(whole, env),
    watch,
    ...whole.watchedDirectory && { directory: whole.watchedDirectory.path },
    load: (read) => load(whole, read),
  }, {
    onValue: (secret) => events.onSecret(secret, ""),
    onRejected: (reason) => events.onRejected(reason),
    onRecovered: () => events.onRecovered(),
  });
}

/** Follows references of source kind `spec`. Closes the hub, too. */
export function createFileProvider(options: FileProviderOptions): SecretProvider {
  return {
    watch({ source, defaults }, events) {
      if (source.kind !== "spec") {
        throw new ProxyError(
          "internal",
          `Cannot follow a secret of source "${source.kind}" in files`,
        );
      }
      const { spec, watch } = source;
      return followSpec(spec, { ...options, watch, defaults }, events);
    },
    close: () => options.hub.close(),
  };
}
