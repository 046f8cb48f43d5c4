/** A snapshot source's use of the secret store. @module */

import type {
  CredentialsPlan,
  HeldSecrets,
  SecretStatus,
  SecretStore,
  StoredSecrets,
} from "../../secrets/mod.ts";
import { NOTHING_HELD } from "../parts/own_credentials.ts";
import type { Refusal } from "../../snapshot/mod.ts";

export interface FetchedCertificate {
  /** Key of the listener's credentials. */
  readonly credentials: string;
  /** The client's SNI. */
  readonly name: string;
  /** Address of the client. */
  readonly remote: string;
}

export interface SecretsReport {
  readonly statuses: readonly SecretStatus[];
}

/** The store is created with the first secret: a proxy without secrets does not pay for it. */
export class SecretsLink {
  readonly #create: () => SecretStore;
  readonly #onChange: () => void;
  #store: SecretStore | undefined;
  #plans: Readonly<Record<string, CredentialsPlan>> = {};

  /** `onChange`: {@link held} has changed. */
  constructor(create: () => SecretStore, onChange: () => void) {
    this.#create = create;
    this.#onChange = onChange;
  }

  /** The same object as before has no effect. */
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
    return { statuses: this.#store?.statuses() ?? [] };
  }

  /** Secrets whose last change could not be used, as configuration that was not taken. */
  refusals(): readonly Refusal[] {
    return this.report().statuses.filter(({ fault }) => fault !== "")
      .map(({ name, source, fault }) => ({
        // The secret has no name where a secret file's only secret is taken.
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
