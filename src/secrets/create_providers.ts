/**
 * The providers of all kinds of sources. Each kind's code is read when its first secret is wanted: a
 * proxy without gRPC or YAML sources pays nothing for them.
 *
 * @module
 */

import { type Clock, type Log, ProxyError, type Random, type Stats } from "../base/mod.ts";
import { LoadingProvider } from "./loading_provider.ts";
import type { FileHub } from "./file/file_hub.ts";
import type { FileSystem } from "./file/file_system.ts";
import type { Environment, TlsFault } from "./load/mod.ts";
import type { SecretProvider } from "./secret_provider.ts";
import type { ExternalSource, ProviderFactory } from "./store/shared_providers.ts";

export interface ProviderDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** Of this program: SDS servers are told. */
  readonly version: string;
  /** For secrets that are in environment variables. */
  readonly env: Environment;
  /** The engine's opinion of a certificate and key. */
  readonly tlsFault: TlsFault;
}

export function createProviders(deps: ProviderDeps): ProviderFactory {
  return (source) => new LoadingProvider(() => load(source, deps));
}

async function load(source: ExternalSource, deps: ProviderDeps): Promise<SecretProvider> {
  switch (source.kind) {
    case "spec": {
      const { createFileProvider } = await import("./file/file_provider.ts");
      return createFileProvider(deps);
    }
    case "sds":
      return await loadSds(source, deps);
    case "secret_file": {
      const { createSecretFileProvider } = await import("./envoy/secret_file_provider.ts");
      return createSecretFileProvider(deps);
    }
    case "workload": {
      const { createWorkloadProvider } = await import("./workload/workload_provider.ts");
      const { realFiles } = await import("./file/file_system.ts");
      return createWorkloadProvider(source.address, {
        ...deps,
        read: (path, limitBytes) => readWhole(realFiles, path, limitBytes),
      });
    }
  }
}

async function loadSds(
  source: ExternalSource & { readonly kind: "sds" },
  deps: ProviderDeps,
): Promise<SecretProvider> {
  const { createSdsProvider } = await import("./sds/sds_provider.ts");
  const { followSpec } = await import("./file/file_provider.ts");
  const { FileHub } = await import("./file/file_hub.ts");
  const { realFiles } = await import("./file/file_system.ts");
  // A server may name files of this machine; most send everything themselves.
  let hub: FileHub | undefined;
  const provider = createSdsProvider(source.server, source.api, {
    ...deps,
    read: (path, limitBytes) => readWhole(realFiles, path, limitBytes),
    followFiles: (spec, { defaults }, events) => {
      hub ??= new FileHub(deps);
      const options = { ...deps, hub, watch: true, ...defaults && { defaults } };
      return followSpec(spec, options, { onUnreachable() {}, onRemoved() {}, ...events });
    },
  });
  return {
    watch: (ref, events) => provider.watch(ref, events),
    async close() {
      await provider.close();
      await hub?.close();
    },
  };
}

/** A file that is written just now is at rest a moment later; one that never is gets no further try. */
const READ_TRIES = 5;

async function readWhole(
  files: FileSystem,
  path: string,
  limitBytes: number,
): Promise<Uint8Array> {
  for (let tries = 0; tries < READ_TRIES; tries++) {
    const reading = await files.read(path, limitBytes);
    if (reading) return reading.bytes;
  }
  throw new ProxyError("credentials_invalid", `Cannot read ${path}: it changes all the time`);
}
