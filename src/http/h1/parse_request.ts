/** Parses heads of requests (RFC 9112 3); those that could be misread are refused. @module */

import { type RequestHead, UNKNOWN_LENGTH } from "../head.ts";
import {
  ABSENT,
  fault,
  HEAD_TOO_LARGE,
  type HeadFault,
  HeadFields,
  tokensOf,
} from "./parse_fields.ts";
import { isAuthority, isHost, isToken } from "../field_names.ts";
import type { HttpLimits } from "../exchange.ts";
import { Http1HeadReader } from "./read_message.ts";

const BAD_LINE = fault("the first line is no request line");
/** A client with such a first line speaks HTTP and can read a response. */
const NAMES_HTTP = /HTTP\//i;
const BAD_TARGET = fault("the target is none of the four forms");
const BAD_AUTHORITY = fault("the authority is no host with a port");

const WITH_PORT = /:[0-9]{1,5}$/;
/** Visible characters except `#`: a fragment is the client's own (`envoy.md` 2.8). */
const TARGET = /^[!"$-~]+$/;
const ABSOLUTE = /^(https?):\/\/([^/?]*)(.*)$/i;
const VERSION = /^HTTP\/[0-9](?:\.[0-9])?$/;

/** Parser of requests, with the result of the last one. A connection has one, like {@link HeadFields}. */
export class RequestParser {
  readonly #fields = new HeadFields();
  head: RequestHead | undefined;
  /** Whether the client reads another response on this connection. */
  persistent = false;
  /** Whether it expects `Connection: keep-alive` in the response (HTTP/1.0). */
  asksToKeep = false;
  /** Whether a body follows; `head.length` is its length. */
  hasBody = false;

  /** Parses `text` from `at` to its empty line, lines with their ends. */
  parse(text: string, at: number, limit: number): HeadFault | undefined {
    const lineEnd = text.indexOf("\r", at);
    const first = text.indexOf(" ", at);
    const second = text.indexOf(" ", first + 1);
    if (first < 0 || second < 0 || second > lineEnd || text.charCodeAt(lineEnd + 1) !== 10) {
      return BAD_LINE;
    }
    const method = text.substring(at, first);
    if (!isToken(method)) return fault("the method is no token");
    const version = text.substring(second + 1, lineEnd);
    if (version !== "HTTP/1.1" && version !== "HTTP/1.0") {
      if (!NAMES_HTTP.test(version)) return fault("what came is not HTTP", 0);
      return VERSION.test(version)
        ? fault("a version of HTTP other than 1.0 and 1.1", 505)
        : BAD_LINE;
    }
    const target = text.substring(first + 1, second);
    if (!TARGET.test(target)) return BAD_TARGET;
    const fields = this.#fields;
    const refused = fields.parse(text, lineEnd + 2, limit);
    if (refused) return refused;
    return this.#judge(method, target, version);
  }

  #judge(
    method: string,
    target: string,
    version: "HTTP/1.0" | "HTTP/1.1",
  ): HeadFault | undefined {
    const { host, contentLength, chunked, close, keepAlive, fields } = this.#fields;
    const is11 = version === "HTTP/1.1";
    if (host === undefined && is11) return fault("no host");
    if (host && !isHost(host)) return fault("the host is none");
    if (chunked && contentLength !== ABSENT) {
      return fault("both a content length and a transfer coding");
    }
    if (chunked && !is11) return fault("a transfer coding in HTTP/1.0");
    const head: RequestHead = {
      method,
      scheme: "",
      authority: host ?? "",
      path: target,
      upgrade: "",
      length: chunked ? UNKNOWN_LENGTH : Math.max(contentLength, 0),
      saysLength: contentLength !== ABSENT,
      expectsContinue: false,
      fields,
      version,
      ownNames: undefined,
    };
    const wrong = method === "CONNECT" ? this.#connect(head) : applyTarget(head);
    if (wrong) return wrong;
    this.hasBody = head.length !== 0;
    // HTTP/1.0 has neither upgrades nor expectations.
    if (is11 && this.#fields.upgradeNamed && method !== "CONNECT") {
      head.upgrade = protocolOf(this.#fields.upgrade);
      if (head.upgrade && chunked) return fault("an upgrade with a transfer coding");
      // The server may ignore the upgrade, and a body would come before the change (RFC 9110 7.8).
      if (this.hasBody) head.upgrade = "";
    }
    head.expectsContinue = is11 && this.hasBody && this.#fields.expectsContinue;
    this.persistent = is11 ? !close : keepAlive && !close;
    this.asksToKeep = !is11 && keepAlive;
    this.head = head;
    return undefined;
  }

  #connect(head: RequestHead): HeadFault | undefined {
    if (head.length !== 0) return fault("CONNECT with a body");
    if (!isAuthority(head.path) || !WITH_PORT.test(head.path)) return BAD_AUTHORITY;
    head.authority = head.path;
    head.path = "";
    return undefined;
  }
}

/** Validates the target of a method other than CONNECT; the absolute form defines the authority. */
function applyTarget(head: RequestHead): HeadFault | undefined {
  const target = head.path;
  if (target.startsWith("/")) return undefined;
  if (target === "*") return head.method === "OPTIONS" ? undefined : BAD_TARGET;
  const parts = ABSOLUTE.exec(target);
  if (!parts) return BAD_TARGET;
  const [, scheme = "", authority = "", rest = ""] = parts;
  if (!isAuthority(authority)) return BAD_AUTHORITY;
  head.scheme = scheme.toLowerCase();
  head.authority = authority;
  if (rest.startsWith("/")) head.path = rest;
  else if (rest === "" && head.method === "OPTIONS") head.path = "*";
  else head.path = `/${rest}`;
  return undefined;
}

/**
 * The one protocol to change to. HTTP/2 over plain text is accepted by prior knowledge only: an upgrade
 * would begin with a request that has been authorized as HTTP/1.1.
 */
function protocolOf(upgrade: string): string {
  const tokens = tokensOf(upgrade).filter((token) => token !== "h2c");
  if (tokens.includes("websocket")) return "websocket";
  const only = tokens.length === 1 ? tokens[0] ?? "" : "";
  return isToken(only) ? only : "";
}

/** `lines`: the first line and the fields, one line an element. */
export function readRequest(
  lines: readonly string[],
  limits: Pick<HttpLimits, "headBytes" | "fields">,
): RequestHead | HeadFault {
  const bytes = new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n`);
  const reader = new Http1HeadReader(limits.headBytes);
  if (reader.read(bytes, 0) !== bytes.length) return HEAD_TOO_LARGE;
  const parser = new RequestParser();
  return parser.parse(reader.text, 0, limits.fields) ?? parser.head ?? HEAD_TOO_LARGE;
}
