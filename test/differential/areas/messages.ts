/** Requests and responses of every form, between an application and another: what passes two proxies. */

import { GRPC_MESSAGE } from "../../kit/wire/response_plans.ts";
import type { WrittenRequest } from "../../kit/wire/send_request.ts";
import type { Area, Case, Wire } from "../case.ts";

/** The protocol of the caller, and of the service. */
const HTTP = [["1.1", "http"], ["2", "http2"], ["1.1", "http2"], ["2", "http"]] as const;
const BY_1_1 = [["1.1", "http"]] as const;
type Wires = readonly (readonly [Wire, string])[];
type Row = readonly [name: string, want: string, ask: Partial<WrittenRequest>, wires?: Wires];

const BODY = "0123456789".repeat(100_000);
const STEERING = [
  "x-envoy-retry-on: 5xx",
  "x-envoy-max-retries: 1",
  "x-envoy-internal: true",
  "x-envoy-upstream-rq-timeout-ms: 5000",
  "x-envoy-decorator-operation: a",
  "x-envoy-original-path: /o",
  "x-envoy-own: 1",
  "x-envoy-attempt-count: 4",
  "x-envoy-external-address: 1.1.1.1",
  "x-envoy-peer-metadata: 1",
  "x-envoy-downstream-service-node: b",
  "x-envoy-force-trace: true",
];
export const FORWARDED = [
  "x-forwarded-for: 1.2.3.4",
  "x-forwarded-host: a",
  "x-forwarded-proto: https",
  "x-forwarded-port: 99",
  "x-forwarded-client-cert: By=me",
  "x-real-ip: 9.9.9.9",
  "x-request-id: given",
  "forwarded: for=1",
  "via: 1.1 me",
  "te: trailers",
  "x_own: 1",
  "user-agent: test",
  "cookie: a=1",
  "accept: */*",
  "authorization: Bearer a",
  "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  "x-b3-sampled: 1",
];
const REFERERS = [
  "a",
  "/a?b=c:d",
  "HTTPS://a:1/b//c?d@e",
  "a:b",
  "http:/a",
  "http://u@a/",
  "http://a/#b",
  "/a#b",
  "a b",
  "ftp://a",
  "//a/b",
];

const ROWS: readonly Row[] = [
  // First, because it takes its time.
  ["no response at all", "504", { path: "/slow" }],
  ["no response to a call", "200 grpc 14", rpc("/slow"), [["2", "grpc"]]],
  ["a request", "200", { path: "/get?a=b" }],
  ["fields that steer a proxy", "200", { fields: STEERING }],
  ["fields that a proxy adds to", "200", { fields: FORWARDED }],
  ["an empty request id", "200", { fields: ["x-request-id: "] }],
  ...REFERERS.map((value): Row => [
    `referer ${value}`,
    "200",
    { fields: [`referer: ${value}`] },
    BY_1_1,
  ]),
  ["a body of a megabyte", "200", { method: "POST", path: "/echo", body: BODY }],
  ["a body of unknown length", "200", {
    method: "POST",
    path: "/echo",
    body: BODY,
    streamed: true,
  }],
  ["no body", "200", { method: "POST" }, BY_1_1],
  ["trailers of a request", "200", {
    method: "POST",
    path: "/echo",
    body: "a",
    streamed: true,
    trailers: ["x-sum: 1"],
  }],
  ["go on", "200", {
    method: "POST",
    path: "/echo",
    body: "abc",
    fields: ["expect: 100-continue"],
  }],
  ["DELETE with a body", "200", { method: "DELETE", path: "/echo", body: "abc" }],
  ["a method of its own", "200", { method: "PURGE" }, [["2", "http2"]]],
  ["a path with dots", "200", { path: "/a/../b/%2e%2e/c//d" }],
  ["a path that is refused", "400", { path: "/a%00b" }],
  ["a path with a fragment", "400", { path: "/a?b#c" }],
  ["a response's own fields", "200", { path: "/own" }],
  ["a response of unknown length", "200", { path: "/pieces" }],
  ["trailers of a response", "200", { path: "/trailers" }],
  ["early hints", "200", { path: "/hints" }],
  ["HEAD", "200", { method: "HEAD" }],
  ...[204, 304, 404, 500].map((status): Row => [`${status}`, `${status}`, { path: `/${status}` }]),
  ["denied", "403", { path: "/denied" }],
  ["denied with a body", "403", { method: "POST", path: "/denied", body: "abc" }],
  ["denied before it goes on", "403", {
    method: "POST",
    path: "/denied",
    body: "a",
    fields: ["expect: 100-continue"],
  }],
  ["a response that breaks off", "200 cut", { path: "/breaks" }, [["1.1", "http"], [
    "1.1",
    "http2",
  ]]],
  ["a response that breaks off", "200 reset 2", { path: "/breaks" }, [["2", "http2"], [
    "2",
    "http",
  ]]],
  ["no response but an end", "503", { path: "/drops" }],
  ["a head that is too large", "431", { fields: [`x-large: ${"a".repeat(62_000)}`] }, BY_1_1],
  ["too many fields", "431", {
    fields: Array.from({ length: 120 }, (_, at) => `x-${at}: 1`),
  }, BY_1_1],
  ["WebSocket", "101", { path: "/ws", upgrade: true }, BY_1_1],
];

export function rpc(path: string, fields: readonly string[] = []): Partial<WrittenRequest> {
  const own = ["content-type: application/grpc", "te: trailers", "grpc-timeout: 30S"];
  return { method: "POST", path, fields: [...own, ...fields], body: GRPC_MESSAGE, streamed: true };
}

const CALLS: readonly (readonly [path: string, want: string])[] = [
  ["/unary", "200 grpc 0"],
  ["/stream", "200 grpc 0"],
  ["/status", "200 grpc 5"],
  ["/denied", "200 grpc 7"],
  ["/drops", "200 grpc 14"],
  ["/breaks", "200 reset 2"],
];

export const messages: Area = {
  name: "messages",
  isMixed: true,
  entries: () => [],
  cases: ROWS.flatMap(([name, want, ask, wires = HTTP]) =>
    wires.map(([wire, to]): Case => ({ name, to, wire, ask, want }))
  ),
};

const TYPES = {
  "application/grpc+proto": "200 grpc 7",
  "application/grpc-web": "403",
  "application/grpcx": "403",
};

export const grpc: Area = {
  name: "gRPC",
  isMixed: true,
  entries: () => [],
  cases: [
    ...CALLS.map(([path, want]): Case => ({
      name: path,
      to: "grpc",
      wire: "2",
      ask: rpc(path),
      want,
    })),
    {
      name: "a request that is no gRPC",
      to: "grpc",
      wire: "2",
      ask: { path: "/get" },
      want: "200",
    },
    // By a caller that reads no trailers, and to services that do not announce that they do.
    ...CALLS.flatMap(([path, want]): Case[] => [
      {
        name: `${path} over HTTP/1.1`,
        to: "grpc",
        ask: rpc(path),
        want: path === "/breaks" ? "200 grpc 14" : want,
      },
      { name: `${path} of HTTP/2`, to: "http2", wire: "2", ask: rpc(path), want },
    ]),
    ...Object.entries(TYPES).map(([type, want]): Case => ({
      name: `denied as ${type}`,
      to: "grpc",
      wire: "2",
      want,
      ask: { ...rpc("/denied"), fields: [`content-type: ${type}`, "te: trailers"] },
    })),
  ],
};
