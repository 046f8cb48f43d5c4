/**
 * Keeps what is stored as new as what is in force: the snapshot, and where its credentials come from.
 *
 * @module
 */

import type { Registration } from "../../consul/mod.ts";
import { keySalt } from "../../secrets/mod.ts";
import { sameContent, type Snapshot } from "../../snapshot/mod.ts";
import type { SnapshotStore } from "../state/store.ts";
import type { StoredCredentials, StoredState } from "../state/stored_credentials.ts";
import { storedCredentials } from "./plan_registration.ts";

export class StateKeeper {
  readonly #store: SnapshotStore;
  #registration: Registration | undefined;
  #credentials: StoredCredentials | undefined;
  /** Saved, or to be when its snapshot is in force. */
  #saved: StoredState | undefined;

  constructor(store: SnapshotStore) {
    this.#store = store;
  }

  load(proxyId: string): Promise<StoredState | undefined> {
    return this.#store.load(proxyId);
  }

  /** From now on `state` is in use: until the agent answers, its facts hold. */
  restored(state: StoredState): void {
    this.#saved = state;
    const { credentials } = state;
    // Keys of what has come since are this process's.
    this.#credentials = credentials && { ...credentials, salt: keySalt() };
  }

  /**
   * Stores what is new as soon as it is `taken`: one that the data path refuses would be refused after a
   * restart, too. No `registration`: the agent has not said yet who we are.
   */
  keep(
    snapshot: Snapshot,
    registration: Registration | undefined,
    taken: Promise<boolean>,
  ): void {
    if (registration && registration !== this.#registration) {
      this.#registration = registration;
      const credentials = storedCredentials(registration);
      if (!sameContent(credentials, this.#credentials)) this.#credentials = credentials;
    }
    const credentials = this.#credentials;
    if (this.#saved?.snapshot === snapshot && this.#saved.credentials === credentials) return;
    const state = this.#saved = { snapshot, ...(credentials && { credentials }) };
    void taken.then((isTaken) => {
      if (isTaken) this.#store.save(state);
    });
  }

  async close(): Promise<void> {
    await this.#store.close();
  }
}
