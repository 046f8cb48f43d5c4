/**
 * What plugins ask of others: a request that the data path carries, and its whole answer as a value. How
 * many are under way is limited, and each has its time.
 *
 * @module
 */

import type { ErrorCode } from "../base/mod.ts";
import { addField, fieldOf, isGrpc } from "../http/mod.ts";
import type { Call, RequestChange, Terms } from "./api.ts";
import { MadeBody, PassingBody } from "./body.ts";
import { failed, PluginRequest, type PluginResponse } from "./messages.ts";

/** Whom a plugin names. */
export interface CalleeName {
  readonly target: string;
  readonly http2: boolean;
}

/** Who can be asked, by one state of the configuration. */
export interface Callees {
  /** In words that follow its name; `undefined`: nothing is wrong. */
  whyNot(name: CalleeName): string | undefined;
  /** Only where nothing is wrong with it. To be closed once. */
  open(name: CalleeName): Callee;
}

export interface Callee {
  /** What a request is for that does not say. */
  readonly authority: string;
  /** `told` once, now or later, unless it is cancelled before. */
  ask(question: CalleeRequest, told: (response: PluginResponse) => void): { cancel(): void };
  close(): void;
}

export interface CalleeRequest {
  /** Its body is bytes, or there is none. */
  readonly request: PluginRequest;
  readonly timeoutMs: number;
  /** `undefined`: no body is kept. */
  readonly limitBytes: number | undefined;
  /** Of the exchange that it is asked for, where the plugin says so. */
  readonly signal: AbortSignal | undefined;
}

/** Whom one plugin may name. */
const MAX_CALLEES = 16;
/** Calls of one plugin that are under way at once: as many as Envoy lets a cluster have. */
const MAX_CALLS = 1_024;
const MAX_TIMEOUT_MS = 60_000;

const BLANK = new PluginRequest({
  ...{ method: "GET", scheme: "http", authority: "", path: "/", upgrade: "", length: 0 },
  ...{ saysLength: false, expectsContinue: false, fields: [], version: "HTTP/1.1" },
}, null);

/** Of one plugin of a generation. */
export class PluginCalls {
  /** All that were named. */
  readonly names: CalleeName[] = [];
  readonly #callees: Callees | undefined;
  readonly #open: Callee[] = [];
  /** What ends each call that is under way. */
  readonly #under = new Set<() => void>();
  #isClosed = false;

  constructor(callees: Callees | undefined) {
    this.#callees = callees;
  }

  /** Throws a TypeError that says what is wrong with it. */
  to(name: CalleeName): Call {
    if (this.#isClosed) throw new TypeError("callee: the plugin was closed");
    if (this.names.length >= MAX_CALLEES) throw new RangeError(`more than ${MAX_CALLEES} callees`);
    const fault = this.#callees ? this.#callees.whyNot(name) : "there is nobody to ask";
    if (!this.#callees || fault !== undefined) {
      throw new TypeError(`Cannot ask ${JSON.stringify(name.target)}: ${fault}`);
    }
    const callee = this.#callees.open(name);
    this.names.push(name);
    this.#open.push(callee);
    return (request, terms) => this.#ask(callee, request, terms);
  }

  #ask(callee: Callee, change: RequestChange, terms: Terms): Promise<PluginResponse> {
    return new Promise((resolve) => {
      const question = questionOf(callee, change, terms);
      const { signal } = terms;
      if (signal?.aborted || this.#isClosed) return resolve(notAsked("closed", UNWANTED));
      if (this.#under.size >= MAX_CALLS) {
        return resolve(notAsked("limit_reached", `${MAX_CALLS} calls are under way`));
      }
      const over = (response: PluginResponse) => {
        this.#under.delete(end);
        signal?.removeEventListener("abort", end);
        resolve(response);
      };
      const end = () => {
        asked.cancel();
        over(notAsked("closed", UNWANTED));
      };
      this.#under.add(end);
      signal?.addEventListener("abort", end);
      const asked = callee.ask(question, over);
    });
  }

  /** Whoever waits for an answer is told that there will be none. */
  close(): void {
    this.#isClosed = true;
    for (const end of [...this.#under]) end();
    for (const callee of this.#open.splice(0)) callee.close();
  }
}

const UNWANTED = "nobody waits for an answer any more";

/** Throws a TypeError where it is no request that could be sent. */
function questionOf({ authority }: Callee, change: RequestChange, terms: Terms): CalleeRequest {
  const { timeoutMs, limitBytes, signal } = terms;
  if (!(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS)) {
    throw new TypeError(`timeoutMs ${timeoutMs}: above 0, and up to ${MAX_TIMEOUT_MS}`);
  }
  const { body } = change;
  const kept = body instanceof PassingBody ? body.kept() : undefined;
  const request = BLANK.with({ authority, ...change, ...(kept && { body: kept }) });
  if (request.body && !(request.body instanceof MadeBody && request.body.whole)) {
    throw new TypeError("body: of a call it is text, bytes, or one that came and was kept");
  }
  return { request: withTrailers(request), timeoutMs, limitBytes, signal };
}

/** Servers of gRPC want to hear that trailers are understood, which no plugin may say. */
function withTrailers(request: PluginRequest): PluginRequest {
  const { head, body } = request;
  if (!isGrpc(head.fields) || fieldOf(head.fields, "te") !== undefined) return request;
  // They may be another request's, too.
  const fields = head.fields.slice();
  addField(fields, "te", "trailers");
  return new PluginRequest({ ...head, fields }, body);
}

function notAsked(code: ErrorCode, reason: string): PluginResponse {
  return failed({ code, reason, wasSent: false, endpoint: null });
}
