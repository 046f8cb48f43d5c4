/**
 * `x-postern-denied-by`: the proxy of a service tells a proxy that calls it why it refused a request. The
 * field is only believed between proxies that proved their identity, so every other listener removes it.
 *
 * @module
 */

import { ERROR_CODES, type ErrorCode } from "../base/mod.ts";
import { encodeGrpcMessage, isGrpc } from "./grpc.ts";
import { addField, type Fields, fieldsOf, type RequestHead, type ResponseHead } from "./head.ts";

export const DENIED_BY = "x-postern-denied-by";

/** Why a proxy refused a request. */
export interface Denial {
  readonly code: ErrorCode;
  /** The rule that decided, in visible ASCII; `""`: it is not told. */
  readonly rule: string;
}

const CODES: ReadonlySet<string> = new Set(ERROR_CODES);
/** Code, and the rule after a space if it is told; the names in a rule are the operator's. */
const WRITTEN = /^([a-z_]{1,40})(?: ([ -~]{1,400}))?$/;
const RULE_CHARS = 400;

export function addDenial(fields: Fields, { code, rule }: Denial): void {
  // Names of services may have any character.
  const encoded = encodeGrpcMessage(rule).slice(0, RULE_CHARS);
  addField(fields, DENIED_BY, encoded === "" ? code : `${code} ${encoded}`);
}

/** Whether a response may be a refusal of a proxy, so that it is worth a look at its fields. */
export function mayBeDenial(
  { status }: ResponseHead,
  { request, ends }: { readonly request: RequestHead; readonly ends: boolean },
): boolean {
  return status >= 400 || status === 200 && ends && isGrpc(request.fields);
}

/** `undefined`: the field is missing, or is none that a proxy writes. */
export function readDenial(fields: Fields): Denial | undefined {
  const [value, another] = fieldsOf(fields, DENIED_BY);
  if (value === undefined || another !== undefined) return undefined;
  const [, code = "", rule = ""] = WRITTEN.exec(value) ?? [];
  return isCode(code) ? { code, rule } : undefined;
}

function isCode(text: string): text is ErrorCode {
  return CODES.has(text);
}
