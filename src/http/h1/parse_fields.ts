/**
 * Parses the field lines of a head into a flat list. Fields that belong to this connection are separated
 * and validated strictly (RFC 9112 5, 6; `envoy.md` 2.8 and 3.3). Ambiguous lines are refused.
 *
 * @module
 */

import type { Fields } from "../head.ts";
import {
  CONNECTION,
  CONTENT_LENGTH,
  EXPECT,
  HOST,
  isAlias,
  isProtected,
  isToken,
  KEEP_ALIVE,
  type KnownName,
  knownName,
  PLAIN,
  TE,
  TRANSFER_ENCODING,
  UPGRADE,
  withoutBlanks,
} from "../field_names.ts";

/** Why a head is refused, with the `status` of the response. */
export interface HeadFault {
  /** 0: the peer would not understand a response, and gets none. */
  readonly status: number;
  /** For people; contains no text of the peer. */
  readonly detail: string;
}

export function fault(detail: string, status = 400): HeadFault {
  return { status, detail };
}

export const HEAD_TOO_LARGE: HeadFault = fault("the head is too large", 431);

export const ABSENT = -1;

/** Limit of fields that `Connection` may name, as in Envoy. */
const NOMINATED = 10;
const LENGTH = /^[0-9]{1,15}$/;
/** Parameter of `Keep-Alive` (RFC 2068 19.7.1.1). */
const TIMEOUT = /(?:^|[,; \t])timeout=([0-9]{1,9})(?![^,; \t])/i;
const CR = 13;
const COLON = 58;

/** Control characters except TAB, a CR before LF, and LF, which is checked line by line. */
// deno-lint-ignore no-control-regex
const CONTROL = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)/;

/** The parsed fields of one head; a connection has one object and fills it anew for each head. */
export class HeadFields {
  /** Owned by this head: the next one has a list of its own. */
  fields: Fields = [];
  /** `""`: the field is empty; undefined: it is missing. */
  host: string | undefined;
  contentLength = ABSENT;
  chunked = false;
  /** Options of `Connection`. */
  close = false;
  keepAlive = false;
  /** Seconds that the sender keeps an idle connection; 0: not announced. */
  keptSeconds = 0;
  upgradeNamed = false;
  /** Values of the `Upgrade` fields as received; `""`: none. */
  upgrade = "";
  expectsContinue = false;
  /** Whether any field concerned the connection. */
  meant = false;
  #trailersWelcome = false;
  #nominated: string[] | undefined;
  /** Names by line of earlier heads: the next head likely has the same, which saves a look-up. */
  readonly #names: KnownName[] = [];

  /** Parses the lines of `text` from `at` to its empty line. */
  parse(text: string, at: number, limit: number): HeadFault | undefined {
    this.fields = [];
    this.host = undefined;
    this.contentLength = ABSENT;
    this.chunked =
      this.close =
      this.keepAlive =
      this.upgradeNamed =
      this.meant =
        false;
    this.keptSeconds = 0;
    this.upgrade = "";
    this.expectsContinue = this.#trailersWelcome = false;
    this.#nominated = undefined;
    if (CONTROL.test(text)) return fault("the value of a field has a control character");
    let count = 0;
    while (at < text.length) {
      const end = text.indexOf("\n", at) - 1;
      if (text.charCodeAt(end) !== CR) return fault("a line of the head does not end in CR LF");
      if (end === at) break;
      if (count === limit) return fault("too many fields", 431);
      const wrong = this.#line(text, at, end, count++);
      if (wrong) return wrong;
      at = end + 2;
    }
    return this.#nominated ? this.#remove(this.#nominated) : this.#keepTe();
  }

