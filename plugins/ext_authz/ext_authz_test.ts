import assert from "node:assert/strict";
import { test } from "node:test";
import {
  hold,
  mount,
  type Mounted,
  ok,
  reset,
  settle,
  status,
  type Step,
  unreachable,
} from "../../src/kit/mod.ts";
import extAuthz from "./ext_authz.ts";

const SERVICE = { target: "authz" };

/** A plugin whose service answers each check by `steps`. */
function asking(
  steps: readonly Step[],
  httpService: Readonly<Record<string, unknown>> = {},
  config: Readonly<Record<string, unknown>> = {},
): Promise<Mounted> {
  return mount(extAuthz, {
    config: { httpService: { ...SERVICE, ...httpService }, ...config },
    callees: { authz: steps },
    upstream: [(request) => ok(`got ${request.body}`)],
  });
}

const seenBy = (it: Mounted) => it.callees["authz"]?.requests ?? [];

test("ext_authz sends method, path and host, by default only the authorization header, and no body", async () => {
  await using it = await asking([status(200)], { pathPrefix: "/check" });
  const { body } = await it.request({
    method: "PUT",
    path: "/a/b?c",
    authority: "db.example",
    body: "secret",
    headers: { authorization: "Bearer x", "x-other": "y", cookie: "z" },
  });
  assert.equal(body, "got secret");
  const [check] = seenBy(it);
  assert.deepEqual([check?.method, check?.path, check?.authority, check?.body], [
    "PUT",
    "/check/a/b?c",
    "db.example",
    "",
  ]);
  const headers = ["authorization", "x-other", "cookie"].map((name) => check?.header(name));
  assert.deepEqual(headers, ["Bearer x", undefined, undefined]);
});

test("ext_authz sends all fields of the allowed headers, and configured headers of its own", async () => {
  await using it = await asking([status(200)], {
    authorizationRequest: {
      allowedHeaders: [
        { exact: "Cookie", ignoreCase: true },
        { prefix: "x-a-" },
        { suffix: "-b" },
        { contains: "mid" },
        { safeRegex: "y-[0-9]" },
      ],
      headersToAdd: { "x-a-own": "proxy" },
    },
  });
  const names = ["cookie", "x-a-1", "one-b", "amidst", "y-1", "y-11", "other", "x-a-own", "te"];
  const headers = Object.fromEntries(names.map((name) => [name, ["1", "2"]]));
  await it.request({ headers: { ...headers, te: "trailers" } });
  const [check] = seenBy(it);
  const seen = names.map((name) => check?.headers(name).join());
  assert.deepEqual(seen, ["1,2", "1,2", "1,2", "1,2", "1,2", "", "", "proxy", ""]);
});

test("ext_authz applies the allowed headers of the answer to an allowed request", async () => {
  const answer = status(200, {
    "x-user": "ada",
    "x-role": "admin",
    "x-other": "no",
    "x-reply": "hello",
    "x-envoy-auth-headers-to-remove": "x-secret, :path, host, no-such",
  });
  await using it = await asking([answer], {
    authorizationResponse: {
      allowedUpstreamHeaders: [{ exact: "x-user" }],
      allowedUpstreamHeadersToAppend: [{ exact: "x-role" }],
      allowedClientHeadersOnSuccess: [{ prefix: "x-re" }],
    },
  });
  const { headers } = await it.request({
    headers: { "x-role": "guest", "x-secret": "1", "x-kept": "2" },
  });
  assert.deepEqual(headers.all("x-reply"), ["hello"]);
  const [seen] = it.upstream.requests;
  const names = ["x-user", "x-role", "x-secret", "x-kept", "x-other"];
  assert.deepEqual(names.map((name) => seen?.headers(name).join()), [
    "ada",
    "guest,admin",
    "",
    "2",
    "",
  ]);
});

test("ext_authz removes headers of the caller that only the service may set", async () => {
  await using it = await asking([status(200), status(503)], {
    authorizationResponse: {
      allowedUpstreamHeaders: [{ exact: "X-User", ignoreCase: true }, { exact: "authorization" }],
    },
  }, { ownHeaders: ["x-groups"], failureModeAllow: true });
  const headers = {
    "x-user": "root",
    "x_user": "root",
    "X-Groups": "wheel",
    "x-groups_": "kept",
    authorization: "Bearer x",
  };
  // Also if the answer does not set them.
  for (let i = 0; i < 2; i++) await it.request({ headers });
  const names = ["x-user", "x_user", "x-groups", "x-groups_", "authorization"];
  const seen = it.upstream.requests.map((request) => names.map((name) => request.header(name)));
  const wanted = [undefined, undefined, undefined, "kept", "Bearer x"];
  assert.deepEqual(seen, [wanted, wanted]);
});

for (
  const [what, answer, allowed, wanted] of [
    ["all headers of the answer", { "x-why": "so", location: "/login" }, [], ["so", "/login"]],
    ["allowed headers and those that always are", { "x-why": "so", location: "/login" }, [{
      exact: "x-no",
    }], [undefined, "/login"]],
  ] as const
) {
  test(`ext_authz sends a denied caller ${what}`, async () => {
    await using it = await asking([status(302, { ...answer, "www-authenticate": "Basic" }, "no")], {
      authorizationResponse: { allowedClientHeaders: allowed },
    });
    const { status: code, headers, body } = await it.request();
    assert.deepEqual([code, body, headers.get("www-authenticate")], [302, "no", "Basic"]);
    assert.deepEqual([headers.get("x-why"), headers.get("location")], wanted);
    assert.equal(it.upstream.requests.length, 0);
  });
}

