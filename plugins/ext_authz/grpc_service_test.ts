import assert from "node:assert/strict";
import { test } from "node:test";
import { mount, type Mounted, ok, status, type Step } from "../../src/kit/mod.ts";
import type { PlainMessage } from "../../src/wire/mod.ts";
import { CHECK_MESSAGES } from "../../test/kit/peers/ext_authz.ts";
import extAuthz from "./ext_authz.ts";

const OK_TYPE = { "content-type": "application/grpc", "grpc-status": "0" };

function framed(bytes: Uint8Array, flag = 0): Uint8Array {
  return Uint8Array.from([flag, 0, 0, bytes.length >> 8, bytes.length & 255, ...bytes]);
}

function answer(message: PlainMessage): Step {
  return status(200, OK_TYPE, framed(CHECK_MESSAGES.encode("CheckResponse", message)));
}

function asking(
  steps: readonly Step[],
  config: Readonly<Record<string, unknown>> = {},
): Promise<Mounted> {
  return mount(extAuthz, {
    config: {
      grpcService: { target: "authz", initialMetadata: { "X-Tenant": "blue" } },
      ...config,
    },
    callees: { authz: steps },
    upstream: [(request) => ok(`got ${request.body}`)],
  });
}

function option(key: string, value: string, more: PlainMessage = {}): PlainMessage {
  return { header: { key, value }, ...more };
}

function messageOf(it: Mounted): PlainMessage {
  const [seen] = it.callees["authz"]?.requests ?? [];
  const all = Uint8Array.from(seen?.chunks.flatMap((chunk) => [...chunk]) ?? []);
  assert.deepEqual([...all.subarray(0, 3)], [0, 0, 0]);
  assert.equal(all[3] as number * 256 + (all[4] as number), all.length - 5);
  return CHECK_MESSAGES.decode("CheckRequest", all.subarray(5));
}

test("ext_authz sends a complete CheckRequest by gRPC", async () => {
  const withRequestBody = { maxRequestBytes: 100 };
  await using it = await asking([answer({ status: {} })], { withRequestBody });
  const { body } = await it.request({
    method: "PUT",
    path: "/a?b",
    authority: "db.example",
    body: "hé",
    headers: {
      "x-request-id": "id-1",
      "x-two": ["1", "2"],
      cookie: ["a=1", "b=2"],
      "x-bytes": "\xff",
      "x-utf8": "\xc3\xbc",
    },
  });
  assert.equal(body, "got hé");
  const [seen] = it.callees["authz"]?.requests ?? [];
  assert.equal(seen?.path, "/envoy.service.auth.v3.Authorization/Check");
  const named = ["content-type", "te", "grpc-timeout", "x-tenant"].map((name) =>
    seen?.header(name)
  );
  assert.deepEqual(named, ["application/grpc", "trailers", "200m", "blue"]);
  const { attributes } = messageOf(it) as { attributes: Record<string, PlainMessage> };
  const uri = "spiffe://11111111-2222-3333-4444-555555555555.consul/ns/default/dc/dc1/svc/web";
  assert.deepEqual(attributes["source"], {
    address: { socketAddress: { address: "10.0.1.1", portValue: 40_000 } },
    principal: uri,
  });
  assert.deepEqual(attributes["destination"], { principal: uri.replace(/web$/, "db") });
  const { http, time } = attributes["request"] as Record<string, PlainMessage>;
  assert.equal(Math.abs(Number(time?.["seconds"]) * 1_000 - it.clock.now()) < 1_000, true);
  assert.deepEqual(http, {
    id: "id-1",
    method: "PUT",
    path: "/a?b",
    host: "db.example",
    scheme: "http",
    size: 3,
    body: "hé",
    headers: {
      ":method": "PUT",
      ":path": "/a?b",
      ":authority": "db.example",
      ":scheme": "http",
      "x-request-id": "id-1",
      "x-two": "1,2",
      cookie: "a=1,b=2",
      "x-bytes": "!",
      "x-utf8": "ü",
      "x-envoy-auth-partial-body": "false",
    },
  });
});

test("ext_authz sends a body as bytes with packAsBytes, otherwise as valid UTF-8", async () => {
  for (const packAsBytes of [true, false]) {
    const withRequestBody = { maxRequestBytes: 100, packAsBytes };
    await using it = await asking([answer({})], { withRequestBody });
    await it.request({ method: "POST", body: Uint8Array.of(0x61, 0xff) });
    const { attributes } = messageOf(it) as { attributes: { request: { http: PlainMessage } } };
    const { body, rawBody } = attributes.request.http;
    const wanted = packAsBytes ? [undefined, Uint8Array.of(0x61, 0xff)] : ["a!", undefined];
    assert.deepEqual([body, rawBody], wanted);
  }
});

