/**
 * Sessions: signs of life that end unless they are renewed. Checks of type `session` that name one are
 * passing while it is in force and critical from its end on. There are no locks.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { type Clock, parseDurationMs, type Timer } from "../../../../src/base/mod.ts";
import type { CatalogNode } from "../../../../src/dev/catalog/catalog.ts";
import type { Status } from "../../../../src/dev/catalog/records.ts";
import { type JsonObject, objectAt, textAt } from "../../../../src/dev/json.ts";
import { HttpRefusal } from "../../../../src/dev/refusal.ts";

interface NewSession {
  readonly name: string;
  readonly node: CatalogNode;
  /** Checks of the node that must be there. */
  readonly nodeChecks: readonly string[];
  /** As written; `""`: the session lasts until it is destroyed. */
  readonly ttl: string;
}

interface Session extends NewSession {
  readonly id: string;
  readonly ttlMs: number;
  timer: Timer | undefined;
}

export const SERF_HEALTH = "serfHealth";

const LEAST_TTL_MS = 10_000;
const MOST_TTL_MS = 24 * 3_600_000;
/** A session lasts for its TTL so many times after it was renewed. */
const GRACE = 2;

export class Sessions {
  readonly #clock: Clock;
  readonly #sessions = new Map<string, Session>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Makes a session; its id. */
  create(content: NewSession): string {
    const { node } = content;
    const ttlMs = ttlOf(content.ttl);
    for (const check of content.nodeChecks) {
      const exists = node.check(check) || (check === SERF_HEALTH && node.record.hasAgent);
      if (!exists) {
        throw new HttpRefusal(500, `apply failed: Missing check '${check}' registration`);
      }
    }
    const session: Session = { ...content, id: randomUUID(), ttlMs, timer: undefined };
    this.#sessions.set(session.id, session);
    this.#begin(session);
    this.#report(session, "passing", `Session '${session.id}' in force`);
    return session.id;
  }

  /** The name of its node; undefined: there is no such session. */
  nodeOf(id: string): string | undefined {
    return this.#sessions.get(id)?.node.record.name;
  }

  /** As the API shows it; undefined: there is no such session. */
  renew(id: string): JsonObject | undefined {
    const session = this.#sessions.get(id);
    if (!session) return undefined;
    this.#begin(session);
    return {
      ID: session.id,
      Name: session.name,
      Node: session.node.record.name,
      LockDelay: 0,
      Behavior: "release",
      TTL: session.ttl,
      NodeChecks: session.nodeChecks,
      ServiceChecks: null,
      CreateIndex: 1,
      ModifyIndex: 1,
    };
  }

  destroy(id: string): void {
    const session = this.#sessions.get(id);
    if (!session) return;
    session.timer?.cancel();
    this.#sessions.delete(id);
    this.#report(session, "critical", `Session '${session.id}' is invalid`);
  }

  /** Destroys those of a node that was removed. */
  destroyOn(name: string): void {
    for (const { id, node } of [...this.#sessions.values()]) {
      if (node.record.name === name) this.destroy(id);
    }
  }

  /** No TTL runs: there is no leader. */
  pause(): void {
    for (const session of this.#sessions.values()) session.timer?.cancel();
  }

  /** Every TTL begins anew, as under a new leader. */
  restart(): void {
    for (const session of this.#sessions.values()) this.#begin(session);
  }

  #begin(session: Session): void {
    session.timer?.cancel();
    if (session.ttlMs === 0) return;
    session.timer = this.#clock.after(GRACE * session.ttlMs, () => this.destroy(session.id));
  }

  #report({ node, name }: Session, status: Status, output: string): void {
    for (const { createIndex: _c, modifyIndex: _m, ...check } of node.checks()) {
      const { facts } = check;
      const isOurs = textAt(facts, "Type") === "session" &&
        textAt(objectAt(facts, "Definition"), "SessionName") === name;
      if (isOurs) node.putCheck({ ...check, status, output });
    }
  }
}

function ttlOf(text: string): number {
  if (text === "") return 0;
  const ttlMs = parseDurationMs(text);
  if (ttlMs === undefined) {
    const fact = `time: invalid duration ${JSON.stringify(text)}`;
    throw new HttpRefusal(500, `Session TTL '${text}' invalid: ${fact}`);
  }
  if (ttlMs < LEAST_TTL_MS || ttlMs > MOST_TTL_MS) {
    const fact = "must be between [10s=24h0m0s]";
    throw new HttpRefusal(500, `Invalid Session TTL '${ttlMs * 1e6}', ${fact}`);
  }
  return ttlMs;
}
