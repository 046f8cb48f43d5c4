/** Requests and responses as plugins see them: immutable values over the codecs' heads. @module */

import { type ErrorCode, replyOf } from "../base/mod.ts";
import { isToken, type RequestHead, type ResponseHead, UNKNOWN_LENGTH } from "../http/mod.ts";
import type {
  Endpoint,
  Failure,
  HttpRequest,
  HttpResponse,
  RequestChange,
  ResponseChange,
} from "./api.ts";
import { bodyOf, type MadeBody, type PassingBody } from "./body.ts";
import { fieldsWith, HeaderList, ownNamesWith } from "./header_list.ts";

export type MessageBody = PassingBody | MadeBody;

export class PluginRequest implements HttpRequest {
  /** Immutable once a plugin has the request. */
  readonly head: RequestHead;
  readonly body: MessageBody | null;
  #headers: HeaderList | undefined;

  constructor(head: RequestHead, body: MessageBody | null) {
    this.head = head;
    this.body = body;
  }

  get method(): string {
    return this.head.method;
  }

  get scheme(): string {
    return this.head.scheme;
  }

  get authority(): string {
    return this.head.authority;
  }

  get path(): string {
    return this.head.path;
  }

  get upgrade(): string {
    return this.head.upgrade;
  }

  get headers(): HeaderList {
    return this.#headers ??= new HeaderList(this.head.fields, this.head.ownNames);
  }

  with(change: RequestChange): PluginRequest {
    const { head } = this;
    const { method = head.method, path = head.path, authority = head.authority } = change;
    if (method !== head.method && !isToken(method)) throw new TypeError(`method: ${method}`);
    if (path !== head.path && !PATH.test(path)) {
      throw new TypeError(`path ${JSON.stringify(path)}: begins with / and has no space in it`);
    }
    if (authority !== head.authority && !AUTHORITY.test(authority)) {
      throw new TypeError(`authority ${JSON.stringify(authority)}: no host`);
    }
    const body = change.body === undefined ? this.body : bodyOf(change.body);
    const length = body === this.body ? head.length : lengthOf(body);
    const fields = fieldsWith(head.fields, change.headers);
    // The property order of the codecs' heads: engines then use one hidden class for all heads.
    return new PluginRequest({
      method,
      scheme: head.scheme,
      authority,
      path,
      upgrade: head.upgrade,
      length,
      saysLength: head.saysLength,
      expectsContinue: head.expectsContinue,
      fields,
      version: head.version,
      ownNames: ownNamesWith(head.ownNames, change.headers),
    }, body);
  }
}

const PATH = /^\/[\x21-\x7e]*$/;
const AUTHORITY = /^[\x21-\x2e\x30-\x3e\x41-\x7e]+$/;

function lengthOf(body: MessageBody | null): number {
  return body ? body.length ?? UNKNOWN_LENGTH : 0;
}

export class PluginResponse implements HttpResponse {
  readonly head: ResponseHead;
  readonly body: MessageBody | null;
  readonly endpoint: Endpoint | null;
  readonly failure: ResponseFailure | null;
  readonly #acceptsUpgrade: boolean;
  #headers: HeaderList | undefined;

  constructor(head: ResponseHead, body: MessageBody | null, by: {
    readonly endpoint: Endpoint | null;
    readonly failure: ResponseFailure | null;
    /** Its connection is upgraded, and carries bytes from then on; default: false. */
    readonly acceptsUpgrade?: boolean;
  }) {
    this.head = head;
    this.body = body;
    this.endpoint = by.endpoint;
    this.failure = by.failure;
    this.#acceptsUpgrade = by.acceptsUpgrade ?? false;
  }

  get status(): number {
    return this.head.status;
  }

  get headers(): HeaderList {
    return this.#headers ??= new HeaderList(this.head.fields);
  }

  with(change: ResponseChange): PluginResponse {
    const { head, endpoint } = this;
    const { status = head.status } = change;
    if (status !== head.status) checkStatus(status);
    const body = change.body === undefined ? this.body : bodyOf(change.body);
    const acceptsUpgrade = this.#acceptsUpgrade && status === head.status;
    if (acceptsUpgrade && body !== null) {
      throw new TypeError(
        "body: the response accepts an upgrade, whose bytes plugins cannot change",
      );
    }
    const length = body === this.body ? head.length : lengthOf(body);
    const fields = fieldsWith(head.fields, change.headers);
    // A plugin that changes the status or body of a failure has answered in its place.
    const isSame = status === head.status && body === this.body;
    const failure = isSame ? this.failure : null;
    const by = { endpoint, failure, acceptsUpgrade };
    return new PluginResponse({ status, length, fields }, body, by);
  }
}

export function checkStatus(status: number): void {
  if (Number.isInteger(status) && status >= 200 && status <= 599) return;
  throw new TypeError(`status ${status}: from 200 to 599`);
}

/** A failure whose code is in the error table. */
export interface ResponseFailure extends Failure {
  readonly code: ErrorCode;
}

/** A response for a failure. It has the proxy's status, and only those fields that plugins add. */
export function failed(failure: ResponseFailure): PluginResponse {
  const head = { status: replyOf(failure.code).status, length: 0, fields: [] };
  return new PluginResponse(head, null, { endpoint: failure.endpoint, failure });
}

/** A failure of a request that no endpoint got. */
export function notSent(code: ErrorCode, reason: string): PluginResponse {
  return failed({ code, reason, wasSent: false, endpoint: null });
}

export interface ResponseListener {
  settle(response: PluginResponse): void;
}

/** A response that arrives once. No promise is made unless a plugin awaits it. */
export class ResponseOutcome implements PromiseLike<PluginResponse>, ResponseListener {
  /** May be settled without this one. */
  readonly outer: ResponseOutcome | undefined;
  readonly #change: ((response: PluginResponse) => void) | undefined;
  /** A response arrived, though it may not be changed yet. */
  hasCome = false;
  /** `undefined` until the final response is known. */
  value: PluginResponse | undefined;
  #listener: ResponseListener | undefined;
  #promise: PromiseWithResolvers<PluginResponse> | undefined;

  /** `change` calls {@link become} with the changed response. */
  constructor(outer?: ResponseOutcome, change?: (response: PluginResponse) => void) {
    this.outer = outer;
    this.#change = change;
  }

  /** A response is no longer needed. */
  get isOver(): boolean {
    return this.hasCome || this.outer?.isOver === true;
  }

  /** The changed response is no longer needed. */
  get isDone(): boolean {
    return this.value !== undefined || this.outer?.isOver === true;
  }

  /** Only the first response counts. */
  settle(response: PluginResponse): void {
    if (this.hasCome) return;
    this.hasCome = true;
    if (this.#change) this.#change(response);
    else this.become(response);
  }

  /** Sets the final response, once. */
  become(response: PluginResponse): void {
    if (this.value) return;
    this.value = response;
    this.#promise?.resolve(response);
    this.#listener?.settle(response);
  }

  /** Calls the one listener, now or as soon as the final response is known. */
  listen(listener: ResponseListener): void {
    if (this.value) listener.settle(this.value);
    else this.#listener = listener;
  }

  then<A = PluginResponse, B = never>(
    fulfilled?: ((response: PluginResponse) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    if (!this.#promise) {
      this.#promise = Promise.withResolvers();
      if (this.value) this.#promise.resolve(this.value);
    }
    return this.#promise.promise.then(fulfilled, rejected);
  }
}
