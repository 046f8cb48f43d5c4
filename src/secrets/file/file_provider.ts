/**
 * Secrets that the configuration describes itself: parts in files, inline or in the environment. Files
 * are followed, and what they hold is told when it is whole and good.
 *
 * @module
 */

import { type Clock, type Log, ProxyError } from "../../base/mod.ts";
import {
  type Environment,
  filesOf,
  loadSecret,
  mergeValidation,
  type TlsFault,
} from "../load/mod.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "../secret_provider.ts";
import type { SecretSpec, ValidationSpec } from "../spec.ts";
import type { FileSystem } from "./file_system.ts";
import { FileHub } from "./file_hub.ts";

export interface FollowSpecOptions {
  readonly hub: FileHub;
  readonly clock: Clock;
  readonly env?: Environment;
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
  events: SecretEvents,
): SecretWatch {
  const { hub, clock, env = {}, tlsFault, watch, defaults } = options;
  const whole = spec.type === "validation" && defaults ? mergeValidation(defaults, spec) : spec;
  let last = "";
  return hub.follow({
    files: filesOf(whole, env),
    watch,
    ...whole.watchedDirectory && { directory: whole.watchedDirectory.path },
    load: (read) => loadSecret(whole, read, { nowMs: clock.now(), env, tlsFault }),
  }, {
    onValue(secret) {
      // Comments and the order of attributes are no news.
      const text = JSON.stringify(secret);
      if (text === last) return events.onRecovered?.();
      last = text;
      events.onSecret(secret, "");
    },
    onRejected: (reason) => events.onRejected(reason),
    onRecovered: () => events.onRecovered?.(),
  });
}

export interface FileProviderOptions {
  readonly clock: Clock;
  readonly log?: Log;
  readonly tlsFault: TlsFault;
  readonly env: Environment;
  readonly files?: FileSystem;
  /** Shared with other providers, and closed by its owner; absent: one of its own. */
  readonly hub?: FileHub;
}

/** Follows references of source kind `spec`. */
export function createFileProvider(options: FileProviderOptions): SecretProvider {
  const { clock, log, tlsFault, env, files } = options;
  const hub = options.hub ?? new FileHub({ clock, ...log && { log }, ...files && { files } });
  return {
    watch({ source, defaults }, events) {
      if (source.kind !== "spec") {
        throw new ProxyError(
          "internal",
          `Cannot follow a secret of source "${source.kind}" in files`,
        );
      }
      const { spec, watch } = source;
      const base = { hub, clock, env, tlsFault, watch, ...defaults && { defaults } };
      return followSpec(spec, base, events);
    },
    async close() {
      if (!options.hub) await hub.close();
    },
  };
}
