/**
 * The providers of all kinds of sources. Each kind's code is read when its first secret is wanted: a
 * proxy without gRPC or YAML sources pays nothing for them.
 *
 * @module
 */

import type { Clock, Log, Random, Stats } from "../base/mod.ts";
import type { Engine } from "../net/mod.ts";
import { LoadingProvider } from "./loading_provider.ts";
import type { Environment, TlsFault } from "./load/mod.ts";
import type { SecretProvider } from "./secret_provider.ts";
import type { ExternalSource, ProviderFactory } from "./store/shared_providers.ts";

export type SecretsEngine = Pick<Engine, "dial" | "clientTls" | "tlsFault">;

export interface ProviderDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** Of this program: SDS servers are told. */
  readonly version: string;
  /** For secrets that are in environment variables. */
  readonly env: Environment;
  /** Reaches servers of secrets, and has an opinion of a certificate and key. */
  readonly engine: SecretsEngine;
}

export function createProviders(given: ProviderDeps): ProviderFactory {
  const tlsFault: TlsFault = (material) => given.engine.tlsFault(material);
  return (source) => new LoadingProvider(() => load(source, { ...given, tlsFault }));
}

async function load(
  source: ExternalSource,
  deps: ProviderDeps & { readonly tlsFault: TlsFault },
): Promise<SecretProvider> {
  // Files of this machine may be part of every source; a hub does nothing before some are followed.
  const { createFileProvider, followSpec } = await import("./file/file_provider.ts");
  const { FileHub } = await import("./file/file_hub.ts");
  const { readWhole: read } = await import("./file/file_system.ts");
  const hub = new FileHub(deps);
  switch (source.kind) {
    case "spec":
      return createFileProvider({ ...deps, hub });
    case "secret_file": {
      const { createSecretFileProvider } = await import("./envoy/secret_file_provider.ts");
      return createSecretFileProvider({ ...deps, hub });
    }
    case "sds": {
      const { createSdsProvider } = await import("./sds/sds_provider.ts");
      const provider = createSdsProvider(source.server, source.api, {
        ...deps,
        read,
        followFiles: (spec, { defaults }, events) =>
          followSpec(spec, { ...deps, hub, watch: true, ...defaults && { defaults } }, events),
      });
      return {
        watch: (ref, events) => provider.watch(ref, events),
        async close() {
          await provider.close();
          await hub.close();
        },
      };
    }
    case "workload": {
      const { createWorkloadProvider } = await import("./workload/workload_provider.ts");
      return createWorkloadProvider(source.address, { ...deps, read });
    }
  }
}
