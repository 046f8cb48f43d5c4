/**
 * Where a watch stands in time: what it asks next, and whether it believes what it hears. Beside an agent
 * every answer is true, and an index is worth nothing once a connection broke. Beside servers an index
 * means the same everywhere, but not every answer is as new as it looks (`server_stand.ts`).
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
import type { AgentLink } from "../http/link.ts";

export interface CursorRead {
  /** Absent: to be answered at once. */
  readonly cursor?: string;
  /** Any server may answer from what it has; else the leader is asked, as is the default. */
  readonly stale?: true;
}

export interface CursorReply {
  readonly cursor?: string | undefined;
  /** Something that was delivered before is not there any more. */
  readonly lacks: boolean;
}

export interface WatchCursor {
  ask(): CursorRead;
  /** Whether the answer to the last question is believed; if not, another question is due at once. */
  answered(heard: CursorReply): boolean;
  /** Whether another question may have an answer now; else all wait for a while. */
  failed(code: ErrorCode): boolean;
}

export class AgentCursor implements WatchCursor {
  /** An index counts up; a hash is only equal or not. */
  readonly #kind: "index" | "hash";
  readonly #link: AgentLink;
  #cursor: string | undefined;
  #epoch: number;

  constructor(kind: "index" | "hash", link: AgentLink) {
    this.#kind = kind;
    this.#link = link;
    this.#epoch = link.epoch;
  }

  ask(): CursorRead {
    if (this.#link.epoch !== this.#epoch) this.#cursor = undefined;
    this.#epoch = this.#link.epoch;
    return this.#cursor === undefined ? {} : { cursor: this.#cursor };
  }

  answered({ cursor }: CursorReply): boolean {
    this.#cursor = this.#next(cursor);
    return true;
  }

  failed(): boolean {
    // Whatever failed, the agent that answers next may count from another index.
    this.#cursor = undefined;
    return false;
  }

  #next(next: string | undefined): string | undefined {
    const fell = this.#kind === "index" && Number(next) < Number(this.#cursor);
    return fell ? undefined : next || undefined;
  }
}
