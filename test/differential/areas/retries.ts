/** The responses that a route retries, how often, and those it leaves alone. */

import { type Area, type Case, planned } from "../case.ts";
import type { WrittenRequest } from "../../kit/wire/send_request.ts";
import type { Json } from "../../kit/mesh/mixed_mesh.ts";
import { rpc } from "./messages.ts";

/** `[plan of the tries, answer, the rest of the request]`. */
type Try = readonly [plan: string, want: string, ask?: Partial<WrittenRequest>];
type Row = readonly [name: string, destination: Json, tries: readonly Try[]];

const POST: Partial<WrittenRequest> = { method: "POST", body: "abc" };
const LIMITED = "429;x-envoy-ratelimited=true";

/** Sent to an instance without a proxy, so that a broken connection is one. */
const ROWS: readonly Row[] = [
  ["5xx", { NumRetries: 2, RetryOn: ["5xx"] }, [
    ["200", "200 other"],
    ["500 200", "200 other, 2 tries"],
    ["503 503 200", "200 other, 3 tries"],
    ["503 503 503 200", "503 other, 3 tries"],
    ["500 502 503", "503 other, 3 tries"],
    ["404 200", "404 other"],
    ["drop 200", "200 other, 2 tries"],
    ["drop drop drop 200", "503, 3 tries"],
    [`${LIMITED} 200`, "429 other"],
    ["503;x-envoy-ratelimited=true 200", "503 other"],
    ["503 200", "200 other, 2 tries", POST],
    ["503 200", "200 other, 2 tries", { ...POST, streamed: true }],
    ["503 200", "200 other, 2 tries", { ...POST, body: "a".repeat(50_000) }],
    ["503 200", "200 other, 2 tries", { ...POST, body: "a".repeat(900_000) }],
    ["503 200", "503 other", { ...POST, body: "a".repeat(1_500_000) }],
    ["503 200", "503 other", { ...POST, body: "a".repeat(1_500_000), streamed: true }],
    ["503 503 200", "200 other, 3 tries", { method: "HEAD" }],
    ["drop 200", "200 other, 2 tries", POST],
    ["503 200", "200 other, 2 tries", { fields: ["x-envoy-max-retries: 0"] }],
  ]],
  ["gateway", { NumRetries: 1, RetryOn: ["gateway-error"] }, [
    ["500 200", "500 other"],
    ["502 200", "200 other, 2 tries"],
    ["503 200", "200 other, 2 tries"],
    ["504 200", "200 other, 2 tries"],
    ["501 200", "501 other"],
    ["503 503 200", "503 other, 2 tries"],
    ["drop 200", "200 other, 2 tries", POST],
  ]],
  ["reset", { NumRetries: 1, RetryOn: ["reset"] }, [
    ["drop 200", "200 other, 2 tries", POST],
    ["503 200", "503 other"],
  ]],
  ["connect", { NumRetries: 1, RetryOnConnectFailure: true }, [
    ["503 200", "503 other"],
    ["drop 200", "503", POST],
  ]],
  ["4xx", { NumRetries: 1, RetryOn: ["retriable-4xx"] }, [
    ["409 200", "200 other, 2 tries"],
    ["404 200", "404 other"],
    ["503 200", "503 other"],
  ]],
  ["statuses", { NumRetries: 1, RetryOnStatusCodes: [404, 503] }, [
    ["404 200", "200 other, 2 tries"],
    ["503 200", "200 other, 2 tries"],
    ["500 200", "500 other"],
    ["drop 200", "503", POST],
  ]],
  ["both", { NumRetries: 1, RetryOn: ["gateway-error"], RetryOnStatusCodes: [404] }, [
    ["404 200", "200 other, 2 tries"],
    ["502 200", "200 other, 2 tries"],
    ["500 200", "500 other"],
  ]],
  ["ratelimited", { NumRetries: 1, RetryOn: ["envoy-ratelimited"] }, [
    [`${LIMITED} 200`, "200 other, 2 tries"],
    ["429 200", "429 other"],
    ["503 200", "503 other"],
  ]],
  ["once", { RetryOn: ["5xx"] }, [
    ["503 200", "200 other, 2 tries"],
    ["503 503 200", "503 other, 2 tries"],
  ]],
  ["number", { NumRetries: 2 }, [
    ["503 200", "503 other"],
    ["drop 200", "503", POST],
  ]],
  ["none", {}, [
    ["503 200", "503 other"],
    ["503 200", "503 other", { fields: ["x-envoy-retry-on: 5xx"] }],
    ["drop 200", "503", POST],
  ]],
];

