/**
 * Replies that a broken agent, or something between, could give: asked for by tests, once or more.
 *
 * @module
 */

import type { DevReply } from "./dev_exchange.ts";

export type Fault =
  /** A refusal with this status and text. */
  | { readonly kind: "status"; readonly status: number; readonly text: string }
  /** No reply; the connection stays open. */
  | { readonly kind: "hang" }
  /** The connection ends in the middle of the body. */
  | { readonly kind: "cut" }
  /** A whole reply whose JSON stops half way. */
  | { readonly kind: "truncate" }
  /** The real headers with another body. */
  | { readonly kind: "replace"; readonly body: string }
  /** A body of this size, valid JSON. */
  | { readonly kind: "oversize"; readonly bytes: number };

interface Planned {
  /** Matches method, a space and the target with its query. */
  readonly on: RegExp;
  readonly fault: Fault;
  left: number;
}

export class Faults {
  readonly #planned: Planned[] = [];

  /** The next `times` requests that match get the fault. */
  add(on: RegExp, fault: Fault, times: number): void {
    this.#planned.push({ on, fault, left: times });
  }

  clear(): void {
    this.#planned.length = 0;
  }

  take(line: string): Fault | undefined {
    const at = this.#planned.findIndex((planned) => planned.on.test(line));
    const planned = this.#planned[at];
    if (!planned) return undefined;
    planned.left--;
    if (planned.left <= 0) this.#planned.splice(at, 1);
    return planned.fault;
  }
}

/** Whether the fault needs the real reply first. */
export function needsReply(fault: Fault): boolean {
  return fault.kind !== "status" && fault.kind !== "hang";
}

export function spoil(fault: Fault, reply: DevReply): DevReply {
  switch (fault.kind) {
    case "status":
      return {
        status: fault.status,
        headers: { "Content-Type": "text/plain; charset=utf-8" },
        body: fault.text,
      };
    case "hang":
      return { ...reply, fault: "hang" };
    case "cut":
      return { ...reply, fault: "cut" };
    case "truncate":
      return { ...reply, body: reply.body.slice(0, Math.floor(reply.body.length / 2)) };
    case "replace":
      return { ...reply, body: fault.body };
    case "oversize":
      return { ...reply, body: `"${"x".repeat(Math.max(fault.bytes - 2, 0))}"` };
    default:
      return fault satisfies never;
  }
}
