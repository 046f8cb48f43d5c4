import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { mount, type RequestInit } from "../../src/kit/mod.ts";
import apiKey from "./api_key.ts";

const sha256 = (key: string) => createHash("sha256").update(key).digest("hex");
const credentials = [
  { client: "billing", keySha256: sha256("key of billing") },
  { client: "billing", keySha256: sha256("the next key of billing").toUpperCase() },
  { client: "crawler", keySha256: sha256("a/b+c=") },
];
const keySources = [{ header: "X-Api-Key" }, { query: "api_key" }, { cookie: "key" }];
const forwarding = { header: "X-Client", hideCredentials: true };
const KEY = "key of billing";

const inHeader = (...values: string[]): RequestInit => ({ headers: { "x-api-key": values } });
const inQuery = (query: string): RequestInit => ({ path: `/a?${query}` });
const inCookie = (...cookie: string[]): RequestInit => ({ headers: { cookie } });

for (
  const [what, request, client, path = "/", cookie = undefined] of [
    ["a header", inHeader(KEY), "billing"],
    ["a header in another case", { headers: { "X-API-KEY": KEY } }, "billing"],
    ["another key of the client", inHeader("the next key of billing"), "billing"],
    ["a header with Bearer", inHeader(`Bearer ${KEY}`), "billing"],
    ["a parameter", inQuery("b&api_key=a%2Fb%2Bc%3D&c=1"), "crawler", "/a?b&c=1"],
    ["a parameter whose name is encoded", inQuery("api%5Fkey=key+of+billing"), "billing", "/a"],
    ["a cookie", inCookie("b=1; key=a/b+c=; c=2"), "crawler", "/", "b=1; c=2"],
    [
      "the first place, where others have none",
      {
        path: "/a?api_key=",
        headers: { "x-api-key": "", cookie: `key=${KEY}` },
      },
      "billing",
      "/a",
    ],
    ["no key", {}, undefined],
    ["an empty key", inHeader(""), undefined],
    ["an unknown key", inHeader("key of nobody"), undefined],
    ["a key in another case", inHeader(KEY.toUpperCase()), undefined],
    ["the digest of a key", inHeader(sha256(KEY)), undefined],
    ["an oversized key", inHeader("x".repeat(2_000)), undefined],
    ["two headers", inHeader(KEY, KEY), undefined],
    ["two headers, one of which is unknown", inHeader("key of nobody", KEY), undefined],
    ["two keys in one header", inHeader(`${KEY}, ${KEY}`), undefined],
    ["two parameters", inQuery("api_key=a/b%2Bc=&api%5Fkey=1"), undefined],
    ["two cookies", inCookie("key=a/b+c=", "key=1"), undefined],
    ["a parameter in another case", inQuery("API_KEY=key+of+billing"), undefined],
    ["a key behind a fragment", inQuery("b#api_key=key+of+billing"), undefined],
    ["an unknown key before a known one elsewhere", {
      path: "/?api_key=key+of+billing",
      headers: { "x-api-key": "key of nobody" },
    }, undefined],
  ] as readonly (readonly [string, RequestInit, string | undefined, string?, string?])[]
) {
  test(`api_key of ${what}: ${client ?? "401"}`, async () => {
    await using it = await mount(apiKey, { config: { credentials, keySources, forwarding } });
    const headers = { "x-client": "root", "X_Client": "root", ...request.headers };
    const { status, headers: answered, failure } = await it.request({ ...request, headers });
    const [seen] = it.upstream.requests;
    if (client === undefined) {
      assert.deepEqual([status, seen, failure], [401, undefined, {
        code: "unauthenticated",
        reason: "Client authentication failed.",
      }]);
      const [base] = (request.path ?? "/").split("?");
      assert.equal(answered.get("www-authenticate"), `ApiKey realm="http://db${base}"`);
      assert.equal(it.stat("requests", { result: "unauthorized" }), 1);
      return;
    }
    assert.equal(status, 200);
    assert.deepEqual([seen?.headers("x-client"), seen?.headers("x_client")], [[client], []]);
    assert.deepEqual(
      [seen?.path, seen?.header("x-api-key"), seen?.header("cookie")?.replace(/^key=.*/, "")],
      [path, undefined, cookie],
    );
    assert.equal(it.stat("requests", { result: "allowed" }), 1);
    assert.doesNotMatch(JSON.stringify(it.logs), /key of/);
  });
}

test("api_key passes keys on unless they are to be hidden", async () => {
  const sources = [{ header: "authorization" }];
  await using it = await mount(apiKey, { config: { credentials, keySources: sources } });
  const authorization = `Bearer ${KEY}`;
  assert.equal((await it.request({ headers: { authorization } })).status, 200);
  assert.equal(it.upstream.requests[0]?.header("authorization"), authorization);
  const refused = await it.request();
  assert.match(refused.headers.get("www-authenticate") ?? "", /^Bearer realm="/);
});

test("api_key of a route admits the listed clients", async () => {
  const routeConfig = { allowedClients: ["crawler"] };
  await using it = await mount(apiKey, { config: { credentials }, routeConfig });
  const statuses = [];
  for (const key of ["a/b+c=", KEY, "key of nobody"]) {
    statuses.push((await it.request(inHeader(key))).status);
  }
  assert.deepEqual(statuses, [200, 403, 401]);
  assert.equal(it.upstream.requests.length, 1);
  assert.equal(it.stat("requests", { result: "forbidden" }), 1);
});

test("api_key follows a file of keys, and keeps the last good ones", async () => {
  const credentialsFile = "/etc/keys";
  const config = { credentialsFile };
  await assert.rejects(mount(apiKey, { config }), /Cannot use \/etc\/keys/);
  const files = { [credentialsFile]: `# keys\nbilling:${sha256(KEY)}\n` };
  await using it = await mount(apiKey, { config, files });
  const statuses = [(await it.request(inHeader(KEY))).status];
  const other = `crawler:${sha256("a/b+c=")}\n`;
  for (const text of ["billing:secret of billing", `${other}a${other.slice(7)}`, other, ""]) {
    it.write(credentialsFile, text);
    await it.clock.advance(2_000);
    statuses.push((await it.request(inHeader(KEY))).status);
  }
  assert.deepEqual(statuses, [200, 200, 200, 401, 401]);
  const shown = JSON.stringify(it.logs);
  assert.match(shown, /line 1: want CLIENT:SHA256.*line 2: another client has the same key/);
  assert.doesNotMatch(shown, /secret of/);
});

for (
  const [config, reason] of [
    [{}, /want either credentials or credentialsFile/],
    [{ credentials: [] }, /config\.credentials/],
    [{ credentials: [{ client: "a", key: "b" }] }, /credentials\[0\]\.keySha256/],
    [{ credentials: [{ client: "a", keySha256: "b" }] }, /is no SHA-256 in hexadecimal/],
    [{ credentials: [{ client: "a b", keySha256: sha256("b") }] }, /is no name of a client/],
    [{ credentials: [credentials[0], credentials[0]] }, /two clients have the same key/],
    [{ credentials, keySources: [{ header: "a", query: "b" }] }, /keySources\[0\]/],
    [{ credentials, forwarding: { header: "X-API-Key" } }, /is a source of keys as well/],
  ] as const
) {
  test(`api_key refuses a configuration: ${reason.source}`, async () => {
    await assert.rejects(mount(apiKey, { config }), ({ message }: Error) => {
      assert.doesNotMatch(message, /"b"/);
      return reason.test(message);
    });
  });
}
