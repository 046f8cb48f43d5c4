/** The providers of all sources, shared by key; the code of a kind is loaded for its first secret. @module */

import { type Clock, type Log, messageOf, type Random, type Stats } from "../../base/mod.ts";
import type { Engine } from "../../net/mod.ts";
import type { FileProviderOptions } from "../file/file_hub.ts";
import { createLoader, type Environment } from "../load/mod.ts";
import type {
  ExternalSource,
  ProviderFactory,
  SecretEvents,
  SecretProvider,
  SecretRef,
  SecretWatch,
} from "../model/plan.ts";
import { keyOfProvider } from "./key.ts";

/** Dials servers of secrets, and checks a certificate and key. */
export type SecretsEngine = Pick<Engine, "dial" | "clientTls" | "tlsFault">;

interface ProviderDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** The version of this program, which is sent to SDS servers. */
  readonly version: string;
  /** For secrets in environment variables. */
  readonly env: Environment;
  readonly engine: SecretsEngine;
}

export function createProviders(deps: ProviderDeps): ProviderFactory {
  return (source) => new LoadingProvider(() => loadProvider(source, deps));
}

async function loadProvider(source: ExternalSource, given: ProviderDeps): Promise<SecretProvider> {
  const { clock, env, engine } = given;
  // Every source may have files of this machine; a hub without followers does nothing.
  const { FileHub } = await import("../file/file_hub.ts");
  const { readWhole: read } = await import("../file/file_system.ts");
  const load = createLoader({ clock, env, read, tlsFault: (pems) => engine.tlsFault(pems) });
  const hub = new FileHub(given);
  const provider = await providerOf(source, { ...given, load, hub });
  return {
    watch: (ref, events) => provider.watch(ref, events),
    async close() {
      await provider.close?.();
      await hub.close();
    },
  };
}

/** Files need no end of their own beside the hub's. */
type SourceProvider = Pick<SecretProvider, "watch"> & Partial<SecretProvider>;

async function providerOf(
  source: ExternalSource,
  deps: ProviderDeps & FileProviderOptions,
): Promise<SourceProvider> {
  switch (source.kind) {
    case "spec": {
      const { watchSpec } = await import("../file/file_hub.ts");
      return { watch: (ref, events) => watchSpec(ref, deps, events) };
    }
    case "secret_file": {
      const { watchSecretFile } = await import("../envoy/secret_file.ts");
      return { watch: (ref, events) => watchSecretFile(ref, deps, events) };
    }
    case "sds": {
      const { followSpec } = await import("../file/file_hub.ts");
      const { SdsProvider } = await import("../sds/sds_provider.ts");
      return new SdsProvider(source.server, source.api, {
        ...deps,
        followFiles: (spec, { defaults }, events) =>
          followSpec(spec, { ...deps, watch: true, defaults }, events),
      });
    }
    case "workload": {
      const { WorkloadProvider } = await import("../workload/workload_provider.ts");
      return new WorkloadProvider(source.address, deps);
    }
  }
}

/** Replaces a provider while its module is loaded. */
export class LoadingProvider implements SecretProvider {
  readonly #loading: Promise<SecretProvider>;
  #closed = false;

  constructor(load: () => Promise<SecretProvider>) {
    this.#loading = load();
  }

  watch(ref: SecretRef, events: SecretEvents): SecretWatch {
    let watch: SecretWatch | undefined;
    let closed = false;
    const isWanted = () => !closed && !this.#closed;
    this.#loading.then((provider) => {
      if (isWanted()) watch = provider.watch(ref, events);
    }).catch((error) => {
      const reason = `Cannot follow secret "${ref.name}": ${messageOf(error)}`;
      if (isWanted()) events.onRejected(reason);
    });
    return {
      refresh: () => watch?.refresh(),
      close: () => {
        closed = true;
        watch?.close();
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    // Every watch got the reason of a failed load.
    const provider = await this.#loading.catch(() => undefined);
    await provider?.close();
  }
}

export interface ProviderLease {
  readonly provider: Pick<SecretProvider, "watch">;
  release(): void;
}

export class SharedProviders {
  readonly #create: ProviderFactory;
  readonly #used = new Map<string, { readonly provider: SecretProvider; leases: number }>();
  readonly #closing = new Set<Promise<void>>();

  constructor(create: ProviderFactory) {
    this.#create = create;
  }

  /** To be released once. */
  lease(source: ExternalSource): ProviderLease {
    const key = keyOfProvider(source);
    let entry = this.#used.get(key);
    if (!entry) this.#used.set(key, entry = { provider: this.#create(source), leases: 0 });
    const held = entry;
    held.leases++;
    return {
      provider: held.provider,
      release: () => {
        if (--held.leases > 0) return;
        this.#used.delete(key);
        // Nothing can be done about a provider that fails to close.
        const done = () => void this.#closing.delete(closing);
        const closing = held.provider.close().then(done, done);
        this.#closing.add(closing);
      },
    };
  }

  /** Resolves when every released provider has closed. */
  async closed(): Promise<void> {
    await Promise.all([...this.#closing]);
  }
}
