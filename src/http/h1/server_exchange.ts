/** A request on a server connection, and the writing of its response. @module */

import type { Stream } from "../../net/mod.ts";
import {
  ignoredMessage,
  type MessageEvents,
  type ResetReason,
  type ServerExchange,
} from "../exchange.ts";
import {
  fieldOf,
  type Fields,
  type RequestHead,
  type ResponseHead,
  UNKNOWN_LENGTH,
} from "../head.ts";
import type { HeldShare } from "../held_bytes.ts";
import type { Http1Owner } from "./connection.ts";
import { type Framing, statusLine, writeHead } from "./write_message.ts";
import { KEY, PROOF, proofOf } from "./websocket.ts";

export interface Http1ServerOwner extends Http1Owner {
  /** The client takes no more for now. */
  readonly blocked: boolean;
  /**
   * A response begins. Returns whether the connection serves another request after it. `ends`: it has no
   * body; `lasts`: its body does not end with the connection.
   */
  begins(ends: boolean, lasts: boolean): boolean;
  ended(): void;
  /** Like `broken`, but what was sent still arrives, if the client can detect the missing end. */
  cut(detail: string): void;
}

const NOT_AS_LONG = "the response is not as long as was said";
const NOT_FINAL = "the response is of a kind that does not end an exchange";
const NOT_LAWFUL = "the response has a field that cannot be written";

export class Http1ServerExchange implements ServerExchange {
  readonly request: RequestHead;
  readonly endsWithHead: boolean;
  readonly held: HeldShare;
  events: MessageEvents = ignoredMessage;
  /** Undefined: the exchange is over, and its methods have no effect. */
  #owner: Http1ServerOwner | undefined;
  readonly #asksToKeep: boolean;
  responded = false;
  /** The client got a 100, or does not wait for one. */
  continued: boolean;

  constructor(
    owner: Http1ServerOwner,
    request: RequestHead,
    { endsWithHead, asksToKeep, held }: {
      readonly endsWithHead: boolean;
      readonly asksToKeep: boolean;
      readonly held: HeldShare;
    },
  ) {
    this.held = held;
    this.#owner = owner;
    this.request = request;
    this.endsWithHead = endsWithHead;
    this.#asksToKeep = asksToKeep;
    this.continued = !request.expectsContinue;
  }

  inform({ status, fields }: ResponseHead): void {
    const owner = this.#owner;
    if (!owner || this.responded || this.request.version === "HTTP/1.0") return;
    if (status === 100) this.continued = true;
    else if (owner.blocked) return;
    this.#wrote(owner, writeHead(owner.stream, statusLine(status), fields, ""));
  }

  respond(head: ResponseHead, ends: boolean): void {
    const owner = this.#owner;
    if (!owner || this.responded) return;
    this.responded = true;
    const { status, length, fields } = head;
    const { method, version } = this.request;
    const bodyless = method === "HEAD" || status === 204 || status === 304;
    // The declared body has to come.
    if (ends && !bodyless && length > 0) return this.#break(NOT_AS_LONG);
    // 101, or a 2xx to CONNECT, would change the protocol; other 1xx do not end an exchange.
    if (status < 200 || method === "CONNECT" && status < 300) return this.#break(NOT_FINAL);
    const framing: Framing = bodyless || ends
      ? "none"
      : length !== UNKNOWN_LENGTH
      ? "length"
      : version === "HTTP/1.0"
      ? "until_close"
      : "chunked";
    const keep = owner.begins(ends, framing !== "until_close");
    let own = "";
    if (framing === "chunked") own = "transfer-encoding: chunked\r\n";
    else if (length !== UNKNOWN_LENGTH && status !== 204) own = `content-length: ${length}\r\n`;
    else if (framing === "none" && !bodyless) own = "content-length: 0\r\n";
    if (!keep) own += "connection: close\r\n";
    else if (this.#asksToKeep) own += "connection: keep-alive\r\n";
    owner.writer.start(framing, length);
    this.#wrote(owner, writeHead(owner.stream, statusLine(status), fields, own));
    if (ends) this.#ended();
  }

  send(chunk: Uint8Array): boolean {
    const owner = this.#owner;
    if (!owner) return true;
    const sent = this.responded ? owner.writer.send(chunk) : undefined;
    if (sent !== undefined) return owner.took(sent, chunk.length, this.held);
    this.#break(NOT_AS_LONG);
    return true;
  }

  end(trailers?: Fields): void {
    const owner = this.#owner;
    if (!owner) return;
    if (this.responded && owner.writer.end(trailers)) this.#ended();
    else this.#break(NOT_AS_LONG);
  }

  reset(reason: ResetReason): void {
    const owner = this.#owner;
    // The client has the whole response, and its next request may be under way.
    if (this.responded && owner?.writer.isComplete) return this.#ended();
    this.#owner = undefined;
    owner?.cut(`the response was broken off: ${reason}`);
  }

  pause(): void {
    this.#owner?.hold();
  }

  resume(): void {
    this.#owner?.release();
  }

  tunnel(head: ResponseHead): Stream {
    const owner = this.#owner;
    if (!owner || this.responded) throw new Error("Cannot open a tunnel: the exchange is over");
    const { upgrade, fields } = this.request;
    let own = upgrade ? `connection: Upgrade\r\nupgrade: ${upgrade}\r\n` : "";
    const key = upgrade === "websocket" ? fieldOf(fields, KEY) : undefined;
    // A response from an HTTP/2 upstream has no proof.
    if (key && fieldOf(head.fields, PROOF) === undefined) own += `${PROOF}: ${proofOf(key)}\r\n`;
    const line = statusLine(upgrade ? 101 : 200);
    this.#owner = undefined;
    if (writeHead(owner.stream, line, head.fields, own) === undefined) owner.broken(NOT_LAWFUL);
    return owner.tunnel();
  }

  /** The connection ended the exchange, so that its methods have no effect any more. */
  leave(): void {
    this.#owner = undefined;
  }

  #wrote(owner: Http1ServerOwner, all: boolean | undefined): void {
    if (all === undefined) this.#break(NOT_LAWFUL);
    else owner.took(all, 0, this.held);
  }

  #ended(): void {
    const owner = this.#owner;
    this.#owner = undefined;
    owner?.ended();
  }

  #break(detail: string): void {
    const owner = this.#owner;
    this.#owner = undefined;
    owner?.broken(detail);
  }
}
