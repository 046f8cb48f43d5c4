/**
 * A provider of secrets of a Workload API beside its fake server, and the events of its subscribers.
 *
 * @module
 */

import assert from "node:assert/strict";
import { seededRandom } from "../../../src/base/mod.ts";
import { runtimeEngine } from "../../../src/net/mod.ts";
import { tlsFault } from "../../../src/net/tls_checks.ts";
import { realFiles } from "../../../src/secrets/file/file_system.ts";
import {
  type SecretProvider,
  type SecretRef,
  type SecretSource,
  type SecretWatch,
  WITHDRAWAL_GRACE_MS,
} from "../../../src/secrets/model/plan.ts";
import type {
  CertificateSecret,
  Secret,
  ValidationSecret,
} from "../../../src/secrets/model/secret.ts";
import { createLoader } from "../../../src/secrets/load/mod.ts";
import { WorkloadProvider } from "../../../src/secrets/workload/workload_provider.ts";
import { FakeClock } from "../clock/clock.ts";
import { counted } from "./followed_files.ts";
import { followChanges } from "./secret_changes.ts";
import { startWorkloadServer, type WorkloadServer } from "./workload_server.ts";

export type SecretEvent =
  | { readonly kind: "secret"; readonly secret: Secret }
  | { readonly kind: "rejected" | "unreachable"; readonly reason: string }
  | { readonly kind: "recovered" }
  | { readonly kind: "removed"; readonly reason: string | undefined };

/** The events of a subscriber, in order, each once. */
export class Followed {
  readonly watch: SecretWatch;
  readonly #events: SecretEvent[] = [];
  #wake = () => {};

  constructor(provider: SecretProvider, ref: SecretRef) {
    let returned = false;
    const add = (event: SecretEvent) => {
      assert.ok(returned, "called before watch() returned");
      this.#events.push(event);
      this.#wake();
    };
    this.watch = followChanges(provider, ref, {
      onSecret: (secret) => add({ kind: "secret", secret }),
      onRejected: (reason) => add({ kind: "rejected", reason }),
      onRecovered: () => add({ kind: "recovered" }),
      onUnreachable: (reason) => add({ kind: "unreachable", reason }),
      onRemoved: (reason) => add({ kind: "removed", reason }),
    });
    returned = true;
  }

  async next(): Promise<SecretEvent> {
    for (;;) {
      const event = this.#events.shift();
      if (event) return event;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  async certificate(): Promise<CertificateSecret> {
    const event = await this.next();
    assert.ok(
      event.kind === "secret" && event.secret.type === "certificate",
      JSON.stringify(event),
    );
    return event.secret;
  }

  async validation(): Promise<ValidationSecret["validation"] & { kind: "spiffe" }> {
    const event = await this.next();
    assert.ok(event.kind === "secret" && event.secret.type === "validation", JSON.stringify(event));
    const { validation } = event.secret;
    assert.ok(validation.kind === "spiffe");
    return validation;
  }

  async fault(kind: "rejected" | "unreachable", want: RegExp): Promise<void> {
    const event = await this.next();
    assert.ok(event.kind === kind, JSON.stringify(event));
    assert.match(event.reason, want);
  }

  /** Asserts that the fault is over, and that the secret is the one from before. */
  async recovered(): Promise<void> {
    const event = await this.next();
    assert.ok(event.kind === "recovered", JSON.stringify(event));
  }

  /** Gives the reason. */
  async removed(): Promise<string | undefined> {
    const event = await this.next();
    assert.ok(event.kind === "removed", JSON.stringify(event));
    return event.reason;
  }

  get silent(): boolean {
    return this.#events.length === 0;
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
  const provider = new WorkloadProvider(address, {
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

/** Waits until an answer without the held secret has come. */
export async function graceBegins({ clock }: WorkloadFixture): Promise<void> {
  while (!((clock.nextInMs ?? Infinity) <= WITHDRAWAL_GRACE_MS)) await clock.advance(0);
}

/** The same, and for as long as it is held nevertheless. */
export async function graceEnds(set: WorkloadFixture): Promise<void> {
  await graceBegins(set);
  await set.clock.advance(WITHDRAWAL_GRACE_MS);
}
