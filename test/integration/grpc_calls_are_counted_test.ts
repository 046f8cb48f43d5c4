import assert from "node:assert/strict";
import { test } from "node:test";
import { startPlannedApp } from "../kit/wire/planned_app.ts";
import { GRPC_MESSAGE, PLAN } from "../kit/wire/response_plans.ts";
import { sendHttp2 } from "../kit/wire/send_request.ts";
import type { TestPath } from "../kit/engine/data_path.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { eventually } from "../kit/process/process.ts";
import { httpRules } from "../kit/engine/snapshots.ts";

/** An exchange may be over a moment after its caller has read the answer. */
async function shows({ path: { stats } }: TestPath, want: readonly string[]): Promise<void> {
  const counted = () =>
    stats.samples().filter(({ name }) => name === "grpc_calls_total").map(({ labels, value }) => {
      const { service, method, status } = labels;
      return `${service} ${method} ${status}: ${value}`;
    }).sort();
  await eventually("all are counted", () => {
    assert.deepEqual(counted(), want);
    return true;
  });
}

test("gRPC calls are counted by method and status at both ends, where the protocol is grpc", async () => {
  await using app = await startPlannedApp({ protocol: "http2", host: "127.0.0.1" });
  await using pair = await startPathPair({
    localPort: app.port,
    inbound: { http: httpRules("grpc") },
    upstream: { http: httpRules("grpc") },
  });
  const calls = async (plan: string) => {
    const asked = await sendHttp2({ host: "127.0.0.1", port: pair.port }, {
      method: "POST",
      path: "/shop.Orders/Place",
      body: GRPC_MESSAGE,
      trailers: [],
      fields: ["content-type: application/grpc", `${PLAN}: ${plan}`],
      streamed: false,
      upgrade: false,
    });
    assert.equal(asked.ending, "complete");
  };
  for (const plan of ["/unary", "/unary", "grpc-5"]) await calls(plan);
  const want = ["shop.Orders Place 0: 2", "shop.Orders Place 5: 1"];
  await shows(pair.web, want);
  await shows(pair.db, want);
  // From here on the caller's side takes it for any HTTP/2.
  const snapshot = pair.webSnapshot;
  await pair.web.set({
    ...snapshot,
    upstreams: Object.fromEntries(
      Object.entries(snapshot.upstreams).map(([id, part]) => [
        id,
        { ...part, version: part.version + 1, http: httpRules("http2") },
      ]),
    ),
  });
  await calls("/unary");
  await shows(pair.db, ["shop.Orders Place 0: 3", "shop.Orders Place 5: 1"]);
  await shows(pair.web, want);
});
