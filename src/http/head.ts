/**
 * Heads of HTTP messages, the same for every codec (RFC 9110). They contain nothing that belongs to one
 * connection: framing and `Connection`, `Keep-Alive`, `Proxy-Connection`, `Transfer-Encoding`, `Upgrade`,
 * `Host`, `Content-Length` and pseudo-fields are read and written by the codecs alone, so that a fact of
 * one hop cannot be mistaken for one of the next.
 *
 * @module
 */

import { isAliasOf, isVouched } from "./field_names.ts";

/**
 * Fields in their order, three texts each: name in lower case, value without white space around it, name as
 * the peer spelled it (HTTP/1.1 writes this spelling; HTTP/2 has lower case only). Octets above 0x7F are
 * characters of the same number (latin1). A name may occur more than once.
 */
export type Fields = string[];
/** Texts of one field in {@link Fields}. */
export const FIELD = 3;

export type HttpVersion = "HTTP/1.0" | "HTTP/1.1" | "HTTP/2";

/** `length` of a message that only its end delimits. */
export const UNKNOWN_LENGTH = -1;

export interface RequestHead {
  method: string;
  /** `http` or `https`; `""`: the client did not send it. */
  scheme: string;
  /** Host, and port if there is one; `""`: an HTTP/1.0 client did not send it. */
  authority: string;
  /** Path with its query, `*`, or `""` for CONNECT. */
  path: string;
  /**
   * Protocol that the connection or stream is to change to, in lower case: the one token of `Upgrade`, or
   * `:protocol` of an extended CONNECT (RFC 8441), whose method is then `GET` here. `""`: none.
   */
  upgrade: string;
  /** Bytes of the body, or {@link UNKNOWN_LENGTH}. */
  length: number;
  /** The request has a `Content-Length`: without one, `length` is 0 as well if no body follows. */
  readonly saysLength: boolean;
  /** `Expect: 100-continue`, which is not in the fields. */
  expectsContinue: boolean;
  fields: Fields;
  readonly version: HttpVersion;
  /**
   * Names (lower case) of fields that were set or removed on the way. The caller must not send them in
   * another place, so trailers lose them. Absent: only those that every proxy vouches for.
   */
  ownNames?: readonly string[] | undefined;
}

export interface ResponseHead {
  status: number;
  /** Bytes of the body, or {@link UNKNOWN_LENGTH}; the declared length for HEAD and for a 304. */
  length: number;
  fields: Fields;
}

/** Value of the first field of that name (lower case); undefined: the field is missing. */
export function fieldOf(fields: Fields, name: string): string | undefined {
  for (let i = 0; i < fields.length; i += FIELD) if (fields[i] === name) return fields[i + 1];
  return undefined;
}

/** All values of that name (lower case), in order. */
export function fieldsOf(fields: Fields, name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < fields.length; i += FIELD) {
    if (fields[i] === name) values.push(fields[i + 1] ?? "");
  }
  return values;
}

/** `name` is in lower case, and is written like this. */
export function addField(fields: Fields, name: string, value: string): void {
  fields.push(name, value, name);
}

/** Replaces all fields of that name (lower case) by one with this value, at the position of the first. */
export function setField(fields: Fields, name: string, value: string): void {
  const at = indexOfField(fields, name);
  if (at < 0) return addField(fields, name, value);
  fields[at + 1] = value;
  removeFrom(fields, name, at + FIELD);
}

/** Removes all fields of that name (lower case). */
export function removeField(fields: Fields, name: string): void {
  removeFrom(fields, name, 0);
}

/** Removes what an application may take for `name` (lower case), which the proxy sets. */
export function removeAliases(fields: Fields, name: string): void {
  for (let i = fields.length - FIELD; i >= 0; i -= FIELD) {
    if (isAliasOf(fields[i] ?? "", name)) fields.splice(i, FIELD);
  }
}

export function hasAlias(fields: Fields, name: string): boolean {
  for (let i = 0; i < fields.length; i += FIELD) if (isAliasOf(fields[i] ?? "", name)) return true;
  return false;
}

/** Trailers of a request without the fields that only a proxy may set; undefined: nothing is left. */
export function ownTrailers({ ownNames = [] }: RequestHead, trailers: Fields): Fields | undefined {
  const kept: Fields = [];
  for (let i = 0; i < trailers.length; i += FIELD) {
    const name = trailers[i] ?? "";
    const isOurs = isVouched(name) ||
      ownNames.some((own) => own === name || isAliasOf(name, own));
    if (!isOurs) kept.push(...trailers.slice(i, i + FIELD));
  }
  return kept.length > 0 ? kept : undefined;
}

function removeFrom(fields: Fields, name: string, from: number): void {
  for (let i = fields.length - FIELD; i >= from; i -= FIELD) {
    if (fields[i] === name) fields.splice(i, FIELD);
  }
}

function indexOfField(fields: Fields, name: string): number {
  for (let i = 0; i < fields.length; i += FIELD) if (fields[i] === name) return i;
  return -1;
}
