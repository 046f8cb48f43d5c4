/**
 * gRPC's own interoperability test through a pair: its client at one end, its server at the other.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { startHttpPair } from "../kit/http_pair.ts";
import { freePort } from "../kit/ports.ts";
import { Process, runToEnd } from "../kit/process.ts";

const CASES = [
  "empty_unary",
  "large_unary",
  "client_streaming",
  "server_streaming",
  "ping_pong",
  "empty_stream",
  "timeout_on_sleeping_server",
  "cancel_after_begin",
  "cancel_after_first_response",
  "status_code_and_message",
  "special_status_message",
  "custom_metadata",
  "unimplemented_method",
  "unimplemented_service",
  "pick_first_unary",
  "orca_per_rpc",
  "orca_oob",
  "rpc_soak",
  "channel_soak",
] as const;
const HOST = "127.0.0.1";

for (const protocol of ["grpc", "http2"] as const) {
  test(`every case of gRPC's interoperability test passes through a ${protocol} pair`, async (t) => {
    const port = await freePort(HOST);
    await using server = new Process(peer("grpc-interop-server"), ["-port", String(port)]);
    await server.waitFor(/./, { timeoutMs: 1_000 }).catch(() => {
      // It says nothing when all is well.
    });
    await using pair = await startHttpPair({ protocol, apps: [{ host: HOST, port }] });
    for (const name of CASES) {
      await t.test(name, async () => {
        const { host, port } = pair.upstream;
        await runToEnd(peer("grpc-interop-client"), [
          ...["-server_host", host, "-server_port", String(port), "-test_case", name],
        ], { timeoutMs: 60_000 });
      });
    }
  });
}

test("a gRPC client is told of a denial and of a missing application in gRPC's words", async () => {
  const port = await freePort(HOST);
  await using pair = await startHttpPair({ protocol: "grpc", apps: [{ host: HOST, port }] });
  const call = () => {
    const { host, port } = pair.upstream;
    return runToEnd(peer("grpc-interop-client"), [
      ...["-server_host", host, "-server_port", String(port), "-test_case", "empty_unary"],
    ], { timeoutMs: 60_000 });
  };
  await assert.rejects(call(), /code = Unavailable desc = upstream connect error/);
  await pair.setIntentions([{ source: "web", action: "deny" }]);
  await assert.rejects(call(), /code = PermissionDenied desc = RBAC: access denied/);
});
