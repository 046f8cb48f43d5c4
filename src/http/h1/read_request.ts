/**
 * Parses a request head that did not come from a connection, by the rules of the codec.
 *
 * @module
 */

import type { RequestHead } from "../head.ts";
import type { HttpLimits } from "../limits.ts";
import { Http1HeadReader } from "./head_reader.ts";
import type { HeadFault } from "./parse_fields.ts";
import { HEAD_TOO_LARGE } from "./server_connection.ts";
import { RequestParser } from "./parse_request.ts";

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
