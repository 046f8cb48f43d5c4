/** Replies of a broken agent, or of something in front of it, planned by a test. @module */

import type { Api } from "../../../src/dev/http/api.ts";

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
  /** Matches the method, a space and the target with its query. */
  readonly on: RegExp;
  readonly fault: Fault;
  left: number;
}

export class Faults {
  readonly #planned: Planned[] = [];
  #requests = 0;

  /** Requests so far. */
  get requests(): number {
    return this.#requests;
  }

  /** Plans the fault for the next `times` requests that match. */
  add(on: RegExp, fault: Fault, times: number): void {
    this.#planned.push({ on, fault, left: times });
  }

  clear(): void {
    this.#planned.length = 0;
  }

  /** Counts requests and spoils those that a fault is planned for. */
  extend(api: Api): void {
    api.use(async (call, next) => {
      this.#requests++;
      const { pathname, search } = new URL(call.req.url);
      const fault = this.#take(`${call.req.method} ${pathname}${search}`);
      if (fault?.kind === "status") return new Response(fault.text, { status: fault.status });
      if (fault?.kind === "hang") return await goneOf(call.req.raw.signal);
      await next();
      if (fault) call.res = new Response(spoiled(fault, await call.res.text()), call.res);
      return undefined;
    });
  }

  #take(line: string): Fault | undefined {
    const at = this.#planned.findIndex(({ on }) => on.test(line));
    const planned = this.#planned[at];
    if (!planned) return undefined;
    planned.left--;
    if (planned.left <= 0) this.#planned.splice(at, 1);
    return planned.fault;
  }
}

/** Resolves when the client has gone, with a reply that goes nowhere. */
function goneOf(signal: AbortSignal): Promise<Response> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(new Response(null)));
  });
}

function spoiled(fault: Fault, body: string): string | ReadableStream {
  const half = body.slice(0, Math.floor(body.length / 2));
  switch (fault.kind) {
    case "truncate":
      return half;
    case "replace":
      return fault.body;
    case "oversize":
      return `"${"x".repeat(Math.max(fault.bytes - 2, 0))}"`;
    case "cut":
      return new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode(half)),
        pull: (controller) => controller.error(new Error("cut")),
      });
    default:
      return body;
  }
}
