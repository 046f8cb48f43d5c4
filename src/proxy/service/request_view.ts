/**
 * An open request, as `/connections` shows it.
 *
 * @module
 */

import {
  type ExchangeRecord,
  fieldOf,
  pathWithoutQuery,
  type RequestHead,
} from "../../http/mod.ts";
import type { Relay } from "../../net/mod.ts";
import type { SweepTime } from "../observe/connection_record.ts";
import type { RequestView } from "../observe/view.ts";
import { shown } from "./failed_request.ts";

/** The facts of an exchange for its view. */
export interface RequestFacts {
  readonly request: RequestHead;
  readonly record: ExchangeRecord;
  /** Set after an upgrade. */
  readonly relay: Relay | undefined;
  /** Tick of the last byte of its messages. */
  readonly activeTick: number;
}

export function requestView(
  { request, record, relay, activeTick }: RequestFacts,
  { ms, tick, tickMs }: SweepTime,
): RequestView {
  const { method, authority, path, fields } = request;
  return {
    id: shown(fieldOf(fields, "x-request-id") ?? ""),
    method: shown(method),
    authority: shown(authority),
    path: shown(pathWithoutQuery(path)),
    status: record.status,
    endpoint: record.upstreamHost,
    rule: record.rule,
    ageMs: Math.round(ms - record.startedAt),
    idleMs: (tick - (relay?.activeTick ?? activeTick)) * tickMs,
    receivedBytes: record.receivedBytes + (relay?.receivedBytes ?? 0),
    sentBytes: record.sentBytes + (relay?.sentBytes ?? 0),
  };
}
