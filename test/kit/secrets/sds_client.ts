/**
 * Helpers for tests of an SDS source beside the server: a provider on real sockets whose events can be
 * waited for.
 *
 * @module
 */

import {
  type Address,
  type Clock,
  formatPrometheus,
  silentLog,
  Stats,
  systemClock,
} from "../../../src/base/mod.ts";
import { runtimeEngine } from "../../../src/net/mod.ts";
import type { GrpcLimits } from "../../../src/grpc/mod.ts";
import type {
  SdsApi,
  SdsServer,
  Secret,
  SecretProvider,
  SecretRef,
} from "../../../src/secrets/mod.ts";
import { createLoader } from "../../../src/secrets/load/mod.ts";
import { type SdsDeps, SdsProvider } from "../../../src/secrets/sds/sds_provider.ts";
import type { Subscription } from "../../../src/secrets/store/subscription.ts";
import { followChanges } from "./secret_changes.ts";

export type SdsEvent =
  | { readonly kind: "secret"; readonly secret: Secret; readonly version: string }
  | { readonly kind: "rejected" | "unreachable"; readonly reason: string }
  | { readonly kind: "recovered" | "removed" };

/** Records the events of a watch, and lets a test wait for them. */
export class WatchRecorder {
  readonly events: SdsEvent[] = [];
  #wake: (() => void) | undefined;
  watch: Subscription | undefined;

  add(event: SdsEvent): void {
    this.events.push(event);
    this.#wake?.();
  }

  /** The first event of this kind from `from` on. */
  async next<K extends SdsEvent["kind"]>(kind: K, from = 0): Promise<SdsEvent & { kind: K }> {
    for (;;) {
      const found = this.events.slice(from).find((event) => event.kind === kind);
      if (found) return found as SdsEvent & { kind: K };
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }
}

interface SdsClientOptions {
  readonly address: Address | readonly Address[];
  readonly api?: SdsApi;
  readonly server?: Partial<SdsServer>;
  readonly deps?: Partial<SdsDeps>;
  readonly limits?: Partial<GrpcLimits>;
  readonly clock?: Clock;
}

export class SdsClient implements AsyncDisposable {
  readonly stats = new Stats();
  readonly provider: SecretProvider;
  readonly server: SdsServer;
  readonly #api: SdsApi;

  constructor(options: SdsClientOptions) {
    const { address, api = "auto", limits } = options;
    this.#api = api;
    this.server = {
      name: "sds_cluster",
      addresses: Array.isArray(address) ? address : [address],
      tls: null,
      metadata: {},
      keepAliveMs: 30_000,
      keepAliveTimeoutMs: 5_000,
      backoffBaseMs: 20,
      backoffMaxMs: 100,
      node: { id: "web-1", cluster: "web", metadata: {} },
      ...options.server,
    };
    this.provider = new SdsProvider(this.server, api, {
      engine: runtimeEngine(),
      clock: options.clock ?? systemClock,
      random: Math.random,
      log: silentLog,
      stats: this.stats,
      version: "0.1.0",
      load: createLoader({
        clock: options.clock ?? systemClock,
        read: (path) => Promise.reject(new Error(`Cannot read ${path}: there are no files here`)),
        tlsFault: () => undefined,
      }),
      ...(limits && { limits }),
      ...options.deps,
    });
  }

  ref(name: string, type: SecretRef["type"] = "certificate"): SecretRef {
    return {
      type,
      name,
      source: { kind: "sds", server: this.server, api: this.#api },
      initialFetchTimeoutMs: 15_000,
    };
  }

  watch(name: string, type?: SecretRef["type"]): WatchRecorder {
    const recorder = new WatchRecorder();
    recorder.watch = followChanges(this.provider, this.ref(name, type), {
      onSecret: (secret, version) => recorder.add({ kind: "secret", secret, version }),
      onRejected: (reason) => recorder.add({ kind: "rejected", reason }),
      onRecovered: () => recorder.add({ kind: "recovered" }),
      onUnreachable: (reason) => recorder.add({ kind: "unreachable", reason }),
      onRemoved: () => recorder.add({ kind: "removed" }),
    });
    return recorder;
  }

  metrics(): string {
    return formatPrometheus(this.stats.samples());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.provider.close();
  }
}
