/**
 * Sessions: signs of life that end when nobody renews them. Checks of type `session` that name one are
 * passing while it is in force and critical from its end on. Locks, which they are for as well, are not here.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { type Clock, parseDurationMs, type Timer } from "../../base/mod.ts";
import type { JsonObject } from "../http/decode.ts";
import { textAt } from "../http/fields.ts";
import { Refusal } from "../http/refusal.ts";
import type { Catalog } from "./catalog.ts";
import type { NodeRecord, Status } from "./records.ts";
import type { Store } from "./store.ts";

export interface SessionsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly catalog: Catalog;
}

export interface NewSession {
  readonly name: string;
  readonly node: NodeRecord;
  /** Checks of the node that must be there. */
  readonly nodeChecks: readonly string[];
  /** As written; `""`: lasts until it is destroyed. */
  readonly ttl: string;
}

interface Session extends NewSession {
  readonly id: string;
  readonly ttlMs: number;
  readonly index: number;
  timer: Timer | undefined;
}

const LEAST_TTL_MS = 10_000;
const MOST_TTL_MS = 24 * 3_600_000;
/** A session may last so many times its TTL after it was renewed, and does. */
const GRACE = 2;

export class Sessions {
  readonly #options: SessionsOptions;
  readonly #sessions = new Map<string, Session>();

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** Its id. */
  create(asked: NewSession): string {
    const ttlMs = ttlOf(asked.ttl);
    const { catalog, store } = this.#options;
    for (const check of asked.nodeChecks) {
      const isThere = catalog.check(asked.node, check) ||
        (check === SERF_HEALTH && asked.node.hasAgent);
      if (!isThere) throw new Refusal(500, `apply failed: Missing check '${check}' registration`);
    }
    const index = store.commit("session", []);
    const session: Session = { ...asked, id: randomUUID(), ttlMs, index, timer: undefined };
    this.#sessions.set(session.id, session);
    this.#begin(session);
    this.#tell(session, "passing", `Session '${session.id}' in force`);
    return session.id;
  }

  /** Of which node it is; undefined: there is none. */
  nodeOf(id: string): string | undefined {
    return this.#sessions.get(id)?.node.name;
  }

  /** As the API shows it; undefined: there is none (any more). */
  renew(id: string): JsonObject | undefined {
    const session = this.#sessions.get(id);
    if (!session) return undefined;
    this.#begin(session);
    return {
      ID: session.id,
      Name: session.name,
      Node: session.node.name,
      LockDelay: 0,
      Behavior: "release",
      TTL: session.ttl,
      NodeChecks: session.nodeChecks,
      ServiceChecks: null,
      CreateIndex: session.index,
      ModifyIndex: session.index,
    };
  }

  destroy(id: string): void {
    const session = this.#sessions.get(id);
    if (!session) return;
    session.timer?.cancel();
    this.#sessions.delete(id);
    this.#options.store.commit("session", []);
    this.#tell(session, "critical", `Session '${session.id}' is invalid`);
  }

  /** Those of a node that is no more. */
  destroyOn(node: NodeRecord): void {
    for (const { id, node: { name } } of [...this.#sessions.values()]) {
      if (name === node.name) this.destroy(id);
    }
  }

  /** Nobody counts: there is no leader. */
  pause(): void {
    for (const session of this.#sessions.values()) session.timer?.cancel();
  }

  /** A new leader counts anew. */
  restart(): void {
    for (const session of this.#sessions.values()) this.#begin(session);
  }

  #begin(session: Session): void {
    session.timer?.cancel();
    if (session.ttlMs === 0) return;
    const { clock } = this.#options;
    session.timer = clock.after(GRACE * session.ttlMs, () => this.destroy(session.id));
  }

  #tell({ node, name }: Session, status: Status, output: string): void {
    const { catalog } = this.#options;
    for (const check of catalog.checksOf(node)) {
      if (check.type !== "session" || textAt(check.definition, "SessionName") !== name) continue;
      const { createIndex: _c, modifyIndex: _m, ...rest } = check;
      catalog.registerCheck(node, { ...rest, status, output });
    }
  }
}

export const SERF_HEALTH = "serfHealth";

function ttlOf(text: string): number {
  if (text === "") return 0;
  const ttlMs = parseDurationMs(text);
  if (ttlMs === undefined) {
    const fact = `time: invalid duration ${JSON.stringify(text)}`;
    throw new Refusal(500, `Session TTL '${text}' invalid: ${fact}`);
  }
  if (ttlMs < LEAST_TTL_MS || ttlMs > MOST_TTL_MS) {
    const fact = "must be between [10s=24h0m0s]";
    throw new Refusal(500, `Invalid Session TTL '${ttlMs * 1e6}', ${fact}`);
  }
  return ttlMs;
}
