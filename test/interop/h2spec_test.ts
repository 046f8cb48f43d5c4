import test from "node:test";
import { connect } from "node:tls";
import { startHttp2Server } from "../kit/wire/http2_server.ts";
import { startFilePair } from "../kit/mesh/file_pair.ts";
import { startPipe } from "../kit/process/pipe.ts";
import { passesH2spec } from "./h2spec.ts";

test("serveHttp2() passes every case of h2spec in strict mode", async () => {
  await using server = await startHttp2Server({ limits: { concurrentStreams: 100 } });
  await passesH2spec({ host: "127.0.0.1", port: server.port });
});

test("both listeners of a pair pass every case of h2spec", async (t) => {
  await using app = await startHttp2Server();
  const apps = [{ host: "127.0.0.1", port: app.port }];
  await using pair = await startFilePair({ protocol: "http2", apps });
  await t.test("an upstream's", () => passesH2spec(pair.upstream));
  await t.test("the public one", async () => {
    const [inbound] = pair.publics;
    if (!inbound) throw new Error("no instance");
    // h2spec has no certificate to show. The server's identity is not judged here.
    const { certPem: cert, keyPem: key } = pair.issueWeb();
    const tls = { cert, key, ALPNProtocols: ["h2"], rejectUnauthorized: false };
    await using pipe = await startPipe(() => connect({ ...inbound, ...tls }));
    await passesH2spec(pipe);
  });
});
