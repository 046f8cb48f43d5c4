import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { messageOf, ProxyError, Stats } from "../../../base/mod.ts";
import type { Carrier, WireReply, WireRequest } from "../../http/carrier.ts";
import type { LoginOptions } from "../types.ts";
import { createLoginCalls, type Login, type LoginCalls, readLogin } from "./login_calls.ts";

const BEARER = "eyJhbGciOiJFUzI1NiJ9.eyJzdmMiOiJ3ZWIifQ.c2lnbmF0dXJl";
const OPTIONS: LoginOptions = {
  authMethod: "jwt",
  bearerToken: BEARER,
  bearerTokenFile: "",
  meta: {},
  datacenter: "",
  namespace: "",
  partition: "",
};
/** A reply of Consul 1.22.7. */
const REPLY = {
  SecretID: "dd0661f6-75d2-8492-3ec5-9a16f152e4dd",
  AccessorID: "162fe07b-5e47-9977-4ad2-18db4d987c96",
  CreateTime: "2026-11-22T07:45:49.579595442Z",
  ExpirationTime: "2026-11-22T07:47:49.579595442Z",
};

function played(
  answer: Partial<WireReply> | Error,
  options: Partial<LoginOptions> = {},
): { readonly calls: LoginCalls; readonly asked: WireRequest[] } {
  const asked: WireRequest[] = [];
  const carrier: Carrier = {
    peer: "server",
    where: "https://192.0.2.1:8501",
    dropIdle() {},
    reloadFiles() {},
    close() {},
    send(request) {
      asked.push(request);
      if (answer instanceof Error) return Promise.reject(answer);
      return Promise.resolve({ status: 200, headers: {}, body: "true", ...answer });
    },
  };
  const calls = createLoginCalls({ ...OPTIONS, ...options }, { carrier, stats: new Stats() });
  return { calls, asked };
}

test("logIn() sends one request without a token, and returns the token with its life", async () => {
  const { calls, asked } = played({ body: JSON.stringify(REPLY) }, { datacenter: "dc1" });
  assert.deepEqual(await calls.logIn(), {
    secret: REPLY.SecretID,
    accessorId: REPLY.AccessorID,
    lifeMs: 120_000,
  });
  const [request, ...more] = asked;
  assert.equal(more.length, 0);
  assert.deepEqual([request?.method, request?.path], ["POST", "/v1/acl/login?dc=dc1"]);
  assert.deepEqual(request?.headers, { accept: "application/json" });
  assert.deepEqual(JSON.parse(request?.body ?? ""), { AuthMethod: "jwt", BearerToken: BEARER });
  assert.equal(request?.repeatable, false, "a broken login may have made a token");
});

test("logIn() sends meta, namespace and partition", async () => {
  const own = { meta: { pod: "default/web=1" }, namespace: "team", partition: "east" };
  const { calls, asked } = played({ body: JSON.stringify(REPLY) }, own);
  await calls.logIn();
  assert.equal(asked[0]?.path, "/v1/acl/login?ns=team&partition=east");
  assert.deepEqual(JSON.parse(asked[0]?.body ?? "").Meta, own.meta);
});

for (
  const [name, change, want] of [
    ["has no life without an expiry", { ExpirationTime: undefined }, { lifeMs: undefined }],
    ["has no life without a creation time", { CreateTime: null }, { lifeMs: undefined }],
    ["has no life where it expired before its creation", { CreateTime: "2027-01-01T00:00:00Z" }, {
      lifeMs: undefined,
    }],
    ["drops an accessor with control characters", { AccessorID: "a\u001b[31m" }, {
      accessorId: "",
    }],
  ] as const
) {
  test(`readLogin() ${name}`, () => {
    const login: Login = readLogin({ ...REPLY, ...change });
    assert.deepEqual({ ...login, ...want }, login);
  });
}

for (const secret of ["", "two words", "line\r\nx-other: 1", "ü", "x".repeat(513), 7, null]) {
  test(`readLogin() refuses ${JSON.stringify(secret).slice(0, 30)} as a token, without showing it`, () => {
    assert.throws(() => readLogin({ ...REPLY, SecretID: secret }), (error: unknown) => {
      assert.ok(error instanceof ProxyError && error.code === "agent_reply_invalid");
      return !/words|other|ü|xxx/.test(error.message);
    });
  });
}

