/**
 * Parses heads of responses (RFC 9112 4) and the framing of their bodies, as strictly as requests: a
 * response that is misread could be read as two.
 *
 * @module
 */

import { type ResponseHead, UNKNOWN_LENGTH } from "../head.ts";
import { spokenIn } from "../first_bytes.ts";
import { ABSENT, HeadFields } from "./parse_fields.ts";

export type ResponseBodyKind = "none" | "length" | "chunked" | "until_close" | "tunnel";

/** `HTTP/1.1 200 OK`; the space before an empty reason may be missing. */
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: [\t -~\x80-\xff]*)?\r\n/;

const NO_STATUS_LINE = /^(?!HTTP\/1\.)/;
const BAD_STATUS_LINE = "the first line is no status line";

/** The fault of a server with another protocol, named if it is known. */
export function answersInstead(spoken: string): string {
  return `answers ${spoken} where Protocol says http`;
}

/** The facts of the request that the parsing of its response depends on. */
export interface AnsweredRequest {
  readonly method: string;
  readonly upgrade: string;
}

export class ResponseParser {
  readonly #fields = new HeadFields();
  head: ResponseHead = { status: 0, length: 0, fields: [] };
  body: ResponseBodyKind = "none";
  /** Whether the server takes another request on this connection. */
  persistent = false;

  /** Seconds that the server keeps the connection afterwards; 0: not announced. */
  get keptSeconds(): number {
    return this.#fields.keptSeconds;
  }

  /** Returns the fault, for people; undefined: the head is valid. */
  parse(text: string, limit: number, asked: AnsweredRequest): string | undefined {
    const line = STATUS_LINE.exec(text);
    if (!line) return NO_STATUS_LINE.test(text) ? answersInstead(spokenIn(text)) : BAD_STATUS_LINE;
    const status = Number(line[2]);
    const is11 = line[1] === "1";
    const fields = this.#fields;
    const fault = fields.parse(text, line[0].length, limit);
    if (fault) return fault.detail;
    const { contentLength, chunked } = fields;
    if (chunked && contentLength !== ABSENT) return "both a content length and a transfer coding";
    if (chunked && !is11) return "a transfer coding in HTTP/1.0";
    const framed = chunked || contentLength > 0;
    const isTunnel = status === 101 || asked.method === "CONNECT" && status >= 200 && status < 300;
    if (status === 101 && (!asked.upgrade || fields.upgrade.toLowerCase() !== asked.upgrade)) {
      return "an upgrade that was not asked for";
    }
    if (framed && (status < 200 || status === 204 || isTunnel)) {
      return "a body where there is none";
    }
    const bodyless = asked.method === "HEAD" || status < 200 || status === 204 || status === 304;
    this.body = isTunnel
      ? "tunnel"
      : bodyless || contentLength === 0
      ? "none"
      : chunked
      ? "chunked"
      : contentLength > 0
      ? "length"
      : "until_close";
    // A response without a body may declare a length, or none.
    const impliesZero = this.body === "none" && asked.method !== "HEAD" && status !== 304;
    const length = contentLength !== ABSENT ? contentLength : impliesZero ? 0 : UNKNOWN_LENGTH;
    this.head = { status, length, fields: fields.fields };
    this.persistent = this.body !== "until_close" && !fields.close && (is11 || fields.keepAlive);
    return undefined;
  }
}
