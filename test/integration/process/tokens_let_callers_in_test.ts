import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import {
  answerOf,
  RawClient,
  type RawMessage,
  startRawOrigin,
  statusOf,
} from "../../kit/wire/http_raw.ts";
import { runPostern } from "../../kit/process/postern.ts";
import { ISSUER, keySetOf, makeIssuer, startKeyServer } from "../../kit/certs/tokens.ts";

test("tokens of a trusted issuer let callers in, and others do not", async () => {
  const issuer = await makeIssuer("one");
  const stranger = await makeIssuer("one");
  await using keys = await startKeyServer(keySetOf(issuer));
  await using mesh = await createFileSidecar();
  const heads: string[] = [];
  const origin = await startRawOrigin(({ head }) => {
    heads.push(head);
    return answerOf("hello");
  });
  const file = join(mesh.directory, "web.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  const okta = {
    issuer: ISSUER,
    jsonWebKeySet: { remote: { uri: keys.uri } },
    forwarding: { headerName: "x-claims" },
  };
  const verifyClaims = [{ path: ["roles"], value: "admin" }];
  config.inbound = {
    bind: config.inbound.bind,
    local: `127.0.0.1:${origin.port}`,
    protocol: "http",
    plugins: [{
      use: "jwt_auth",
      config: {
        providers: { okta },
        require: { any: [{ provider: "okta", verifyClaims }] },
      },
    }],
  };
  config.upstreams[0].protocol = "http";
  await writeFile(file, JSON.stringify(config));
  await using web = runPostern(mesh.args);
  await web.waitReady();
  await using client = await RawClient.open(mesh.upstream);
  const ask = async (token?: string, more = ""): Promise<RawMessage> => {
    const field = token === undefined ? "" : `Authorization: Bearer ${token}\r\n`;
    client.send(`GET /a HTTP/1.1\r\nHost: web\r\n${field}${more}\r\n`);
    return await client.response();
  };

  const admin = { roles: ["dev", "admin"], exp: Math.ceil(Date.now() / 1_000) + 600 };
  const answer = await ask(await issuer.sign(admin), "X-Claims: forged\r\n");
  assert.deepEqual([statusOf(answer), answer.body], [200, "hello"]);
  const [head = ""] = heads;
  assert.doesNotMatch(head, /authorization|forged/i);
  const [, claims = ""] = /x-claims: (\S+)/i.exec(head) ?? [];
  assert.deepEqual(JSON.parse(atob(claims)).roles, ["dev", "admin"]);

  const none = await ask();
  assert.deepEqual([statusOf(none), none.body], [401, "Jwt is missing"]);
  assert.match(none.head, /^www-authenticate: Bearer realm="http:\/\/web\/a"\r?$/im);
  const old = await ask(await issuer.sign({ ...admin, exp: 1 }));
  assert.deepEqual([statusOf(old), old.body], [401, "Jwt is expired"]);
  assert.equal(statusOf(await ask(await stranger.sign(admin))), 401);
  assert.equal(statusOf(await ask(await issuer.sign({ roles: ["dev"] }))), 403);
  const grpc = await ask(undefined, "Content-Type: application/grpc\r\n");
  assert.match(grpc.head, /^grpc-status: 16\r?$/im);
  assert.equal(heads.length, 1);
  assert.equal(keys.asked, 1);
  assert.doesNotMatch(web.output, /eyJ/);
  await origin[Symbol.asyncDispose]();
});
