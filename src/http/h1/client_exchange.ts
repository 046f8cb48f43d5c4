/** A request on a client connection, and its writing. @module */

import type { Stream } from "../../net/mod.ts";
import type { ClientExchange, ResetReason, ResponseEvents } from "../exchange.ts";
import { type Fields, type RequestHead, UNKNOWN_LENGTH } from "../head.ts";
import type { HeldShare } from "../held_bytes.ts";
import { writeHead } from "./write_message.ts";
import type { Http1Owner } from "./connection.ts";
import type { AnsweredRequest } from "./parse_response.ts";
import { KEY, missingKey } from "./websocket.ts";

export interface Http1ClientOwner extends Http1Owner {
  /** Like `broken`, when nothing was written; takes effect in a later microtask. */
  unwritable(detail: string): void;
}

const NOT_AS_LONG = "the request is not as long as was said";
const NOT_LAWFUL = "the request has a part that cannot be written";
/** Characters that no reader takes for the end of a part. */
const REQUEST_LINE = /^[!-~]+ [!-~]+ HTTP\/1\.1$/;
const AUTHORITY = /^[!-~]*$/;
/** Methods for which a missing length has no meaning (RFC 9110 8.6). */
const BODYLESS = new Set(["GET", "HEAD", "OPTIONS", "DELETE", "TRACE", "CONNECT"]);

export class Http1ClientExchange implements ClientExchange {
  events: ResponseEvents;
  readonly asked: AnsweredRequest;
  readonly #head: RequestHead;
  readonly #held: HeldShare;
  /** Undefined: the exchange is over, and its methods have no effect. */
  #owner: Http1ClientOwner | undefined;
  #complete = false;
  /** The key that we added to a WebSocket request without one. */
  websocketKey = "";

  constructor(owner: Http1ClientOwner, { head, events, held }: {
    readonly head: RequestHead;
    readonly events: ResponseEvents;
    readonly held: HeldShare;
  }) {
    this.#held = held;
    this.#owner = owner;
    this.#head = head;
    this.asked = head;
    this.events = events;
  }

  /** Writes the head. */
  ask(ends: boolean): void {
    const owner = this.#owner;
    if (!owner) return;
    const { method, authority, path, upgrade, length, expectsContinue, fields } = this.#head;
    const line = `${method} ${method === "CONNECT" ? authority : path} HTTP/1.1`;
    if (!REQUEST_LINE.test(line) || !AUTHORITY.test(authority)) return owner.unwritable(NOT_LAWFUL);
    if (ends && length > 0) return owner.unwritable(NOT_AS_LONG);
    let own = "";
    if (!ends) {
      own = length === UNKNOWN_LENGTH
        ? "transfer-encoding: chunked\r\n"
        : `content-length: ${length}\r\n`;
    } else if (!BODYLESS.has(method)) own = "content-length: 0\r\n";
    this.websocketKey = missingKey(upgrade, fields);
    if (this.websocketKey) own += `${KEY}: ${this.websocketKey}\r\n`;
    if (upgrade) own += `connection: Upgrade\r\nupgrade: ${upgrade}\r\n`;
    if (expectsContinue) own += "expect: 100-continue\r\n";
    owner.writer.start(ends ? "none" : length === UNKNOWN_LENGTH ? "chunked" : "length", length);
    this.#complete = ends;
    const wrote = writeHead(owner.stream, line, fields, own, `host: ${authority}`);
    if (wrote === undefined) owner.unwritable(NOT_LAWFUL);
    else owner.took(wrote, 0, this.#held);
  }

  send(chunk: Uint8Array): boolean {
    const owner = this.#owner;
    if (!owner || this.#complete) return true;
    const sent = owner.writer.send(chunk);
    if (sent !== undefined) return owner.took(sent, chunk.length, this.#held);
    this.#break(NOT_AS_LONG);
    return true;
  }

  end(trailers?: Fields): void {
    const owner = this.#owner;
    if (!owner || this.#complete) return;
    this.#complete = owner.writer.end(trailers);
    if (!this.#complete) this.#break(NOT_AS_LONG);
  }

  reset(reason: ResetReason): void {
    this.#break(`the request was broken off: ${reason}`);
  }

  pause(): void {
    this.#owner?.hold();
  }

  resume(): void {
    this.#owner?.release();
  }

  tunnel(): Stream {
    const owner = this.#owner;
    if (!owner) throw new Error("Cannot open a tunnel: the exchange is over");
    this.#owner = undefined;
    return owner.tunnel();
  }

  /** The connection ended the exchange. Returns whether the request had been sent completely. */
  leave(): boolean {
    this.#owner = undefined;
    return this.#complete;
  }

  #break(detail: string): void {
    const owner = this.#owner;
    this.#owner = undefined;
    owner?.broken(detail);
  }
}
