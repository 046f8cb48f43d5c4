/** `CheckRequest` and `CheckResponse` of `envoy.service.auth.v3`. @module */

import type { Connection } from "../../src/plugin/api.ts";
import {
  allIn,
  bytes,
  type Field,
  fieldsOf,
  integer,
  message,
  messageIn,
  numberIn,
  type ProtobufField,
  text,
} from "./protobuf.ts";
import { type AuthzRequest, type AuthzVerdict, type Mutation, PARTIAL_BODY } from "./verdict.ts";

/** The parts of a `CheckRequest`, not copied yet. */
export interface Check {
  readonly message: ProtobufField;
  /** Index of the first part that is a chunk of the shown body; -1: there is none. */
  readonly bodyAt: number;
}

/** `packAsBytes`: the body is sent as bytes instead of text. */
export function encodeCheckRequest(request: AuthzRequest, { wallMs, packAsBytes }: {
  readonly wallMs: number;
  readonly packAsBytes: boolean;
}): Check {
  const { connection, body } = request;
  const { ownUri, source } = connection;
  const seconds = Math.floor(wallMs / 1_000);
  const time = message(
    1,
    integer(1, seconds),
    integer(2, Math.floor((wallMs - seconds * 1_000) * 1e6)),
  );
  const shown = body?.pieces ?? [];
  const sent = packAsBytes ? shown : asText(shown);
  const all = message(
    1,
    message(1, addressOf(connection), text(4, source?.uri ?? "")),
    ownUri === "" ? [] : message(2, text(4, ownUri)),
    message(4, time, message(2, ...httpParts(request, bytes(packAsBytes ? 12 : 11, ...sent)))),
  );
  const [first] = sent === shown ? shown : [];
  return { message: all, bodyAt: first ? all.indexOf(first) : -1 };
}

function httpParts({ request, id, body }: AuthzRequest, shown: ProtobufField): ProtobufField[] {
  const { method, path, authority, scheme } = request;
  const size = request.body ? request.body.length ?? -1 : 0;
  return [
    text(1, id),
    text(2, method),
    ...headersOf({ request, body }).map(([name, value]) =>
      message(3, text(1, name), bytes(2, utf8(octets(value))))
    ),
    text(4, path),
    text(5, authority),
    text(6, scheme),
    integer(9, size),
    shown,
  ];
}

/** Fields of the same name are joined; the pseudo-headers of HTTP/2 are included. */
function headersOf({ request, body }: Pick<AuthzRequest, "request" | "body">): [string, string][] {
  const { method, path, authority, scheme } = request;
  const all = new Map([
    [":method", method] as const,
    [":path", path] as const,
    [":authority", authority] as const,
    [":scheme", scheme],
  ]);
  for (const [name, value] of request.headers) {
    const before = all.get(name);
    all.set(name, before === undefined ? value : `${before},${value}`);
  }
  all.delete(PARTIAL_BODY);
  if (body) all.set(PARTIAL_BODY, String(body.isPartial));
  return [...all];
}

/** `SocketAddress`, for TCP only. */
function addressOf({ remoteAddress }: Connection): ProtobufField {
  const colon = remoteAddress.lastIndexOf(":");
  if (colon < 0) return [];
  const host = remoteAddress.slice(0, colon).replace(/^\[|\]$/g, "");
  const port = Number(remoteAddress.slice(colon + 1));
  return message(1, message(1, text(2, host), integer(3, port)));
}

/** Each character of a header value is one octet. */
function octets(value: string): Uint8Array {
  return Uint8Array.from(value, (character) => character.charCodeAt(0));
}

/** Text must be UTF-8; in other values each octet that is not ASCII becomes `!`. */
function utf8(value: Uint8Array): Uint8Array {
  return asText([value])[0] ?? value;
}

/** Like {@link utf8}, for a text in pieces; returns `pieces` itself if it is UTF-8. */
function asText(pieces: readonly Uint8Array[]): readonly Uint8Array[] {
  try {
    const strict = new TextDecoder("utf-8", { fatal: true });
    for (const piece of pieces) strict.decode(piece, { stream: true });
    strict.decode();
    return pieces;
  } catch {
    return pieces.map((piece) => piece.map((octet) => octet < 0x80 ? octet : 0x21));
  }
}

/** Throws a RangeError if `content` is not a `CheckResponse`. */
export function decodeCheckResponse(content: Uint8Array): AuthzVerdict {
  const fields = fieldsOf(content);
  if (numberIn(messageIn(fields, 1) ?? [], 1) !== 0) return deniedOf(messageIn(fields, 2) ?? []);
  const ok = messageIn(fields, 3) ?? [];
  const headers = allIn(ok, 2).map((option) => mutationOf(option, "set"));
  // Fields 7 and 8 change the query, which is not supported: setting `:path` makes the answer invalid.
  const isOther = ok.some(({ number }) => number === 7 || number === 8);
  return {
    kind: "ok",
    request: {
      headers: isOther ? [...headers, { how: "set", name: ":path", value: "" }] : headers,
      remove: allIn(ok, 5).map((name) => latin1(name)),
    },
    response: allIn(ok, 6).map((option) => mutationOf(option, "add")),
  };
}

function deniedOf(denied: readonly Field[]): AuthzVerdict {
  const body = allIn(denied, 3).at(-1);
  return {
    kind: "denied",
    status: numberIn(messageIn(denied, 1) ?? [], 1) || 403,
    headers: allIn(denied, 2).map((option) => mutationOf(option, "set")),
    body: body && body.length > 0 ? body.slice() : null,
  };
}

const ACTIONS: readonly Mutation["how"][] = [
  "add",
  "add_if_absent",
  "set",
  "overwrite_if_exists",
];

/** Decodes a `HeaderValueOption`; `usual`: the default if it does not say what happens to present fields. */
function mutationOf(content: Uint8Array, usual: "set" | "add"): Mutation {
  const option = fieldsOf(content);
  const header = messageIn(option, 1) ?? [];
  const append = messageIn(option, 2);
  const action = numberIn(option, 3);
  const appended = usual === "set" ? "append" : "add";
  const how = append
    ? numberIn(append, 1) === 1 ? appended : "set"
    : action === 0
    ? usual
    : ACTIONS[action];
  if (!how) throw new RangeError(`a header is to be put in the unknown way ${action}`);
  return {
    how,
    name: latin1(allIn(header, 1).at(-1)).toLowerCase(),
    value: latin1(allIn(header, 2).at(-1) ?? allIn(header, 3).at(-1)).trim(),
  };
}

function latin1(content: Uint8Array = new Uint8Array()): string {
  let all = "";
  for (const octet of content) all += String.fromCharCode(octet);
  return all;
}
