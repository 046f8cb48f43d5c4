/**
 * Heads of HTTP messages as every codec makes and takes them (RFC 9110). What belongs to one connection
 * is not in them: framing and `Connection`, `Keep-Alive`, `Proxy-Connection`, `Transfer-Encoding`,
 * `Upgrade`, `Host`, `Content-Length` and pseudo-fields are read and written by the codecs alone, so that
 * nothing of one hop can be mistaken for something of the next.
 *
 * @module
 */

import { isAliasOf, isVouched } from "./field_names.ts";

/**
 * Fields in their order, three texts each: name in lower case, value without white space around it, name
 * as it was spelled (HTTP/1.1 writes it so; HTTP/2 has lower case only). Octets above 0x7F are characters
 * of the same number (latin1). A name may stand more than once.
 */
export type Fields = string[];
/** Texts of one field in {@link Fields}. */
export const FIELD = 3;

export type HttpVersion = "HTTP/1.0" | "HTTP/1.1" | "HTTP/2";

/** `length` of a message whose length only its end tells. */
export const UNKNOWN_LENGTH = -1;

export interface RequestHead {
  method: string;
  /** `http` or `https`; `""`: the client did not say. */
  scheme: string;
  /** Host, and port where there is one; `""`: an HTTP/1.0 client did not say. */
  authority: string;
  /** Path with its query, `*`, or `""` for CONNECT. */
  path: string;
  /**
   * Protocol that the connection or stream shall change to, in lower case: the one token of `Upgrade`, or
   * `:protocol` of an extended CONNECT (RFC 8441), whose method is then `GET` here. `""`: none.
   */
  upgrade: string;
  /** Bytes of the body, or {@link UNKNOWN_LENGTH}. */
  length: number;
  /** There was a `Content-Length`: without one it is 0 as well where no body follows. */
  readonly saysLength: boolean;
  /** `Expect: 100-continue`, which is not in the fields. */
  expectsContinue: boolean;
  fields: Fields;
  readonly version: HttpVersion;
  /**
   * Names (lower case) of fields that were set or removed on the way, which the caller may not say in
   * another place: trailers do not have them. Absent: none but those that every proxy vouches for.
   */
  ownNames?: readonly string[] | undefined;
}

export interface ResponseHead {
  status: number;
  /** Bytes of the body, or {@link UNKNOWN_LENGTH}; of a response to HEAD and of a 304: what is claimed. */
  length: number;
  fields: Fields;
}

/** Value of the first field of that name (lower case); undefined: there is none. */
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

/** `name` is in lower case, and is written so. */
export function addField(fields: Fields, name: string, value: string): void {
  fields.push(name, value, name);
}

/** Replaces all fields of that name (lower case) by one with this value, at the place of the first. */
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

/**
 * Removes the fields that an application may take for one of that name (lower case), and keeps that one:
 * what the proxy says is not to be contradicted by its caller.
 */
export function removeAliases(fields: Fields, name: string): void {
  for (let i = fields.length - FIELD; i >= 0; i -= FIELD) {
    if (isAliasOf(fields[i] ?? "", name)) fields.splice(i, FIELD);
  }
}

export function hasAlias(fields: Fields, name: string): boolean {
  for (let i = 0; i < fields.length; i += FIELD) if (isAliasOf(fields[i] ?? "", name)) return true;
  return false;
}

/** Trailers of a request without what only a proxy may say; undefined: nothing is left. */
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
