import test from "node:test";
import { startHttp2Server } from "../kit/http2_server.ts";
import { passesH2spec } from "./h2spec.ts";

test("serveHttp2() passes every case of h2spec in strict mode", async () => {
  await using server = await startHttp2Server({ limits: { concurrentStreams: 100 } });
  await passesH2spec({ host: "127.0.0.1", port: server.port });
});
