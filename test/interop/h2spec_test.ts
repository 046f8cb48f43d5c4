import test from "node:test";
import { startHttp2Server } from "../kit/http2_server.ts";
import { ALLOW_WEB, startHttpPair } from "../kit/http_pair.ts";
import { passesH2spec } from "./h2spec.ts";

test("serveHttp2() passes every case of h2spec in strict mode", async () => {
  await using server = await startHttp2Server({ limits: { concurrentStreams: 100 } });
  await passesH2spec({ host: "127.0.0.1", port: server.port });
});

test("an upstream's listener passes every case of h2spec, with a sidecar and an application behind it", async () => {
  await using app = await startHttp2Server();
  await using pair = await startHttpPair({
    protocol: "http2",
    apps: [{ host: "127.0.0.1", port: app.port }],
    intentions: ALLOW_WEB,
  });
  await passesH2spec(pair.upstream);
});
