import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULT_OUTLIER } from "../../src/balance/mod.ts";
import { startPlannedApp } from "../kit/wire/planned_app.ts";
import { GRPC_MESSAGE } from "../kit/wire/response_plans.ts";
import { sendHttp2 } from "../kit/wire/send_request.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { httpRules } from "../kit/engine/snapshots.ts";

const ASK = { method: "POST", body: GRPC_MESSAGE, fields: ["content-type: application/grpc"] };

for (
  const [path, ejects] of [
    ["/500", true],
    ["/404", false],
    ["/unavailable", true],
    ["/status", false],
    ["/unary", false],
  ] as const
) {
  test(`an endpoint that answers ${path} time and again ${ejects ? "is" : "is not"} ejected`, async () => {
    await using app = await startPlannedApp({ protocol: "http2", host: "127.0.0.1" });
    await using pair = await startPathPair({
      localPort: app.port,
      inbound: { http: httpRules("grpc") },
      upstream: { http: httpRules("grpc"), outlier: { ...DEFAULT_OUTLIER, maxFailures: 2 } },
    });
    const place = { host: "127.0.0.1", port: pair.port };
    for (let asked = 0; asked < 3; asked++) {
      // An ejected endpoint gets requests where there is no other.
      const { ending } = await sendHttp2(place, {
        ...ASK,
        path,
        streamed: false,
        trailers: [],
        upgrade: false,
      });
      assert.equal(ending, "complete");
    }
    const isEjected = pair.lines.some(({ message }) => message === "endpoint ejected");
    assert.equal(isEjected, ejects);
  });
}
