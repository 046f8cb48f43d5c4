/**
 * Logging in with a JWT, over gRPC and HTTP: refused logins, the token of a login, and its end.
 *
 * @module
 */

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { SignJWT } from "jose";
import { AgentClient, unique, until } from "../agent/client.ts";
import { GrpcClient, type ServerUnderTest } from "./grpc_client.ts";

/** For a server with ACLs. */
export function loginContract(server: ServerUnderTest): void {
  const http = new AgentClient({ ...server, port: server.httpPort });
  const grpc = new GrpcClient(server);
  const method = unique("jwt");
  const web = unique("web");
  const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const others = generateKeyPairSync("rsa", { modulusLength: 2048 });

  const bearer = (claims: Record<string, unknown> = {}, { privateKey } = keys) =>
    new SignJWT({ iss: "tests", aud: "consul", sub: "pod", svc: web, ...claims })
      .setProtectedHeader({ alg: "RS256" })
      .setIssuedAt()
      .setExpirationTime("1h")
      .sign(privateKey);

  test("an auth method and its rule are set up", async () => {
    await http.put("/v1/acl/auth-method", {
      Name: method,
      Type: "jwt",
      MaxTokenTTL: "60s",
      TokenLocality: "local",
      Config: {
        JWTValidationPubKeys: [keys.publicKey.export({ type: "spki", format: "pem" })],
        BoundIssuer: "tests",
        BoundAudiences: ["consul"],
        ClaimMappings: { svc: "service" },
      },
    });
    await http.put("/v1/acl/binding-rule", {
      AuthMethod: method,
      BindType: "service",
      BindName: "${value.service}",
      Selector: 'value.service != ""',
    });
  });

  const refused: readonly (readonly [
    what: string,
    name: string,
    token: () => string | Promise<string>,
    want: readonly [http: number, grpc: number, text: string | RegExp],
  ])[] = [
    ["no such method", "nope", () => "x", [403, 3, /auth method "nope" not found$/]],
    ["no token", method, () => "", [500, 16, "missing jwt"]],
    [
      "no JWT",
      method,
      () => "abc",
      [500, 16, /^error (parsing|validating) token: /],
    ],
    ["another key", method, () => bearer({}, others), [500, 16, /no known key/]],
    ["another audience", method, () => bearer({ aud: "us" }), [500, 16, /audience/]],
    ["another issuer", method, () => bearer({ iss: "us" }), [500, 16, /issuer/]],
    ["a token without a service", method, () => bearer({ svc: "" }), [
      403,
      7,
      /^Permission denied/,
    ]],
  ];
  for (const [what, name, token, [status, code, text]] of refused) {
    test(`a login with ${what} is refused`, async () => {
      const bearer_token = await token();
      const body = { AuthMethod: name, BearerToken: bearer_token };
      const reply = await http.call("POST", "/v1/acl/login", { body, token: "" });
      assert.equal(reply.status, status, reply.text);
      const answer = await grpc.ask("login", { auth_method: name, bearer_token }, "");
      assert.equal(answer.code, code, answer.details);
      for (const said of [reply.error, answer.details]) {
        if (typeof text === "string") assert.equal(said, text);
        else assert.match(said, text);
      }
    });
  }

  test("a login gives a token for a while, with the service's identity, that a logout ends", async () => {
    const self = (token: string) => http.call("GET", "/v1/acl/token/self", { token });
    const request = { auth_method: method, bearer_token: await bearer(), meta: { pod: "web-1" } };
    const { message, details } = await grpc.ask("login", request, "");
    const given = message["token"] as { secret_id?: string; accessor_id?: string } | undefined;
    const secret = given?.secret_id ?? "";
    assert.match(secret, /^[0-9a-f-]{36}$/, details);
    const shown = await until(() => self(secret), ({ status }) => status === 200);
    const token = JSON.parse(shown.text) as Readonly<Record<string, unknown>>;
    assert.deepEqual(token["ServiceIdentities"], [{ ServiceName: web }]);
    assert.equal(token["AccessorID"], given?.accessor_id);
    assert.equal(token["AuthMethod"], method);
    assert.equal(token["Local"], true);
    assert.equal(token["Description"], 'token created via login: {"pod":"web-1"}');
    const lifeMs = Date.parse(String(token["ExpirationTime"])) -
      Date.parse(String(token["CreateTime"]));
    assert.equal(Math.round(lifeMs / 1000), 60);
    const stream = grpc.follow("roots", {}, secret);
    assert.equal((await stream.next()).code, 0);
    assert.equal((await grpc.ask("logout", { token: secret }, "")).code, 0);
    assert.equal((await stream.next()).code, 16);
    stream.close();
    assert.equal((await until(() => self(secret), ({ status }) => status !== 200)).status, 403);
  });

  test("over HTTP it is the same", async () => {
    const body = { AuthMethod: method, BearerToken: await bearer() };
    const login = await http.call("POST", "/v1/acl/login", { body, token: "" });
    assert.equal(login.status, 200, login.text);
    const { SecretID = "" } = JSON.parse(login.text) as { readonly SecretID?: string };
    const logout = () => http.call("POST", "/v1/acl/logout", { token: SecretID });
    assert.equal((await until(logout, ({ status }) => status === 200)).status, 200);
    const again = await until(logout, ({ status }) => status !== 200);
    assert.match(again.error, /^(ACL not found|Supplied token does not exist)/);
  });
}
