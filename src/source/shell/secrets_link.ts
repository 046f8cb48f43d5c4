/**
 * How a snapshot source uses the store of secrets: it says what is wanted, is told when something has
 * changed, and passes on what clients ask for.
 *
 * @module
 */

import type {
  CredentialsPlan,
  HeldSecrets,
  SecretEvent,
  SecretStatus,
  SecretStore,
  StoredSecrets,
} from "../../secrets/mod.ts";
import { NOTHING_HELD } from "../parts/own_credentials.ts";
import type { Refusal } from "../../snapshot/mod.ts";

export interface FetchedCertificate {
  /** Key of the listener's credentials. */
  readonly credentials: string;
  /** What the client asked for (SNI). */
  readonly name: string;
  /** Address of the client. */
  readonly remote: string;
}

export interface SecretsReport {
  readonly statuses: readonly SecretStatus[];
  /** Oldest first. */
  readonly events: readonly SecretEvent[];
}

/** Made when the first secret is wanted: a proxy without any pays nothing for the store. */
export class SecretsLink {
  readonly #create: () => SecretStore;
  readonly #onChange: () => void;
  #store: SecretStore | undefined;
  #plans: Readonly<Record<string, CredentialsPlan>> = {};

  /** `onChange`: what is held has changed. */
  constructor(create: () => SecretStore, onChange: () => void) {
    this.#create = create;
    this.#onChange = onChange;
  }

  /** The same object again is nothing new. */
  follow(plans: Readonly<Record<string, CredentialsPlan>>): void {
    if (plans === this.#plans) return;
    this.#plans = plans;
    this.#storeFor(plans)?.follow(plans);
  }

  /** Like {@link follow}, from what an earlier run held. */
  restore(plans: Readonly<Record<string, CredentialsPlan>>, stored: StoredSecrets): void {
    this.#plans = plans;
    this.#storeFor(plans)?.restore(plans, stored);
  }

  get held(): HeldSecrets {
    return this.#store?.held ?? NOTHING_HELD;
  }

  async fetch(request: FetchedCertificate): Promise<boolean> {
    const answer = await this.#store?.certificateWanted(request);
    return answer?.available ?? false;
  }

  report(): SecretsReport {
    return {
      statuses: this.#store?.statuses() ?? [],
      events: this.#store?.events() ?? [],
    };
  }

  /** Secrets whose last change could not be used, as configuration that was not taken. */
  refusals(): readonly Refusal[] {
    return this.report().statuses.filter(({ fault }) => fault !== "")
      .map(({ name, source, fault }) => ({
        // Of a secret file whose only secret is taken, whatever its name.
        what: ["secret", name, `(${source})`].filter((part) => part !== "").join(" "),
        reason: fault,
      }));
  }

  /** Reads files of secrets again; {@link held} has them when it resolves. */
  async refresh(): Promise<void> {
    await this.#store?.refresh();
  }

  async close(): Promise<void> {
    await this.#store?.close();
  }

  #storeFor(plans: Readonly<Record<string, CredentialsPlan>>): SecretStore | undefined {
    if (!this.#store && Object.keys(plans).length > 0) {
      this.#store = this.#create();
      this.#store.onChange = this.#onChange;
    }
    return this.#store;
  }
}
