/**
 * Normalizes a request into the one form that is judged, matched and sent on, so that the application reads
 * it as the rule that allowed it did.
 *
 * @module
 */

import {
  addField,
  forwardClientCert,
  forwardRequest,
  normalizePath,
  type RequestHead,
  type RequestIds,
  ruleUnderscores,
} from "../../http/mod.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import type { DownstreamInfo } from "./downstream_info.ts";

/** Why a request cannot be normalized; `location`: redirect to the normalized path. */
export type FormFault = { readonly reason: string } | { readonly location: string };

export interface FormOptions {
  readonly rules: Pick<HttpRules, "path" | "requestTimeoutMs" | "sanitizeForwardedClientCert">;
  readonly caller: Pick<DownstreamInfo, "isSecure" | "clientCert">;
  readonly ids: RequestIds;
  /** The application gets the caller's identity in `X-Forwarded-Client-Cert`. */
  readonly isInbound: boolean;
}

/** Normalizes the head in place. `undefined`: done. */
export function takeForm(request: RequestHead, options: FormOptions): FormFault | undefined {
  const { rules, caller, ids, isInbound } = options;
  const path = normalizePath(request.path, rules.path);
  if (typeof path !== "string") {
    return path.status === 400 ? PATH : { location: path.location };
  }
  request.path = path;
  const { fields } = request;
  if (!ruleUnderscores(fields, rules.path.underscores)) return UNDERSCORE;
  forwardRequest(request, caller.isSecure);
  ids.ensure(fields);
  // Lets the application stop when the caller no longer waits.
  if (rules.requestTimeoutMs > 0) addField(fields, EXPECTED_MS, String(rules.requestTimeoutMs));
  // An identity that a local application claims proves nothing.
  const isForwarded = isInbound && !rules.sanitizeForwardedClientCert;
  forwardClientCert(fields, isForwarded ? caller.clientCert : "");
  return undefined;
}

const EXPECTED_MS = "x-envoy-expected-rq-timeout-ms";
const PATH: FormFault = { reason: "its path is refused" };
const UNDERSCORE: FormFault = { reason: "the name of a field has an underscore" };