/** Through a proxy to an application that speaks gRPC. */
const CALLS: readonly Row[] = [
  ["unavailable", { NumRetries: 1, RetryOn: ["unavailable"] }, [
    ["grpc-14 /unary", "200 grpc 0, 2 tries"],
    ["grpc-14 grpc-14 /unary", "200 grpc 14, 2 tries"],
    ["grpc-8 /unary", "200 grpc 8"],
    ["grpc-13 /unary", "200 grpc 13"],
    ["/unary", "200 grpc 0"],
  ]],
  ["exhausted", { NumRetries: 1, RetryOn: ["resource-exhausted", "cancelled"] }, [
    ["grpc-8 /unary", "200 grpc 0, 2 tries"],
    ["grpc-1 /unary", "200 grpc 0, 2 tries"],
    ["grpc-14 /unary", "200 grpc 14"],
  ]],
  ["deadline", { NumRetries: 1, RetryOn: ["deadline-exceeded", "internal"] }, [
    ["grpc-4 /unary", "200 grpc 0, 2 tries"],
    ["grpc-13 /unary", "200 grpc 0, 2 tries"],
    ["grpc-5 /unary", "200 grpc 5"],
  ]],
  ["refused", { NumRetries: 1, RetryOn: ["refused-stream"] }, [
    ["refuse /unary", "200 grpc 14"],
    ["grpc-14 /unary", "200 grpc 14"],
  ]],
  ["server", { NumRetries: 1, RetryOn: ["5xx"] }, [
    ["drop /unary", "200 grpc 14"],
    ["grpc-14 /unary", "200 grpc 14"],
    ["503 /unary", "200 grpc 0, 2 tries"],
  ]],
];

function router(name: string, rows: readonly Row[], service?: string): Json {
  return {
    Kind: "service-router",
    Name: name,
    Routes: rows.map(([path, destination]) => ({
      Match: { HTTP: { PathPrefix: `/${path}/` } },
      Destination: { ...(service ? { Service: service } : {}), ...destination },
    })),
  };
}

function shown([plan, , ask]: Try): string {
  const { method = "GET", body = "", streamed, fields = [] } = ask ?? {};
  const length = body === "" ? [] : [body.length, ...(streamed ? ["streamed"] : [])];
  return [method, ...length, ...fields, plan].join(" ");
}

export const retries: Area = {
  name: "retries",
  isOneByOne: true,
  entries: (at) => [
    { Kind: "service-resolver", Name: at("retries"), Redirect: { Service: at("http") } },
    router(at("retries"), ROWS, "other"),
    { Kind: "service-defaults", Name: at("calls"), Protocol: "grpc" },
    { Kind: "service-resolver", Name: at("calls"), Redirect: { Service: at("grpc") } },
    router(at("calls"), CALLS),
  ],
  cases: [
    ...ROWS.flatMap(([name, , tries]) =>
      tries.map((one): Case => ({
        name: `${name}: ${shown(one)}`,
        to: "retries",
        want: one[1],
        ask: planned(one[0], { ...one[2], path: `/${name}/` }),
      }))
    ),
    ...CALLS.flatMap(([name, , tries]) =>
      tries.map((one): Case => ({
        name: `gRPC ${name}: ${one[0]}`,
        to: "calls",
        wire: "2",
        want: one[1],
        ask: planned(one[0], rpc(`/${name}/`)),
      }))
    ),
  ],
};
