/**
 * gRPC's own interoperability test through a pair: its client at one end, its server at the other.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { isOpen } from "../kit/peers/envoy_tls.ts";
import { type FilePair, startFilePair } from "../kit/mesh/file_pair.ts";
import { freePort } from "../kit/process/ports.ts";
import { eventually, Process, runToEnd } from "../kit/process/process.ts";

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
  "orca_per_rpc",
  "orca_oob",
  "rpc_soak",
  "channel_soak",
] as const;
const HOST = "127.0.0.1";
/** The configuration that the ORCA cases need; the others ignore it. */
const BALANCING = '{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}';

async function call({ upstream: { host, port } }: FilePair, name: string): Promise<void> {
  await runToEnd(peer("grpc-interop-client"), [
    ...["-server_host", host, "-server_port", String(port), "-test_case", name],
    ...["-service_config_json", name.startsWith("orca") ? BALANCING : "{}"],
  ], { timeoutMs: 60_000 });
}

test("every case of gRPC's interoperability test passes through a pair", async (t) => {
  const port = await freePort(HOST);
  await using server = new Process(peer("grpc-interop-server"), ["-port", String(port)]);
  const app = { host: HOST, port };
  await eventually("the server listens", async () => await isOpen(app) || server.ended);
  await using pair = await startFilePair({ protocol: "grpc", apps: [app] });
  for (const name of CASES) await t.test(name, () => call(pair, name));
});

test("a gRPC client gets gRPC statuses for a denial and for a missing application", async () => {
  const port = await freePort(HOST);
  await using pair = await startFilePair({ protocol: "grpc", apps: [{ host: HOST, port }] });
  await assert.rejects(
    call(pair, "empty_unary"),
    /code = Unavailable desc = upstream connect error/,
  );
  await pair.setIntentions([{ source: "web", action: "deny" }]);
  await assert.rejects(
    call(pair, "empty_unary"),
    /code = PermissionDenied desc = RBAC: access denied/,
  );
});
