/**
 * Secrets that the configuration describes itself: parts in files, inline or in the environment. Files
 * are followed, and what they hold is told when it is whole and good.
 *
 * @module
 */

import { type Clock, ProxyError } from "../../base/mod.ts";
import {
  type Environment,
  filesOf,
  loadSecret,
  mergeValidation,
  type TlsFault,
} from "../load/mod.ts";
import type { FileEvents, SecretProvider, SecretWatch } from "../secret_provider.ts";
import type { SecretSpec, ValidationSpec } from "../spec.ts";
import type { FileHub } from "./file_hub.ts";

export interface FollowSpecOptions {
  readonly hub: FileHub;
  readonly clock: Clock;
  readonly env: Environment;
  /** The engine's. */
  readonly tlsFault: TlsFault;
  /** False: read until it is good once. */
  readonly watch: boolean;
  /** Of a validation: what it is merged onto. */
  readonly defaults?: ValidationSpec;
}

/** Follows what `spec` describes. Events come later, never before this returns. */
export function followSpec(
  spec: SecretSpec,
  options: FollowSpecOptions,
  events: FileEvents,
): SecretWatch {
  const { hub, clock, env, tlsFault, watch, defaults } = options;
  const whole = spec.type === "validation" && defaults ? mergeValidation(defaults, spec) : spec;
  return hub.follow({
    files: filesOf(whole, env),
    watch,
    ...whole.watchedDirectory && { directory: whole.watchedDirectory.path },
    load: (read) => loadSecret(whole, read, { nowMs: clock.now(), env, tlsFault }),
  }, {
    onValue: (secret) => events.onSecret(secret, ""),
    onRejected: (reason) => events.onRejected(reason),
    onRecovered: () => events.onRecovered(),
  });
}

export type FileProviderOptions = Omit<FollowSpecOptions, "watch" | "defaults">;

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
      return followSpec(spec, { ...options, watch, ...defaults && { defaults } }, events);
    },
    close: () => options.hub.close(),
  };
}
