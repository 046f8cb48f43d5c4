/**
 * A provider of secrets of a Workload API beside its fake server, and the events of its subscribers.
 *
 * @module
 */

import assert from "node:assert/strict";
import { seededRandom } from "../../../src/base/mod.ts";
import { runtimeEngine } from "../../../src/net/mod.ts";
import { tlsFault } from "../../../src/net/tls_fault.ts";
import { realFiles } from "../../../src/secrets/file/file_system.ts";
import {
  type SecretRef,
  type SecretSource,
  WITHDRAWAL_GRACE_MS,
} from "../../../src/secrets/model/plan.ts";
import type { SecretProvider, SecretWatch } from "../../../src/secrets/model/secret_provider.ts";
import type {
  CertificateSecret,
  Secret,
  ValidationSecret,
} from "../../../src/secrets/model/secret.ts";
import { createLoader } from "../../../src/secrets/load/mod.ts";
import { createWorkloadProvider } from "../../../src/secrets/workload/workload_provider.ts";
import { FakeClock } from "../clock/clock.ts";
import { counted } from "./followed_files.ts";
import { followNews } from "./secret_news.ts";
import { startWorkloadServer, type WorkloadServer } from "./workload_server.ts";

export type Told =
  | { readonly kind: "secret"; readonly secret: Secret }
  | { readonly kind: "rejected" | "unreachable"; readonly reason: string }
  | { readonly kind: "recovered" }
  | { readonly kind: "removed"; readonly reason: string | undefined };

/** The events of a subscriber, in order, each once. */
export class Followed {
  readonly watch: SecretWatch;
  readonly #told: Told[] = [];
  #wake = () => {};

  constructor(provider: SecretProvider, ref: SecretRef) {
    let returned = false;
    const tell = (told: Told) => {
      assert.ok(returned, "told before watch() returned");
      this.#told.push(told);
      this.#wake();
    };
    this.watch = followNews(provider, ref, {
      onSecret: (secret) => tell({ kind: "secret", secret }),
      onRejected: (reason) => tell({ kind: "rejected", reason }),
      onRecovered: () => tell({ kind: "recovered" }),
      onUnreachable: (reason) => tell({ kind: "unreachable", reason }),
      onRemoved: (reason) => tell({ kind: "removed", reason }),
    });
    returned = true;
  }

  async next(): Promise<Told> {
    for (;;) {
      const told = this.#told.shift();
      if (told) return told;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  async certificate(): Promise<CertificateSecret> {
    const told = await this.next();
    assert.ok(told.kind === "secret" && told.secret.type === "certificate", JSON.stringify(told));
    return told.secret;
  }

  async validation(): Promise<ValidationSecret["validation"] & { kind: "spiffe" }> {
    const told = await this.next();
    assert.ok(told.kind === "secret" && told.secret.type === "validation", JSON.stringify(told));
    const { validation } = told.secret;
    assert.ok(validation.kind === "spiffe");
    return validation;
  }

  async fault(kind: "rejected" | "unreachable", want: RegExp): Promise<void> {
    const told = await this.next();
    assert.ok(told.kind === kind, JSON.stringify(told));
    assert.match(told.reason, want);
  }

  /** Asserts that the fault is over, and that the secret is the one from before. */
  async recovered(): Promise<void> {
    const told = await this.next();
    assert.ok(told.kind === "recovered", JSON.stringify(told));
  }

  /** Gives the reason. */
  async removed(): Promise<string | undefined> {
    const told = await this.next();
    assert.ok(told.kind === "removed", JSON.stringify(told));
    return told.reason;
  }

  get silent(): boolean {
    return this.#told.length === 0;
  }
}

type WorkloadChoice = Partial<
  Pick<SecretSource & { kind: "workload" }, "id" | "hint" | "withdrawalGraceMs">
>;

export interface WorkloadFixture extends AsyncDisposable {
  readonly server: WorkloadServer;
  readonly provider: SecretProvider;
  readonly clock: FakeClock;
  follow(
    type: SecretRef["type"],
    choice?: WorkloadChoice,
  ): Followed;
}

/** A provider of a server that has sent nothing yet, in time that the test moves. */
export async function setUpWorkload(): Promise<WorkloadFixture> {
  const server = await startWorkloadServer();
  const { address } = server;
  const clock = new FakeClock({ startMs: Date.now() });
  const provider = createWorkloadProvider(address, {
    engine: runtimeEngine(),
    clock,
    random: seededRandom(1),
    load: createLoader({
      clock,
      read: () => Promise.reject(new Error("no file is read here")),
      tlsFault,
    }),
    files: counted(realFiles),
  });
  return {
    server,
    provider,
    clock,
    follow(type, choice = {}) {
      const source = { kind: "workload", address, ...choice } as const;
      return new Followed(provider, { type, name: type, source, initialFetchTimeoutMs: 0 });
    },
    async [Symbol.asyncDispose]() {
      await provider.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** Waits until an answer without what is held has come. */
export async function graceBegins({ clock }: WorkloadFixture): Promise<void> {
  while (!((clock.nextInMs ?? Infinity) <= WITHDRAWAL_GRACE_MS)) await clock.advance(0);
}

/** The same, and for as long as it is held nevertheless. */
export async function graceEnds(set: WorkloadFixture): Promise<void> {
  await graceBegins(set);
  await set.clock.advance(WITHDRAWAL_GRACE_MS);
}