for (
  const [status, body, want] of [
    [403, 'ACL not found: auth method "jwt" not found', /not found \(create "jwt", or/],
    [403, "Permission denied", /no binding rule of "jwt" fits/],
    [500, 'rpc error making call: invalid bind name: ""', /names a claim/],
    [
      500,
      "error validating claims: go-jose/go-jose/jwt: validation failed, token is expired (exp)",
      /renew it/,
    ],
    [500, "error validating claims: jwt: validation failed, token not valid yet (nbf)", /clock/],
    [500, "error validating claims: aud claim does not match any bound audience", /BoundAudiences/],
    [500, "error validating claims: validation failed, invalid issuer claim (iss)", /BoundIssuer/],
    [500, "no known key successfully validated the token signature", /none of those that/],
    [500, "error parsing token: compact JWS format must have three parts", /no JWT/],
    [401, "ACL support disabled", /leave out -login-auth-method/],
    [400, 'Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature', /-login-n/],
    [500, "rpc error getting client: connection refused", /connection refused$/],
  ] as const
) {
  test(`logIn() names the fix for ${JSON.stringify(body)}`, async () => {
    const { calls } = played({ status, body });
    await assert.rejects(calls.logIn(), (error) => {
      assert.match(messageOf(error), want);
      return /^Cannot log in by "jwt": /.test(messageOf(error));
    });
  });
}

test("logIn() removes parts of the bearer token from a quoted reply", async () => {
  const [head = "", claims = ""] = BEARER.split(".");
  const { calls } = played({ status: 500, body: `cannot read ${BEARER}, or ${claims} of ${head}` });
  await assert.rejects(calls.logIn(), (error) => {
    assert.match(messageOf(error), /cannot read \(not shown\), or \(not shown\) of \(not shown\)/);
    return true;
  });
});

test("logOut() sends the token to be logged out", async () => {
  const { calls, asked } = played({}, { datacenter: "dc2" });
  await calls.logOut("secret");
  assert.equal(asked[0]?.path, "/v1/acl/logout?dc=dc2");
  assert.equal(asked[0]?.headers["x-consul-token"], "secret");
});

test("logOut() succeeds for an unknown token, and fails where no server answers", async () => {
  await played({ status: 403, body: "ACL not found" }).calls.logOut("secret");
  const away = played(new ProxyError("agent_unreachable", "connection refused"));
  await assert.rejects(away.calls.logOut("secret"), { code: "agent_unreachable" });
});

test("logIn() reads the bearer token from its file for each login", async () => {
  const directory = mkdtempSync(join(tmpdir(), "postern-bearer-"));
  try {
    const file = join(directory, "token");
    const own = { bearerToken: "", bearerTokenFile: file };
    const { calls, asked } = played({ body: JSON.stringify(REPLY) }, own);
    const faulty = (want: RegExp) =>
      assert.rejects(calls.logIn(), (error) => {
        assert.ok(error instanceof ProxyError && error.code === "agent_failed");
        assert.match(error.message, want);
        return error.message.includes(JSON.stringify(file));
      });
    await faulty(/cannot be read: ENOENT/);
    // Kubernetes mounts tokens as links.
    symlinkSync(join(directory, "real"), file);
    const write = (text: string) => writeFileSync(join(directory, "real"), text);
    write(" \n");
    await faulty(/is empty$/);
    write("one\ntwo");
    const opened = readdirSync("/proc/self/fd").length;
    for (let time = 0; time < 100; time++) {
      await faulty(/has characters that no bearer token has$/);
    }
    assert.ok(readdirSync("/proc/self/fd").length < opened + 50, "each file is closed");
    write("x".repeat(64 * 1024 + 1));
    await faulty(/it is longer than 65536 bytes$/);
    assert.equal(asked.length, 0);
    for (const token of ["first", "x".repeat(64 * 1024 - 1)]) {
      write(`${token}\n`);
      await calls.logIn();
      assert.equal(JSON.parse(asked.at(-1)?.body ?? "").BearerToken, token);
    }
    rmSync(file);
    mkdirSync(file);
    await faulty(/it is not a file$/);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
