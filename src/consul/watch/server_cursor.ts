/**
 * What is believed of Consul's servers. Waiting is done with stale reads, because those outlast the loss
 * of a leader, and spare it. But a server that lags, or has just restarted, answers them from what it has,
 * which may be nothing at all, under headers that look well. So only a read in default consistency, which
 * the leader answers for, may take back what was delivered or go back to a lower index; a stale one that
 * does is not believed, and the leader is asked.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
import type { AgentLink } from "../http/link.ts";
import type { CursorRead, CursorReply, WatchCursor } from "./watch_cursor.ts";

/**
 * `read`: in default consistency, at once. `wait`: stale, for something newer. `glance`: stale and at
 * once, where nobody can be asked who answers for all: it shows whether there is something to wait for.
 */
export type ReadMode = "read" | "wait" | "glance";

export interface CursorPosition {
  /** Index of what was believed last; 0: nothing was. */
  readonly index: number;
  readonly next: ReadMode;
}

export type CursorEvent =
  /** To `next`. `index` 0: the answer has none. */
  | { readonly kind: "answer"; readonly index: number; readonly lacks: boolean }
  | { readonly kind: "failure"; readonly code: ErrorCode }
  /** Another server is asked from now on, or with another token. */
  | { readonly kind: "move" };

export const FIRST: CursorPosition = { index: 0, next: "read" };

/** `then`: `deliver` the answer; `ask` something else at once; `pause` before the next question. */
export function step(
  { index, next }: CursorPosition,
  news: CursorEvent,
): { readonly standing: CursorPosition; readonly then: "deliver" | "ask" | "pause" } {
  const again: CursorPosition = { index, next: "read" };
  if (news.kind === "move") return { standing: again, then: "ask" };
  if (news.kind === "failure") {
    // No leader, most likely: who waits stale does not need one.
    const glances = next === "read" && index > 0 && news.code === "agent_failed";
    return glances
      ? { standing: { index, next: "glance" }, then: "ask" }
      : { standing: again, then: "pause" };
  }
  const believed = next === "read" || (news.index >= index && !news.lacks);
  if (!believed) return { standing: again, then: next === "glance" ? "pause" : "ask" };
  const standing: CursorPosition = news.index === 0
    ? { index: 0, next: "read" }
    : { index: news.index, next: "wait" };
  return { standing, then: "deliver" };
}

export class ServerCursor implements WatchCursor {
  readonly #link: AgentLink;
  #epoch: number;
  #standing = FIRST;

  constructor(link: AgentLink) {
    this.#link = link;
    this.#epoch = link.epoch;
  }

  ask(): CursorRead {
    if (this.#link.epoch !== this.#epoch) this.#hear({ kind: "move" });
    this.#epoch = this.#link.epoch;
    const { index, next } = this.#standing;
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
    return this.#hear({ kind: "answer", index: Number(cursor ?? 0), lacks }) === "deliver";
  }

  failed(code: ErrorCode): boolean {
    return this.#hear({ kind: "failure", code }) === "ask";
  }

  #hear(news: CursorEvent): ReturnType<typeof step>["then"] {
    const { standing, then } = step(this.#standing, news);
    this.#standing = standing;
    return then;
  }
}
