/** Records of exchanges for tests: one that went well, to be changed. @module */

import {
  addField,
  type DownstreamFacts,
  ExchangeRecord,
  type RequestHead,
} from "../../../src/http/mod.ts";

export const DOWNSTREAM: DownstreamFacts = {
  id: 7,
  remote: "10.0.0.7:40312",
  local: "10.0.0.8:20000",
  requestedServerName: "db.default.dc1.internal.td.consul",
  tlsVersion: "TLSv1.3",
  peer: {
    uri: "spiffe://td.consul/ns/default/dc/dc1/svc/web",
    serial: "0e:1f",
    leaf: new Uint8Array([1, 2, 3]),
  },
  localUri: "spiffe://td.consul/ns/default/dc/dc1/svc/db",
};

/** 2026-11-21T07:30:00.042Z. */
export const START_MS = Date.UTC(2026, 10, 21, 7, 30, 0, 42);

export function requestHead(given: Partial<RequestHead> = {}): RequestHead {
  const head: RequestHead = {
    method: "GET",
    scheme: "http",
    authority: "db.example",
    path: "/items?id=5",
    upgrade: "",
    length: 0,
    saysLength: false,
    expectsContinue: false,
    fields: [],
    version: "HTTP/1.1",
    ...given,
  };
  if (given.fields) return head;
  addField(head.fields, "user-agent", "curl/8.5.0");
  addField(head.fields, "x-request-id", "0d7e");
  addField(head.fields, "x-forwarded-for", "192.0.2.1");
  return head;
}

/** An exchange that began at 1000 on the monotonic clock, and went well unless `given` differs. */
export function exchangeRecord(
  given: Partial<ExchangeRecord> = {},
  { request = requestHead(), downstream = DOWNSTREAM }: {
    readonly request?: RequestHead | undefined;
    readonly downstream?: DownstreamFacts;
  } = {},
): ExchangeRecord {
  const record = new ExchangeRecord(downstream, request, { wallMs: START_MS, monotonicMs: 1_000 });
  return Object.assign(record, {
    response: { status: 200, length: 25, fields: ["content-type", "text/plain", "Content-Type"] },
    status: 200,
    details: "via_upstream",
    sentBytes: 25,
    requestEndAt: 1_001,
    upstreamStartAt: 1_002,
    upstreamFirstByteAt: 1_009.75,
    endAt: 1_012.5,
    upstreamHost: "127.0.0.1:8080",
    upstream: { local: "127.0.0.1:51234" },
    upstreamCluster: "local_app",
    attempts: 1,
    ...given,
  });
}
