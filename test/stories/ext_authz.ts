/** Config entries select the authorization service, followed live. */

import assert from "node:assert/strict";
import test from "node:test";
import { startAuthz } from "../kit/peers/ext_authz.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";

export function extAuthz(agents: Agents): void {
  test("builtin/ext-authz asks the service that it names, as long as it names one", async (t) => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    const heads: string[] = [];
    await using app = await startRawOrigin(({ head }) => {
      heads.push(head);
      return answerOf("db");
    }, { host: mesh.host });
    await using far = await startAuthz(({ path }) => {
      if (path.startsWith("/far")) {
        return { status: {}, ok: { headers: [{ header: { key: "x-user", value: "ada" } }] } };
      }
      return { status: { code: 7 }, denied: { status: { code: 401 }, body: "far away" } };
    }, mesh.host);
    // Consul accepts an authorization service by its address only on this machine.
    await using near = await startRawOrigin(({ head }) =>
      head.startsWith("GET /check/near") ? answerOf("") : answerOf("near", "HTTP/1.1 403 No")
    );
    await mesh.configEntry({ Kind: "service-defaults", Name: "authz", Protocol: "grpc" });
    const ask = (extensions: readonly object[]) =>
      mesh.configEntry({
        Kind: "service-defaults",
        Name: "db",
        Protocol: "http",
        EnvoyExtensions: extensions,
      });
    const asking = (Config: object) =>
      ask([{
        Name: "builtin/ext-authz",
        Required: true,
        Arguments: { ProxyType: "connect-proxy", Config },
      }]);
    await ask([]);
    await using _authz = await mesh.serve({ name: "authz", port: far.port });
    await using db = await mesh.serve({
      name: "db",
      port: app.port,
      upstreams: [{ name: "authz", ...await mesh.place() }],
    });
    const { port, ...place } = await mesh.place();
    await using _web = await mesh.serve({
      name: "web",
      upstreams: [{ name: "db", port, ...place }],
    });
    const get = async (path: string) => {
      const reply = await fetch(`http://${mesh.host}:${port}${path}`);
      return `${reply.status} ${await reply.text()}`;
    };
    const answers = (want: string, path: string) =>
      eventually(
        `${path} is answered by ${want}`,
        async () => await get(path).catch(() => "") === want,
      );

    await t.test("without one all pass", async () => {
      await answers("200 db", "/");
    });

    await t.test("a service of the mesh, by gRPC", async () => {
      const Target = { Service: { Name: "authz" }, Timeout: "2s" };
      await asking({ GrpcService: { Target } });
      await answers("401 far away", "/");
      await answers("200 db", "/far");
      assert.match(heads.at(-1) ?? "", /x-user: ada/i);
    });

    await t.test("a service on this machine, by HTTP", async () => {
      const Target = { URI: `127.0.0.1:${near.port}`, Timeout: "2s" };
      await asking({ HttpService: { Target, PathPrefix: "/check" } });
      await answers("403 near", "/far");
      assert.equal(await get("/near"), "200 db");
    });

    await t.test("an unusable required extension is named, and the last good one stays", async () => {
      const Target = { Service: { Name: "authz" } };
      await asking({ GrpcService: { Target }, IncludePeerCertificate: true });
      await db.process.waitFor(
        /service-defaults db" reason="EnvoyExtensions\[0\]: \S*ext-authz\S* IncludePeerCertificate/,
        { timeoutMs: 20_000 },
      );
      assert.deepEqual([await get("/near"), await get("/far")], ["200 db", "403 near"]);
    });

    await t.test("no service is asked once none is named", async () => {
      await ask([]);
      await answers("200 db", "/");
    });
  });
}
