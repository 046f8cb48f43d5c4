import assert from "node:assert/strict";
import test from "node:test";
import { formatStatus, GRPC_UNAVAILABLE, grpcStatus } from "./grpc_status.ts";

for (
  const [text, wanted] of [
    [
      "No connection established. Last error: Error: connect ECONNREFUSED 127.0.0.1:1 " +
      "(2026-11-21T18:00:00.000Z). Resolution note: ",
      "UNAVAILABLE: connect ECONNREFUSED 127.0.0.1:1",
    ],
    [
      "No connection established. Last error: Failed to connect (2026-11-21T18:00:00.000Z)",
      "UNAVAILABLE: it closed the connection where HTTP/2 begins: is it a gRPC server, with TLS " +
      "or without as configured?",
    ],
    [
      "error:100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER",
      "UNAVAILABLE: the port does not speak TLS",
    ],
    [
      "received corrupt message of type InvalidContentType (SSL routines:ssl3_get_record:wrong " +
      "version number)",
      "UNAVAILABLE: the port does not speak TLS",
    ],
    ["Error [ERR_TLS_CERT_ALTNAME_INVALID]: no such name", "UNAVAILABLE: no such name"],
    ["a line\nand another", "UNAVAILABLE: a line and another"],
    ["Failed to connect to the database", "UNAVAILABLE: Failed to connect to the database"],
  ] as const
) {
  test(`grpcStatus() says ${JSON.stringify(text.slice(0, 60))} in plain words`, () => {
    assert.equal(formatStatus(grpcStatus(GRPC_UNAVAILABLE, text)), wanted);
  });
}