  #line(text: string, at: number, end: number, line: number): HeadFault | undefined {
    let known = this.#names[line];
    if (!known || !isNamed(text, at, known.spelled)) {
      const colon = text.indexOf(":", at);
      if (colon < 0 || colon > end) return fault("a line of the head is no field");
      const spelled = text.substring(at, colon);
      known = knownName(spelled);
      // Other names are not cached: they would keep the memory of the whole head.
      if (known) this.#names[line] = known;
      else {
        if (!isToken(spelled)) return fault("the name of a field is no token");
        const name = spelled.toLowerCase();
        if (isAlias(name)) {
          return fault("the name of a field could be taken for one that frames the message");
        }
        known = { spelled, name, meaning: knownName(name)?.meaning ?? PLAIN };
      }
    }
    const { spelled, name, meaning } = known;
    const value = withoutBlanks(text, at + spelled.length + 1, end);
    if (meaning !== PLAIN) return this.#special(meaning, value);
    this.fields.push(name, value, spelled);
    return undefined;
  }

  #special(meaning: number, value: string): HeadFault | undefined {
    this.meant = true;
    switch (meaning) {
      case HOST:
        if (this.host !== undefined) return fault("more than one host");
        this.host = value;
        return undefined;
      case CONTENT_LENGTH:
        if (this.contentLength !== ABSENT) return fault("more than one content length");
        if (!LENGTH.test(value)) return fault("the content length is no number");
        this.contentLength = Number(value);
        return undefined;
      case TRANSFER_ENCODING:
        if (this.chunked) return fault("more than one field says the transfer coding");
        if (value.toLowerCase() !== "chunked") {
          return fault("a transfer coding other than chunked", 501);
        }
        this.chunked = true;
        return undefined;
      case CONNECTION:
        return this.#connection(value);
      case KEEP_ALIVE:
        this.keptSeconds = Number(TIMEOUT.exec(value)?.[1] ?? 0);
        return undefined;
      case UPGRADE:
        this.upgrade = this.upgrade ? `${this.upgrade},${value}` : value;
        return undefined;
      case TE:
        this.#trailersWelcome ||= tokensOf(value).some((token) => token.startsWith("trailers"));
        return undefined;
      case EXPECT:
        if (value.toLowerCase() !== "100-continue") {
          return fault("an expectation other than 100-continue", 417);
        }
        this.expectsContinue = true;
    }
    return undefined;
  }

  #connection(value: string): HeadFault | undefined {
    // The most frequent value.
    if (value === "keep-alive") {
      this.keepAlive = true;
      return undefined;
    }
    for (const option of tokensOf(value)) {
      if (option === "close") this.close = true;
      else if (option === "keep-alive") this.keepAlive = true;
      else if (option === "upgrade") this.upgradeNamed = true;
      else {
        if (isProtected(option) || option.startsWith(":")) {
          return fault("the connection field names a field that must stay");
        }
        if (!isToken(option)) return fault("the connection field is no list of tokens");
        const nominated = this.#nominated ??= [];
        if (nominated.push(option) >= NOMINATED) {
          return fault("the connection field names too many fields");
        }
      }
    }
    return undefined;
  }

  /** Removes the fields that `Connection` named. */
  #remove(names: readonly string[]): undefined {
    const { fields } = this;
    let kept = 0;
    for (let i = 0; i < fields.length; i += 3) {
      if (names.includes(fields[i] ?? "")) continue;
      for (let part = 0; part < 3; part++) fields[kept++] = fields[i + part] ?? "";
    }
    fields.length = kept;
    this.#keepTe();
  }

  /** `TE` concerns this connection, but its `trailers` applies to all hops. */
  #keepTe(): undefined {
    if (this.#trailersWelcome) this.fields.push("te", "trailers", "te");
  }
}

/** Whether the name in the line at `at` is spelled like `spelled`. */
function isNamed(text: string, at: number, spelled: string): boolean {
  const { length } = spelled;
  if (text.charCodeAt(at + length) !== COLON) return false;
  for (let i = 0; i < length; i++) {
    if (text.charCodeAt(at + i) !== spelled.charCodeAt(i)) return false;
  }
  return true;
}

/** Elements of a comma-separated list, in lower case, without the empty ones. */
export function tokensOf(value: string): string[] {
  const elements = value.toLowerCase().split(",");
  return elements.map((text) => withoutBlanks(text)).filter((token) => token);
}
