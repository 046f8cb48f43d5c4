/**
 * The one form in which a request is judged, matched and sent on, so that nobody means another thing by it
 * than the rule that let it through.
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

/** Why a request has no such form; `location`: it would have there. */
export type FormFault = { readonly reason: string } | { readonly location: string };

export interface FormOptions {
  readonly rules: Pick<HttpRules, "path" | "requestTimeoutMs" | "sanitizeForwardedClientCert">;
  readonly caller: Pick<DownstreamInfo, "isSecure" | "clientCert">;
  readonly ids: RequestIds;
  /** The application is told who its caller has proven to be. */
  readonly isInbound: boolean;
}

/** Changes the head into that form. */
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
  // The application may give up when nobody waits any more.
  if (rules.requestTimeoutMs > 0) addField(fields, EXPECTED_MS, String(rules.requestTimeoutMs));
  // What a local application says of itself proves nothing to anybody.
  const isTold = isInbound && !rules.sanitizeForwardedClientCert;
  forwardClientCert(fields, isTold ? caller.clientCert : "");
  return undefined;
}

/** A CONNECT names no path, so no rule about paths could hold for it. */
export const NO_TUNNELS = "CONNECT is sent on to nobody";

const EXPECTED_MS = "x-envoy-expected-rq-timeout-ms";
const PATH: FormFault = { reason: "its path is refused" };
const UNDERSCORE: FormFault = { reason: "the name of a field has an underscore" };