test("ext_authz applies each header of an OkHttpResponse by its append action", async () => {
  const flag = (value: boolean) => ({ append: { value } });
  await using it = await asking([answer({
    status: {},
    ok: {
      headers: [
        option("X-Set", "new"),
        option("x-append", "2", flag(true)),
        option("x-append-none", "2", flag(true)),
        option("x-not-append", "2", flag(false)),
        option("x-absent", "2", { appendAction: 1 }),
        option("x-absent-none", "2", { appendAction: 1 }),
        option("x-overwrite", "2", { appendAction: 3 }),
        option("x-overwrite-none", "2", { appendAction: 3 }),
      ],
      headersToRemove: ["X-Gone", ":path", "host"],
      responseHeadersToAdd: [
        option("x-added", "1"),
        option("x-added", "2"),
        option("x-set-once", "1", flag(false)),
        option("x-set-once", "2", flag(false)),
      ],
    },
  })]);
  const names = ["x-set", "x-append", "x-append-none", "x-not-append", "x-absent", "x-overwrite"];
  const there = ["x-set", "x-append", "x-not-append", "x-absent", "x-overwrite", "x-gone"];
  const { headers } = await it.request({
    headers: Object.fromEntries(there.map((name) => [name, "1"])),
  });
  const [seen] = it.upstream.requests;
  const all = [...names, "x-absent-none", "x-overwrite-none", "x-gone"];
  assert.deepEqual(all.map((name) => seen?.headers(name).join()), [
    "new",
    "1,2",
    "",
    "2",
    "1",
    "2",
    "2",
    "",
    "",
  ]);
  assert.deepEqual([headers.all("x-added"), headers.all("x-set-once")], [["1", "2"], ["2"]]);
});

test("ext_authz sends the response of a DeniedHttpResponse, by default 403", async () => {
  const denied = {
    status: { code: 429 },
    headers: [option("x-why", "so"), option("content-length", "9"), option(":status", "200")],
    body: "slow",
  };
  const code = { status: { code: 7 } };
  await using it = await asking([answer({ ...code, denied }), answer(code)]);
  const { status, headers, body } = await it.request();
  assert.deepEqual([status, headers.get("x-why"), body], [429, "so", "slow"]);
  assert.deepEqual([...headers].map(([name]) => name), ["x-why", "content-type"]);
  const other = await it.request();
  assert.deepEqual([other.status, other.body, [...other.headers]], [403, "", []]);
  assert.equal(it.upstream.requests.length, 0);
});

const MESSAGE = CHECK_MESSAGES.encode("CheckResponse", { status: {} });
/** Fields after a denying status that must not turn it into an allowing one. */
for (
  const [what, ...more] of [
    ["a number in place of a status", 0x08, 7],
    ["an empty status", 0x0a, 0],
    ["a status with a message alone", 0x0a, 3, 0x12, 1, 0x61],
    ["a text in place of the code", 0x0a, 3, 0x0a, 1, 0],
  ] as const
) {
  test(`ext_authz denies if a denying status is followed by ${what}`, async () => {
    await using it = await asking([
      status(200, OK_TYPE, framed(Uint8Array.of(0x0a, 2, 0x08, 7, ...more))),
    ]);
    assert.equal((await it.request()).status, 403);
    assert.equal(it.stat("requests", { result: "denied" }), 1);
  });
}

const GARBAGE: Readonly<Record<string, readonly [step: Step, open: number]>> = {
  "a page": [status(200, { "content-type": "text/html" }, "welcome"), 200],
  "another status": [status(404, OK_TYPE, framed(MESSAGE)), 200],
  "a gRPC status": [status(200, { ...OK_TYPE, "grpc-status": "14" }, framed(MESSAGE)), 200],
  "no gRPC status": [status(200, { "content-type": "application/grpc" }, framed(MESSAGE)), 200],
  "no message": [status(200, OK_TYPE), 200],
  "two messages": [status(200, OK_TYPE, framed(MESSAGE), framed(MESSAGE)), 200],
  "a compressed message": [status(200, OK_TYPE, framed(MESSAGE, 1)), 200],
  "an invalid message": [status(200, OK_TYPE, framed(Uint8Array.of(0x0a, 9, 1))), 200],
  "a header of two lines": [answer({ ok: { headers: [option("x", "a\r\nb: c")] } }), 403],
  "another path": [answer({ ok: { headers: [option(":path", "/admin")] } }), 403],
  "another host": [answer({ ok: { headers: [option("host", "other")] } }), 403],
  "another query": [
    answer({ ok: { queryParametersToSet: [{ key: "a", value: "b" }] } }),
    403,
  ],
  "an invalid response header": [
    answer({ ok: { responseHeadersToAdd: [option("x y", "1", { append: { value: true } })] } }),
    403,
  ],
  "an invalid status": [
    answer({ status: { code: 7 }, denied: { status: { code: 99 } } }),
    403,
  ],
};

for (const [what, [step, open]] of Object.entries(GARBAGE)) {
  test(`ext_authz denies if the answer is or has ${what}`, async () => {
    await using it = await asking([step]);
    assert.equal((await it.request()).status, 403);
    assert.equal(it.upstream.requests.length, 0);
    assert.equal(it.stat("requests", { result: "error" }), 1);
  });

  test(`ext_authz with failureModeAllow answers ${open} if the answer is or has ${what}`, async () => {
    await using it = await asking([step], { failureModeAllow: true });
    assert.equal((await it.request()).status, open);
  });
}
