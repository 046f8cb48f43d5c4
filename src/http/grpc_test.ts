import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decodeGrpcMessage,
  encodeGrpcMessage,
  grpcStatusOf,
  httpStatusOf,
  isGrpc,
  readGrpcStatus,
  trailersOnly,
} from "./grpc.ts";

for (
  const [type, want] of [
    ["application/grpc", true],
    ["application/grpc+proto", true],
    ["application/grpc;charset=utf-8", true],
    ["application/grpc-web", false],
    ["application/grpcx", false],
    ["application/json", false],
  ] as const
) {
  test(`isGrpc() ${type}: ${want}`, () => {
    assert.equal(isGrpc(["content-type", type, "Content-Type"]), want);
  });
}

test("isGrpc() without a content type: false", () => assert.equal(isGrpc([]), false));

test("grpcStatusOf() maps as Envoy does", () => {
  const statuses = [400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504];
  assert.deepEqual(statuses.map(grpcStatusOf), [13, 16, 7, 12, 2, 2, 14, 2, 14, 14, 14]);
});

test("httpStatusOf() maps as Envoy does", () => {
  assert.deepEqual(
    Array.from({ length: 18 }, (_, status) => httpStatusOf(status)),
    [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401, 500],
  );
});

test("readGrpcStatus() reads a number, and anything else as unknown", () => {
  const read = (value: string) => readGrpcStatus(["grpc-status", value, "grpc-status"]);
  assert.deepEqual(["0", "14", "", "x", "1.5", "-1", "1e9"].map(read), [0, 14, 2, 2, 2, 2, 2]);
  assert.equal(readGrpcStatus([]), undefined);
});

test("encodeGrpcMessage() leaves printable ASCII", () => {
  assert.equal(encodeGrpcMessage("no 100% é\n~\x7f"), "no 100%25 %C3%A9%0A~%7F");
});

for (
  const [text, want] of [
    ["as it is", "as it is"],
    [encodeGrpcMessage("no 100% é\n~\x7f"), "no 100% é\n~\x7f"],
    ["50% of %zz and %4", "50% of %zz and %4"],
    ["%ff!", "\ufffd!"],
  ] as const
) {
  test(`decodeGrpcMessage() of ${text}`, () => assert.equal(decodeGrpcMessage(text), want));
}

test("trailersOnly() has grpc-message only for a message", () => {
  assert.deepEqual(trailersOnly(7, "a b").filter((_, i) => i % 3 !== 2), [
    "content-type",
    "application/grpc",
    "grpc-status",
    "7",
    "grpc-message",
    "a b",
  ]);
  assert.equal(trailersOnly(0, "").length, 6);
});
