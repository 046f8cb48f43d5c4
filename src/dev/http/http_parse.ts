/**
 * The HTTP/1.1 request head and the chunked body, as far as clients of the agent use them. Pure and
 * bounded: a head that is too long or odd is refused by the caller.
 *
 * @module
 */

import { Buffer } from "node:buffer";

export const MAX_HEAD_BYTES = 64 * 1024;

export interface Head {
  readonly method: string;
  readonly target: string;
  /** Names in lower case; the last of several wins. */
  readonly headers: ReadonlyMap<string, string>;
  readonly contentLength: number;
  readonly chunked: boolean;
  readonly keepAlive: boolean;
}

const decoder = new TextDecoder("latin1");

/** Bytes up to and with the empty line, or -1 where it has not come yet. */
export function headLength(bytes: Uint8Array): number {
  const limit = Math.min(bytes.length, MAX_HEAD_BYTES);
  for (let at = 3; at < limit; at++) {
    if (
      bytes[at] === 10 && bytes[at - 1] === 13 && bytes[at - 2] === 10 && bytes[at - 3] === 13
    ) return at + 1;
  }
  return -1;
}

/** The request head, or `undefined` where it is none. */
export function parseHead(bytes: Uint8Array): Head | undefined {
  const [first = "", ...lines] = decoder.decode(bytes).split("\r\n");
  const request = /^([A-Z]+) (\/[^ ]*) HTTP\/1\.([01])$/.exec(first);
  if (!request) return undefined;
  const headers = new Map<string, string>();
  for (const line of lines) {
    if (line === "") continue;
    const colon = line.indexOf(":");
    if (colon <= 0) return undefined;
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  const length = headers.get("content-length") ?? "0";
  if (!/^\d{1,12}$/.test(length)) return undefined;
  const connection = (headers.get("connection") ?? "").toLowerCase();
  return {
    method: request[1] ?? "",
    target: request[2] ?? "",
    headers,
    contentLength: Number(length),
    chunked: (headers.get("transfer-encoding") ?? "").toLowerCase() === "chunked",
    keepAlive: request[3] === "1" ? connection !== "close" : connection === "keep-alive",
  };
}

/** A whole chunked body and how many bytes it took; `more`: not all of it is here yet. */
export function readChunked(
  bytes: Uint8Array,
): "more" | "bad" | { readonly body: Uint8Array; readonly used: number } {
  const parts: Uint8Array[] = [];
  let at = 0;
  while (true) {
    const line = lineEnd(bytes, at);
    if (line < 0) return bytes.length - at > 64 ? "bad" : "more";
    const size = /^([0-9a-fA-F]{1,8})(?:;.*)?$/.exec(decoder.decode(bytes.subarray(at, line)));
    if (!size) return "bad";
    const length = parseInt(size[1] ?? "", 16);
    at = line + 2;
    if (length === 0) {
      // Trailers are skipped.
      while (true) {
        const end = lineEnd(bytes, at);
        if (end < 0) return "more";
        if (end === at) return { body: Buffer.concat(parts), used: end + 2 };
        at = end + 2;
      }
    }
    if (bytes.length < at + length + 2) return "more";
    parts.push(bytes.subarray(at, at + length));
    at += length + 2;
  }
}

function lineEnd(bytes: Uint8Array, from: number): number {
  for (let at = from; at + 1 < bytes.length; at++) {
    if (bytes[at] === 13 && bytes[at + 1] === 10) return at;
  }
  return -1;
}
