import assert from "node:assert/strict";
import { test } from "node:test";
import { exchangeRecord, requestHead } from "../../../test/kit/wire/exchange_records.ts";
import { Stats } from "../../base/mod.ts";
import { GrpcStats } from "./grpc_stats.ts";

const GRPC = ["content-type", "application/grpc", "content-type"];
const okTrailers = (status: string) => ["grpc-status", status, "grpc-status"];

function rig() {
  const stats = new Stats();
  const calls = new GrpcStats(stats, { cluster: "db" });
  const call = (path: string, trailers: string[] | undefined, fields = GRPC) =>
    calls.ended(exchangeRecord(
      { response: { status: 200, length: 0, fields: [] }, responseTrailers: trailers },
      { request: requestHead({ path, fields }) },
    ));
  const shown = () =>
    stats.samples().map(({ labels: { service, method, status }, value }) =>
      `${service} ${method} ${status}: ${value}`
    );
  return { stats, calls, call, shown };
}

test("GrpcStats counts calls by method and status", () => {
  const { calls, call, shown } = rig();
  call("/shop.Orders/Place", okTrailers("0"));
  call("/shop.Orders/Place", okTrailers("0"));
  call("/shop.Orders/Place", okTrailers("14"));
  call("/shop.Orders/Cancel", okTrailers("99"));
  // Without a body, the status is in the head.
  calls.ended(exchangeRecord(
    { response: { status: 200, length: 0, fields: okTrailers("7") } },
    { request: requestHead({ path: "/shop.Orders/Cancel", fields: GRPC }) },
  ));
  assert.deepEqual(shown(), [
    "shop.Orders Place 0: 2",
    "shop.Orders Place 14: 1",
    "shop.Orders Cancel 2: 1",
    "shop.Orders Cancel 7: 1",
  ]);
});

test("GrpcStats ignores requests other than gRPC, and calls without a status", () => {
  const { call, shown } = rig();
  call("/shop.Orders/Place", undefined);
  call("/shop.Orders/Place", okTrailers("0"), []);
  assert.deepEqual(shown(), []);
});

test("GrpcStats has a limit of methods, and ignores invalid method names", () => {
  const { stats, calls, call, shown } = rig();
  call("/shop.Orders/Place:1|c", okTrailers("0"));
  for (let i = 0; i < 200; i++) call(`/shop.Orders/M${i}`, okTrailers("0"));
  assert.equal(shown().length, 101);
  assert.ok(shown().includes("other other 0: 101"));
  calls.forget();
  assert.deepEqual(stats.samples(), []);
});
