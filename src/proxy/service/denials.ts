/**
 * `x-postern-denied-by` of one listener: the field that its refused callers get, and the fields that it
 * believes. The proxy of an upstream that proved its identity is believed; neither a local application nor the application of an
 * upstream may pass for a proxy, and no stranger is told a reason.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
import {
  type Denial,
  DENIED_BY,
  type ExchangeRecord,
  type Fields,
  mayBeDenial,
  readDenial,
  removeField,
  type RequestHead,
  type ResponseHead,
} from "../../http/mod.ts";
import type { Session } from "../caller/session.ts";
import type { HttpListener } from "./stages.ts";

type Listener = Pick<HttpListener, "facts" | "rules">;

/** The denial that a refused caller gets; `undefined`: none. */
export function ownDenial(
  code: ErrorCode,
  { listener: { facts, rules }, record, peer }: {
    readonly listener: Listener;
    readonly record: Pick<ExchangeRecord, "rule">;
    readonly peer: Session["peer"];
  },
): Denial | undefined {
  if (facts.direction !== "inbound" || !peer?.verified) return undefined;
  const { showDenials } = rules();
  if (showDenials === "rule") return { code, rule: code === "intention_denied" ? record.rule : "" };
  return showDenials === "code" ? { code, rule: "" } : undefined;
}

/** Notes why the proxy of the upstream refused the request, and removes the field where it may not go on. */
export function takeDenial(
  head: ResponseHead,
  listener: Listener,
  { record, request, ends }: {
    readonly record: ExchangeRecord;
    readonly request: RequestHead;
    readonly ends: boolean;
  },
): void {
  const isCandidate = mayBeDenial(head, { request, ends });
  if (!isCandidate) return dropDenial(head.fields, listener);
  // A plugin's own response names nobody else.
  const isOfPeer = record.upstream?.service && record.details === "via_upstream";
  if (isOfPeer) record.denial = readDenial(head.fields);
  const isShown = record.denial && listener.rules().showDenials !== "off";
  if (isShown) dropDenial(head.fields, listener);
  else removeField(head.fields, DENIED_BY);
}

/** Removes the field, except from what goes to the local application. */
export function dropDenial(
  fields: Fields,
  { facts: { direction, callers } }: Pick<Listener, "facts">,
): void {
  if (direction === "inbound" || callers !== "own") removeField(fields, DENIED_BY);
}
