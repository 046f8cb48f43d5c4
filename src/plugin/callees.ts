/** Calls of plugins to other services, limited in number and time. @module */

import { addField, fieldOf, isGrpc } from "../http/mod.ts";
import type { Call, CalleeHealth, Failure, RequestChange, Terms } from "./api.ts";
import { MadeBody, PassingBody } from "./body.ts";
import { notSent, PluginRequest, type PluginResponse } from "./messages.ts";

export interface CalleeName {
  readonly target: string;
  readonly http2: boolean;
}

/** The services that can be called, by one state of the configuration. */
export interface Callees {
  /** Why the service cannot be called, in words that follow its name; `undefined`: it can. */
  whyNot(name: CalleeName): string | undefined;
  /** Requires that {@link whyNot} is `undefined`. The caller closes the result once. */
  open(name: CalleeName): Callee;
}

export interface Callee {
  /** The default authority of a request. */
  readonly authority: string;
  /** Calls `onResponse` once, now or later, unless the call is cancelled before. */
  call(request: CalleeRequest, onResponse: (response: PluginResponse) => void): { cancel(): void };
  /** How many endpoints it has, and how many of them are neither ejected nor failing. */
  endpoints(): Pick<CalleeHealth, "known" | "usable">;
  close(): void;
}

export interface CalleeRequest {
  /** The body is bytes, absent, or a stream if the call streams. */
  readonly request: PluginRequest;
  /** The call streams: it is over with the body of the response. Absent: the response is whole. */
  readonly onOver?: () => void;
  readonly timeoutMs: number;
  /** `undefined`: the body of the response is discarded. */
  readonly limitBytes: number | undefined;
  /** Aborts the call; usually that of the exchange. */
  readonly signal: AbortSignal | undefined;
}

const MAX_CALLEES = 16;
/** Concurrent calls of one plugin: Envoy's default `max_requests` of a cluster. */
const MAX_CALLS = 1_024;
/** Each may hold 64 KB of a response that is read slowly. */
const MAX_STREAMS = 128;
const MAX_TIMEOUT_MS = 60_000;

const BLANK = new PluginRequest({
  method: "GET",
  scheme: "http",
  authority: "",
  path: "/",
  upgrade: "",
  length: 0,
  saysLength: false,
  expectsContinue: false,
  fields: [],
  version: "HTTP/1.1",
}, null);

export class PluginCalls {
  readonly names: CalleeName[] = [];
  readonly #callees: Callees | undefined;
  readonly #open: Callee[] = [];
  /** Ends each call that is under way. */
  readonly #running = new Set<() => void>();
  /** How many of them stream. */
  #streams = 0;
  #isClosed = false;

  constructor(callees: Callees | undefined) {
    this.#callees = callees;
  }

  /** Throws a TypeError if the service cannot be called. */
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
    let lastFailure: Failure | null = null;
    const call = async (change: RequestChange, terms: Terms, streams: boolean) => {
      const response = await this.#call(callee, change, { ...terms, streams });
      // A caller that left says nothing about the callee.
      if (response.failure?.code !== "closed") lastFailure = response.failure;
      return response;
    };
    return Object.assign((change: RequestChange, terms: Terms) => call(change, terms, false), {
      stream: (change: RequestChange, terms: Omit<Terms, "limitBytes">) =>
        call(change, terms, true),
      health: () => ({ ...callee.endpoints(), lastFailure }),
    });
  }

  #call(
    callee: Callee,
    change: RequestChange,
    terms: Terms & { readonly streams: boolean },
  ): Promise<PluginResponse> {
    return new Promise((resolve) => {
      const { signal, streams } = terms;
      let isOver = false;
      const over = () => {
        if (isOver) return;
        isOver = true;
        this.#running.delete(end);
        if (streams) this.#streams--;
        signal?.removeEventListener("abort", end);
      };
      const made = calleeRequestOf(callee, change, terms);
      if (signal?.aborted || this.#isClosed) return resolve(notSent("closed", UNWANTED));
      if (this.#running.size >= MAX_CALLS || streams && this.#streams >= MAX_STREAMS) {
        const limit = streams ? `${MAX_STREAMS} streamed calls` : `${MAX_CALLS} calls`;
        return resolve(notSent("limit_reached", `${limit} are under way`));
      }
      const end = () => {
        call.cancel();
        over();
        resolve(notSent("closed", UNWANTED));
      };
      this.#running.add(end);
      if (streams) this.#streams++;
      signal?.addEventListener("abort", end);
      const request = streams ? { ...made, onOver: over } : made;
      const call = callee.call(request, (response) => {
        if (!streams || response.failure) over();
        resolve(response);
      });
    });
  }

  /** Calls that are under way end with a failure. */
  close(): void {
    this.#isClosed = true;
    for (const end of [...this.#running]) end();
    for (const callee of this.#open.splice(0)) callee.close();
  }
}

const UNWANTED = "nobody waits for an answer any more";

/** Throws a TypeError for a request that cannot be sent. */
function calleeRequestOf(
  { authority }: Callee,
  change: RequestChange,
  terms: Terms & { readonly streams: boolean },
): CalleeRequest {
  const { timeoutMs, limitBytes, signal, streams } = terms;
  if (!(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS)) {
    throw new TypeError(`timeoutMs ${timeoutMs}: above 0, and up to ${MAX_TIMEOUT_MS}`);
  }
  const { body } = change;
  const kept = body instanceof PassingBody ? body.kept() : undefined;
  const request = BLANK.with({ authority, ...change, ...(kept && { body: kept }) });
  if (request.body && !(request.body instanceof MadeBody && (streams || request.body.whole))) {
    const kinds = streams ? "text, bytes, a stream" : "text, bytes";
    throw new TypeError(`body: of a call it is ${kinds}, or one that came and was kept`);
  }
  return { request: withTrailers(request), timeoutMs, limitBytes, signal };
}

/** gRPC servers require `te: trailers`, a field that no plugin may set. */
function withTrailers(request: PluginRequest): PluginRequest {
  const { head, body } = request;
  if (!isGrpc(head.fields) || fieldOf(head.fields, "te") !== undefined) return request;
  // The array may belong to another request, too.
  const fields = head.fields.slice();
  addField(fields, "te", "trailers");
  return new PluginRequest({ ...head, fields }, body);
}
