/** Reads header blocks into heads (RFC 9113 8); a fault is an error of its stream only. @module */

import {
  FIELD,
  type Fields,
  type RequestHead,
  type ResponseHead,
  UNKNOWN_LENGTH,
} from "../head.ts";
import { isAuthority, isProtected, isToken } from "../field_names.ts";
import type { HttpLimits } from "../exchange.ts";
import type { FieldSink } from "./hpack/decoder.ts";
import {
  consistsOf,
  FIELD_OVERHEAD_BYTES,
  FieldKind,
  type FieldName,
  octets,
} from "./hpack/fields.ts";

/** Visible characters except `#`: a fragment is never sent. `path.ts` judges octets above 0x7F. */
const PATH_OCTETS = octets('!"$-~\\x80-\\xff');
/** Longest content length that is exact as a number. */
const LENGTH_DIGITS = 15;

export type HeadBlockKind = "request" | "response" | "trailers";

export class Http2HeadReader implements FieldSink {
  /** Why the message is malformed; `""`: it is valid. */
  fault = "";
  /** The head exceeds the limits: `fields` are not complete. */
  tooLarge = false;
  /** It has an `expect` that is not supported. */
  unmetExpectation = false;
  readonly #limits: HttpLimits;
  #part: HeadBlockKind = "request";
  #fields: Fields = [];
  #bytes = 0;
  #method = "";
  #scheme = "";
  #authority = "";
  #path = "";
  #protocol = "";
  #status = "";
  /** A bit for each kind of field that came, for kinds that may occur only once. */
  #seen = 0;
  #host: string | undefined;
  #length = UNKNOWN_LENGTH;
  #expectsContinue = false;
  /** Index of the combined cookie value in the fields; -1: no cookie came. */
  #cookieAt = -1;

  constructor(limits: HttpLimits) {
    this.#limits = limits;
  }

  /** Must be called before a block is decoded. */
  begin(part: HeadBlockKind): void {
    this.#part = part;
    this.fault = "";
    this.tooLarge = false;
    this.unmetExpectation = false;
    this.#fields = [];
    this.#bytes = 0;
    this.#method = this.#scheme = this.#authority = "";
    this.#path = this.#protocol = this.#status = "";
    this.#seen = 0;
    this.#host = undefined;
    this.#length = UNKNOWN_LENGTH;
    this.#expectsContinue = false;
    this.#cookieAt = -1;
  }

  onField(name: FieldName, value: string, sound: boolean): void {
    const { text, kind } = name;
    this.#bytes += text.length + value.length + FIELD_OVERHEAD_BYTES;
    if (this.tooLarge || this.fault !== "") return;
    if (this.#bytes > this.#limits.headBytes) {
      this.tooLarge = true;
      this.#fields = [];
      return;
    }
    if (!sound) return this.#malformed("a value with control characters or outer white space");
    if (this.#part === "trailers" && isProtected(text)) {
      return this.#malformed("a trailer that has to be in the head");
    }
    if (kind === FieldKind.ordinary) return this.#add(text, value);
    if (kind <= FieldKind.status) return this.#pseudo(kind, value);
    this.#special(kind, text, value);
  }

