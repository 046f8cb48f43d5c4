/** How long a request may take, by the setting that limits it, and the answer after that. */

import { LATE_MS } from "../../kit/wire/response_plans.ts";
import { type Area, type Case, planned } from "../case.ts";
import type { Json } from "../../kit/mesh/mixed_mesh.ts";
import { rpc } from "./messages.ts";

/** More than an answer at once takes on a busy machine. */
const SHORT_MS = 500;
const SHORT = `${SHORT_MS}ms`;

type Row = readonly [
  name: string,
  destination: Json,
  tries: readonly (readonly [plan: string, want: string, waitsMs?: number])[],
];

const ROWS: readonly Row[] = [
  ["request", { RequestTimeout: SHORT }, [
    ["200", "200 other"],
    ["silent", "504, waited", SHORT_MS],
    ["late", "504, waited", SHORT_MS],
    ["pause", "200 other cut, waited", SHORT_MS],
  ]],
  ["long", { RequestTimeout: "7s" }, [["late", "200 other, waited", LATE_MS]]],
  ["endless", { RequestTimeout: "-1s" }, [["late", "200 other, waited", LATE_MS]]],
  ["idle", { IdleTimeout: SHORT }, [
    ["200", "200 other"],
    ["silent", "504, waited", SHORT_MS],
    ["pause", "200 other cut, waited", SHORT_MS],
  ]],
  ["both", { RequestTimeout: "7s", IdleTimeout: SHORT }, [["silent", "504, waited", SHORT_MS]]],
  ["retried", { RequestTimeout: "700ms", NumRetries: 3, RetryOn: ["5xx"] }, [
    ["silent", "504, waited", 700],
    ["503 silent", "504, 2 tries, waited", 700],
  ]],
];

export const timeouts: Area = {
  name: "timeouts",
  entries: (at) => [
    { Kind: "service-resolver", Name: at("timed"), Redirect: { Service: at("http") } },
    {
      Kind: "service-router",
      Name: at("timed"),
      Routes: ROWS.map(([name, destination]) => ({
        Match: { HTTP: { PathPrefix: `/${name}/` } },
        Destination: { Service: "other", ...destination },
      })),
    },
    {
      Kind: "service-resolver",
      Name: at("resolved"),
      RequestTimeout: SHORT,
      Failover: { "*": { Service: "other" } },
    },
    { Kind: "service-defaults", Name: at("timed-calls"), Protocol: "grpc" },
    { Kind: "service-resolver", Name: at("timed-calls"), Redirect: { Service: at("grpc") } },
    {
      Kind: "service-router",
      Name: at("timed-calls"),
      Routes: [{
        Match: { HTTP: { PathPrefix: "/short/" } },
        Destination: { RequestTimeout: SHORT },
      }],
    },
  ],
  cases: [
    ...ROWS.flatMap(([name, , tries]) =>
      tries.map(([plan, want, waitsMs]): Case => ({
        name: `${name}: ${plan}`,
        to: "timed",
        want,
        ...(waitsMs === undefined ? {} : { waitsMs }),
        ask: planned(plan, { path: `/${name}/` }),
      }))
    ),
    {
      name: "of a resolver",
      to: "resolved",
      want: "504, waited",
      waitsMs: SHORT_MS,
      ask: planned("silent"),
    },
    { name: "of a resolver, in time", to: "resolved", want: "200 other" },
    {
      name: "of a call",
      to: "timed-calls",
      wire: "2",
      ask: planned("silent", rpc("/short/")),
      want: "200 grpc 14, waited",
      waitsMs: SHORT_MS,
    },
    {
      name: "a call in time",
      to: "timed-calls",
      wire: "2",
      want: "200 grpc 0",
      ask: planned("/unary", rpc("/short/")),
    },
  ],
};
