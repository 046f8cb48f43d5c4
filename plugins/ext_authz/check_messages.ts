/**
 * `CheckRequest` and `CheckResponse` of `envoy.service.auth.v3`.
 *
 * @module
 */

import type { Bytes, Connection } from "../../src/plugin/api.ts";
import {
  bytes,
  type Field,
  fieldsOf,
  integer,
  joined,
  message,
  type Part,
  text,
} from "./protobuf.ts";
import { type Asked, type Mutation, PARTIAL_BODY, type Verdict } from "./verdict.ts";

/** `packAsBytes`: the body goes as bytes, and not as text. */
export function encodeCheckRequest(asked: Asked, { wallMs, packAsBytes }: {
  readonly wallMs: number;
  readonly packAsBytes: boolean;
}): Bytes {
  const { connection } = asked;
  const { ownUri, source } = connection;
  const seconds = Math.floor(wallMs / 1_000);
  const time = message(
    1,
    integer(1, seconds),
    integer(2, Math.floor((wallMs - seconds * 1_000) * 1e6)),
  );
  return joined(message(
    1,
    message(1, addressOf(connection), text(4, source?.uri ?? "")),
    ownUri === "" ? [] : message(2, text(4, ownUri)),
    message(4, time, message(2, ...httpParts(asked, packAsBytes))),
  ));
}

function httpParts({ request, id, body }: Asked, packAsBytes: boolean): Part[] {
  const { method, path, authority, scheme } = request;
  const size = request.body ? request.body.length ?? -1 : 0;
  const shown = !body ? [] : packAsBytes ? bytes(12, body.bytes) : bytes(11, utf8(body.bytes));
  return [
    ...[text(1, id), text(2, method)],
    ...headersOf({ request, body }).map(([name, value]) =>
      message(3, text(1, name), bytes(2, utf8(octets(value))))
    ),
    ...[text(4, path), text(5, authority), text(6, scheme), integer(9, size), shown],
  ];
}

/** Fields of one name are one of the map; what HTTP/2 says apart is among them. */
function headersOf({ request, body }: Pick<Asked, "request" | "body">): [string, string][] {
  const { method, path, authority, scheme } = request;
  const all = new Map([
    ...[[":method", method], [":path", path], [":authority", authority]] as const,
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

/** `SocketAddress`, of TCP only. */
function addressOf({ remoteAddress }: Connection): Part {
  const colon = remoteAddress.lastIndexOf(":");
  if (colon < 0) return [];
  const host = remoteAddress.slice(0, colon).replace(/^\[|\]$/g, "");
  const port = Number(remoteAddress.slice(colon + 1));
  return message(1, message(1, text(2, host), integer(3, port)));
}

/** Characters of a header are octets. */
function octets(value: string): Uint8Array {
  return Uint8Array.from(value, (character) => character.charCodeAt(0));
}

const strict = new TextDecoder("utf-8", { fatal: true });

/** Text has to be UTF-8: where it is not, each octet that is not ASCII becomes `!`. */
function utf8(value: Uint8Array): Uint8Array {
  try {
    strict.decode(value);
    return value;
  } catch {
    return value.map((octet) => octet < 0x80 ? octet : 0x21);
  }
}

/** Throws a RangeError for bytes that are no such message. */
export function decodeCheckResponse(content: Uint8Array): Verdict {
  const fields = fieldsOf(content);
  const status = last(fields, 1);
  if (status && numberIn(status, 1) !== 0) return deniedOf(last(fields, 2));
  const ok = last(fields, 3);
  const parts = ok ? fieldsOf(ok.bytes) : [];
  const headers = parts.filter(({ number }) => number === 2)
    .map((field) => mutationOf(field, "set"));
  // Another query is asked for, which cannot be had, as little as that field.
  const isOther = parts.some(({ number }) => number === 7 || number === 8);
  return {
    kind: "ok",
    request: {
      headers: isOther ? [...headers, { how: "set", name: ":path", value: "" }] : headers,
      remove: parts.filter(({ number }) => number === 5).map(({ bytes }) => latin1(bytes)),
    },
    response: parts.filter(({ number }) => number === 6)
      .map((field) => mutationOf(field, "add")),
  };
}

function deniedOf(denied: Field | undefined): Verdict {
  const parts = denied ? fieldsOf(denied.bytes) : [];
  const status = last(parts, 1);
  const body = last(parts, 3)?.bytes;
  return {
    kind: "denied",
    status: status && numberIn(status, 1) || 403,
    headers: parts.filter(({ number }) => number === 2).map((field) => mutationOf(field, "set")),
    body: body && body.length > 0 ? body.slice() : null,
  };
}

const ACTIONS: readonly Mutation["how"][] = [
  "add",
  "add_if_absent",
  "set",
  "overwrite_if_exists",
];

/** Of a `HeaderValueOption`; `usual`: where nothing is said of those that are there already. */
function mutationOf({ bytes: content }: Field, usual: "set" | "add"): Mutation {
  const option = fieldsOf(content);
  const header = last(option, 1);
  const parts = header ? fieldsOf(header.bytes) : [];
  const append = last(option, 2);
  const action = last(option, 3)?.value ?? 0;
  const appended = usual === "set" ? "append" : "add";
  const how = append
    ? numberIn(append, 1) === 1 ? appended : "set"
    : action === 0
    ? usual
    : ACTIONS[action];
  if (!how) throw new RangeError(`a header is to be put in the unknown way ${action}`);
  const value = last(parts, 2)?.bytes ?? last(parts, 3)?.bytes;
  return {
    how,
    name: latin1(last(parts, 1)?.bytes).toLowerCase(),
    value: latin1(value).trim(),
  };
}

function last(fields: readonly Field[], wanted: number): Field | undefined {
  return fields.findLast(({ number }) => number === wanted);
}

function numberIn(field: Field, wanted: number): number {
  return last(fieldsOf(field.bytes), wanted)?.value ?? 0;
}

function latin1(content: Uint8Array | undefined): string {
  let all = "";
  for (const octet of content ?? []) all += String.fromCharCode(octet);
  return all;
}