test("ext_authz denies a gRPC request with a gRPC status", async () => {
  await using it = await asking([status(401, { "x-why": "so" }, "no ü 100%")]);
  const { status: code, headers, body } = await it.request({
    headers: { "content-type": "application/grpc+proto" },
  });
  assert.deepEqual([code, body, headers.get("content-type")], [200, "", "application/grpc"]);
  const said = ["grpc-status", "grpc-message", "x-why"].map((name) => headers.get(name));
  assert.deepEqual(said, ["16", "no %C3%BC 100%25", "so"]);
});

const FAULTS: Readonly<Record<string, Step>> = {
  "answers 503": status(503, {}, "down"),
  "breaks the connection": reset(),
  "is not there": unreachable(),
  "never answers": hold(),
  "answers without end": ok("x".repeat(40_000), "x".repeat(40_000)),
};

for (const [what, step] of Object.entries(FAULTS)) {
  test(`ext_authz denies a request if the service ${what}`, async () => {
    await using it = await asking([step], {}, { statusOnError: 500 });
    const pending = it.request();
    await settle();
    await it.clock.advance(200);
    const { status: code, body } = await pending;
    assert.deepEqual([code, body, it.upstream.requests.length], [500, "", 0]);
    const result = what === "never answers" ? "timeout" : "error";
    assert.equal(it.stat("requests", { result }), 1);
  });

  test(`ext_authz with failureModeAllow lets a request pass if the service ${what}`, async () => {
    await using it = await asking([step], {}, { failureModeAllow: true });
    const pending = it.request();
    await settle();
    await it.clock.advance(200);
    assert.equal((await pending).status, 200);
    assert.equal(it.stat("failure_mode_allowed"), 1);
  });
}

test("ext_authz with failureModeAllow denies on invalid answers and requests that cannot be sent", async () => {
  const config = { failureModeAllow: true };
  const allowedUpstreamHeaders = [{ prefix: "content-length" }];
  const service = { authorizationResponse: { allowedUpstreamHeaders } };
  await using it = await asking([status(200, { "content-length": "9" })], service, config);
  assert.equal((await it.request()).status, 403);
  assert.equal((await it.request({ method: "OPTIONS", path: "*" })).status, 403);
  assert.equal(it.upstream.requests.length, 0);
  // Callers cannot make the plugin count as broken.
  for (let i = 0; i < 10; i++) await it.request({ path: "*" });
  assert.equal((await it.request()).failure, null);
});

for (
  const [what, config, body, wanted] of [
    ["all", {}, ["ab", "cd"], ["abcd", "false", 200, "got abcd"]],
    ["none", {}, [], ["", undefined, 200, "got "]],
    ["nothing, since it is too long,", {}, ["ab", "cde"], [undefined, undefined, 413, ""]],
    ["the beginning", { allowPartialMessage: true }, ["ab", "cde", "fg"], [
      "abcd",
      "true",
      200,
      "got abcdefg",
    ]],
  ] as const
) {
  test(`ext_authz shows ${what} of a body to the service`, async () => {
    const withRequestBody = { maxRequestBytes: 4, ...config };
    await using it = await asking([status(200)], {}, { withRequestBody });
    const answer = await it.request({
      method: "POST",
      body,
      headers: { "x-envoy-auth-partial-body": "spoofed" },
    });
    const [check] = seenBy(it);
    const partial = check?.header("x-envoy-auth-partial-body");
    assert.deepEqual([check?.body, partial, answer.status, answer.body], wanted);
  });
}

test("ext_authz limits its wait for a body; callers that leave do not count as failures", async () => {
  const withRequestBody = { maxRequestBytes: 4 };
  await using it = await asking([status(200)], {}, { withRequestBody });
  for (let i = 0; i < 6; i++) {
    const leaving = new AbortController();
    const pending = it.request({ method: "POST", body: ["a"], signal: leaving.signal });
    leaving.abort();
    await pending;
  }
  const { failure, status: code } = await it.request({ method: "POST", body: ["abc"] });
  assert.deepEqual([failure, code], [null, 200]);
  assert.deepEqual(it.logs.filter(({ level }) => level === "warn"), []);
});

test("ext_authz ends its check when the caller leaves", async () => {
  await using it = await asking([hold()]);
  const leaving = new AbortController();
  const pending = it.request({ signal: leaving.signal });
  await settle();
  leaving.abort();
  await pending;
  await settle();
  assert.equal(seenBy(it)[0]?.isGivenUp, true);
  assert.equal(it.stat("requests"), 0);
});

for (
  const [what, config, wanted] of [
    ["no service", {}, /one of httpService and grpcService/],
    ["two services", { httpService: SERVICE, grpcService: SERVICE }, /one of/],
    ["an unknown service", { httpService: { target: "no" } }, /Cannot ask "no"/],
    ["a header that no plugin may write", { httpService: SERVICE, ownHeaders: ["te"] }, /"te"/],
    [
      "an invalid expression",
      {
        httpService: {
          ...SERVICE,
          authorizationRequest: { allowedHeaders: [{ safeRegex: "(" }] },
        },
      },
      /\(/,
    ],
    ["a timeout above the limit", { httpService: { ...SERVICE, timeoutMs: 9_000 } }, /timeoutMs/],
  ] as const
) {
  test(`ext_authz refuses ${what}`, async () => {
    await assert.rejects(mount(extAuthz, { config, callees: { authz: [] } }), wanted);
  });
}
