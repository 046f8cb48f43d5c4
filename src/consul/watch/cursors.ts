/**
 * The position of a watch in time: what it reads next, and whether it believes the answer.
 *
 * Beside an agent every answer is believed, and an index is worth nothing once a connection broke.
 *
 * Beside servers an index means the same everywhere, but an answer may be older than it looks. Waits are
 * stale reads, because those outlast the loss of a leader, and spare it. But a server that lags, or has
 * just restarted, answers them from its own state, which may be empty, with headers that look
 * valid. So only a read in default consistency, which the leader answers, may take back what was
 * delivered or go back to a lower index. A stale answer that does is not believed, and the leader is
 * asked.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
import type { ConsulReach } from "./consul_reach.ts";

interface CursorRead {
  /** Absent: answer at once. */
  readonly cursor?: string;
  /** Any server may answer from its own state; absent: default consistency, by the leader. */
  readonly stale?: true;
}

interface CursorReply {
  readonly cursor?: string | undefined;
  /** Something that was delivered before is missing. */
  readonly lacks: boolean;
}

export interface WatchCursor {
  next(): CursorRead;
  /** Whether the answer to the last read is believed; if not, another read is due at once. */
  answered(reply: CursorReply): boolean;
  /** Whether another read may have an answer now; else a pause is due. */
  failed(code: ErrorCode): boolean;
}

export class AgentCursor implements WatchCursor {
  readonly #kind: "index" | "hash";
  readonly #reach: ConsulReach;
  #cursor: string | undefined;
  #epoch: number;

  constructor(kind: "index" | "hash", reach: ConsulReach) {
    this.#kind = kind;
    this.#reach = reach;
    this.#epoch = reach.epoch;
  }

  next(): CursorRead {
    if (this.#reach.epoch !== this.#epoch) this.#cursor = undefined;
    this.#epoch = this.#reach.epoch;
    return this.#cursor === undefined ? {} : { cursor: this.#cursor };
  }

  answered({ cursor }: CursorReply): boolean {
    const fell = this.#kind === "index" && Number(cursor) < Number(this.#cursor);
    this.#cursor = fell ? undefined : cursor || undefined;
    return true;
  }

  failed(): boolean {
    // Whatever failed, the agent that answers next may count from another index.
    this.#cursor = undefined;
    return false;
  }
}

/**
 * `read`: in default consistency, at once. `wait`: stale, for something newer. `glance`: stale and at
 * once, while there is no leader to ask: it shows whether there is something to wait for.
 */
export type ReadMode = "read" | "wait" | "glance";

export interface CursorPosition {
  /** Index of the last answer that was believed; 0: none was. */
  readonly index: number;
  readonly next: ReadMode;
}

export type CursorEvent =
  /** To the read `next`. `index` 0: the answer has none. */
  | { readonly kind: "answer"; readonly index: number; readonly lacks: boolean }
  | { readonly kind: "failure"; readonly code: ErrorCode }
  /** From now on requests go to another server, or carry another token. */
  | { readonly kind: "move" };

interface CursorStep {
  readonly position: CursorPosition;
  /** `deliver` the answer; `ask` something else at once; `pause` before the next read. */
  readonly then: "deliver" | "ask" | "pause";
}

export const FIRST: CursorPosition = { index: 0, next: "read" };

export function step({ index, next }: CursorPosition, event: CursorEvent): CursorStep {
  const again: CursorPosition = { index, next: "read" };
  if (event.kind === "move") return { position: again, then: "ask" };
  if (event.kind === "failure") {
    // Most likely there is no leader, which a stale wait does not need.
    const glances = next === "read" && index > 0 && event.code === "agent_failed";
    return glances
      ? { position: { index, next: "glance" }, then: "ask" }
      : { position: again, then: "pause" };
  }
  const isBelieved = next === "read" || (event.index >= index && !event.lacks);
  if (!isBelieved) return { position: again, then: next === "glance" ? "pause" : "ask" };
  const position: CursorPosition = event.index === 0 ? FIRST : { index: event.index, next: "wait" };
  return { position, then: "deliver" };
}

export class ServerCursor implements WatchCursor {
  readonly #reach: ConsulReach;
  #epoch: number;
  #position = FIRST;

  constructor(reach: ConsulReach) {
    this.#reach = reach;
    this.#epoch = reach.epoch;
  }

  next(): CursorRead {
    if (this.#reach.epoch !== this.#epoch) this.#step({ kind: "move" });
    this.#epoch = this.#reach.epoch;
    const { index, next } = this.#position;
    switch (next) {
      case "read":
        return {};
      case "wait":
        return { cursor: String(index), stale: true };
      case "glance":
        return { stale: true };
    }
  }

  answered({ cursor, lacks }: CursorReply): boolean {
    return this.#step({ kind: "answer", index: Number(cursor ?? 0), lacks }) === "deliver";
  }

  failed(code: ErrorCode): boolean {
    return this.#step({ kind: "failure", code }) === "ask";
  }

  #step(event: CursorEvent): CursorStep["then"] {
    const { position, then } = step(this.#position, event);
    this.#position = position;
    return then;
  }
}