  /** The head of a request that was decoded without a fault; undefined: `fault` is set. */
  request(ends: boolean): RequestHead | undefined {
    const connects = this.#method === "CONNECT";
    const extended = connects && this.#protocol !== "";
    this.#takeHost();
    if (this.#method === "") this.#malformed("no method");
    else if (this.#protocol !== "" && !connects) this.#malformed("a protocol without CONNECT");
    else if (this.#authority === "") this.#malformed("no authority");
    else if (connects && !extended) {
      const more = has(this.#seen, FieldKind.scheme) || has(this.#seen, FieldKind.path);
      if (more) this.#malformed("CONNECT with a scheme or path");
      else if (this.#length !== UNKNOWN_LENGTH) this.#malformed("CONNECT with a length");
    } else if (extended && this.#length > 0) this.#malformed("CONNECT with a length");
    else if (this.#scheme === "") this.#malformed("no scheme");
    else if (!isPath(this.#path, this.#method)) this.#malformed("no valid path");
    if (ends && this.#length > 0) this.#malformed("a length without a body");
    if (this.fault !== "") return undefined;
    return {
      method: extended ? "GET" : this.#method,
      scheme: this.#scheme,
      authority: this.#authority,
      path: this.#path,
      upgrade: this.#protocol,
      length: ends ? 0 : this.#length,
      saysLength: this.#length !== UNKNOWN_LENGTH,
      expectsContinue: this.#expectsContinue,
      fields: this.#fields,
      version: "HTTP/2",
      ownNames: undefined,
    };
  }

  /** The head of a response, in the same way. `toHead`: the request was HEAD. */
  response(ends: boolean, toHead: boolean): ResponseHead | undefined {
    const status = /^[1-9][0-9][0-9]$/.test(this.#status) ? Number(this.#status) : 0;
    const interim = status < 200;
    if (status === 0) this.#malformed("no valid status");
    else if (status === 101) this.#malformed("status 101");
    else if (interim && ends) this.#malformed("an informational response as the last");
    else if (this.#length > 0 && (interim || status === 204 || ends && !toHead && status !== 304)) {
      this.#malformed("a length without a body");
    }
    if (this.fault !== "") return undefined;
    return { status, length: this.#length, fields: this.#fields };
  }

  trailers(): Fields {
    return this.#fields;
  }

  #pseudo(kind: FieldKind, value: string): void {
    if (this.#fields.length > 0 || this.#seen >= 1 << FieldKind.contentLength) {
      return this.#malformed("a pseudo-field after another field");
    }
    if (has(this.#seen, kind)) return this.#malformed("a pseudo-field twice");
    this.#seen |= 1 << kind;
    const fits = kind === FieldKind.status ? "response" : "request";
    if (this.#part !== fits) return this.#malformed("a pseudo-field that does not belong there");
    switch (kind) {
      case FieldKind.method:
        if (value !== "" && !isToken(value)) return this.#malformed("no valid method");
        this.#method = value;
        break;
      case FieldKind.scheme:
        if (value !== "http" && value !== "https") return this.#malformed("an unknown scheme");
        this.#scheme = value;
        break;
      case FieldKind.authority:
        if (!isAuthority(value)) return this.#malformed("no valid authority");
        this.#authority = value;
        break;
      case FieldKind.path:
        this.#path = value;
        break;
      case FieldKind.protocol:
        this.#protocol = value.toLowerCase();
        // HTTP/2 inside a tunnel would bypass the authorization of its requests.
        if (!isToken(value) || this.#protocol === "h2c") {
          return this.#malformed("no valid protocol");
        }
        break;
      case FieldKind.status:
        this.#status = value;
        break;
    }
  }

  #special(kind: FieldKind, name: string, value: string): void {
    if (kind === FieldKind.forbidden) return this.#malformed("a field that has no place in HTTP/2");
    if (kind === FieldKind.cookie) return this.#cookie(name, value);
    if (this.#part === "trailers") return this.#malformed("a trailer that has to be in the head");
    if (kind === FieldKind.te) {
      if (value !== "trailers") return this.#malformed("a te other than trailers");
      return this.#add(name, value);
    }
    if (has(this.#seen, kind)) return this.#malformed("a field twice that may stand once");
    this.#seen |= 1 << kind;
    if (kind === FieldKind.contentLength) {
      if (!/^[0-9]+$/.test(value) || value.length > LENGTH_DIGITS) {
        return this.#malformed("no valid length");
      }
      this.#length = Number(value);
    } else if (this.#part === "response") {
      this.#add(name, value);
    } else if (kind === FieldKind.host) {
      if (!isAuthority(value)) return this.#malformed("no valid host");
      this.#host = value;
    } else {
      this.#expectsContinue = value.toLowerCase() === "100-continue";
      this.unmetExpectation = !this.#expectsContinue;
    }
  }

  #cookie(name: string, value: string): void {
    if (this.#cookieAt < 0) {
      this.#cookieAt = this.#fields.length + 1;
      return this.#add(name, value);
    }
    // HTTP/2 splits a cookie into several fields (RFC 9113 8.2.3).
    this.#fields[this.#cookieAt] += `; ${value}`;
  }

  /** `host` alone becomes the authority; together with `:authority` it must be equal. */
  #takeHost(): void {
    if (this.#host === undefined) return;
    if (this.#authority === "" && !has(this.#seen, FieldKind.authority)) {
      this.#authority = this.#host;
    } else if (this.#host.toLowerCase() !== this.#authority.toLowerCase()) {
      this.#malformed("a host other than the authority");
    }
  }

  #add(name: string, value: string): void {
    if (this.#fields.length >= this.#limits.fields * FIELD) {
      this.tooLarge = true;
      this.#fields = [];
      return;
    }
    this.#fields.push(name, value, name);
  }

  #malformed(fault: string): void {
    if (this.fault === "") this.fault = fault;
  }
}

function has(seen: number, kind: FieldKind): boolean {
  return (seen & (1 << kind)) !== 0;
}

function isPath(path: string, method: string): boolean {
  if (path === "*") return method === "OPTIONS";
  return path.charCodeAt(0) === 0x2f && consistsOf(path, PATH_OCTETS);
}
