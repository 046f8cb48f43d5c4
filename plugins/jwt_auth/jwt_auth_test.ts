import assert from "node:assert/strict";
import { test } from "node:test";
import type { SeenRequest } from "../../src/kit/mod.ts";
import {
  bearer,
  mountJwtAuth,
  providerOf,
  type TokenRequest,
} from "../../test/kit/plugins/jwt_auth.ts";
import { ISSUER, makeIssuer } from "../../test/kit/certs/tokens.ts";

const one = await makeIssuer("one");
const good = await one.sign();
const bad = await (await makeIssuer("one")).sign();
const FORMAT = "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections";
const ANY = { any: [{ provider: "okta" }] };
const plain = await mountJwtAuth({ providers: { okta: providerOf(one) }, require: ANY });

const NAMES = ["a", "authorization", "cookie", "x-token", "x-jwt"];

function seen(sent: SeenRequest | undefined): string[] | undefined {
  return sent && [
    sent.path,
    ...NAMES.flatMap((name) => sent.headers(name).map((value) => `${name}: ${value}`)),
  ];
}

const everywhere = await mountJwtAuth({
  providers: {
    okta: providerOf(one, {
      locations: [
        { header: { name: "X-Token", forward: true } },
        { header: { name: "Authorization", valuePrefix: "Bearer " } },
        { queryParam: { name: "tok" } },
        { cookie: { name: "sess" } },
      ],
      forwarding: { headerName: "X-Jwt", padForwardPayloadHeader: true },
    }),
  },
  require: ANY,
});

for (
  const [what, ask, status, left] of [
    ["the default header", { headers: { ...bearer(good), a: "b" } }, 200, ["/", "a: b"]],
    ["the scheme in lower case", { headers: { authorization: `bearer ${good}` } }, 200, ["/"]],
    ["another scheme", { headers: { authorization: `Basic ${good}` } }, 401],
    ["the default parameter", { path: `/a?b=c&access_token=${good}&d` }, 200, ["/a?b=c&d"]],
    ["nothing but the parameter", { path: `/a?access_token=${good}` }, 200, ["/a"]],
    ["a parameter with an encoded name", { path: `/?access%5Ftoken=${good}` }, 200, ["/"]],
    ["a good and a bad field", { headers: bearer(good, bad) }, 401],
    ["a bad and a good field", { headers: bearer(bad, good) }, 401],
    ["two good fields", { headers: bearer(good, good) }, 401],
    ["two tokens in one field", { headers: bearer(`${good}, Bearer ${good}`) }, 401],
    ["a good field and a bad parameter", {
      path: `/?access_token=${bad}`,
      headers: bearer(good),
    }, 401],
    ["a good and a bad parameter", { path: `/?access_token=${good}&access_token=${bad}` }, 401],
    ["more tokens than the limit", { path: `/?${`&access_token=${good}`.repeat(5)}` }, 401],
    [
      "a good token at both places",
      { path: `/?access_token=${good}`, headers: bearer(good) },
      200,
      ["/"],
    ],
  ] as readonly (readonly [string, TokenRequest, number, (readonly string[])?])[]
) {
  test(`jwt_auth answers ${status} with a token in ${what}`, async () => {
    const { status: got, sent } = await plain.ask(ask);
    assert.equal(got, status);
    assert.deepEqual(
      seen(sent),
      left,
    );
  });
}

const [, payload = ""] = good.split(".");
const padded = payload + "=".repeat((4 - payload.length % 4) % 4);

for (
  const [what, ask, left] of [
    ["keeps a header with forward", { headers: { "x-token": good } }, [
      "/",
      `x-token: ${good}`,
    ]],
    ["removes a header without forward", { headers: bearer(good) }, ["/"]],
    ["removes a parameter", { path: `/?tok=${good}` }, ["/"]],
    ["keeps cookies", { headers: { cookie: `a=b; sess="${good}"` } }, [
      "/",
      `cookie: a=b; sess="${good}"`,
    ]],
    ["removes a payload header of the caller", {
      path: `/?tok=${good}`,
      headers: { "X-JWT": "mine" },
    }, [
      "/",
    ]],
  ] as readonly (readonly [string, TokenRequest, readonly string[]])[]
) {
  test(`jwt_auth ${what}`, async () => {
    const { sent } = await everywhere.ask(ask);
    assert.deepEqual(
      seen(sent),
      [...left, `x-jwt: ${padded}`],
    );
  });
}

test("jwt_auth sends a challenge, with an error for an invalid token", async () => {
  const { challenge } = await plain.ask({ path: '/a"b?access_token=' });
  assert.equal(challenge, 'Bearer realm="http://db/ab", error="invalid_token"');
  assert.equal((await plain.ask({ path: "/a" })).challenge, 'Bearer realm="http://db/a"');
});

for (
  const [what, claims, status] of [
    ["text", { role: { name: "admin" } }, 200],
    ["other text", { role: { name: "Admin" } }, 403],
    ["a list that contains it", { role: { name: ["a", "admin"] } }, 200],
    ["a list in a list", { role: { name: [["admin"]] } }, 403],
    ["behind a list", { role: [{ name: "admin" }] }, 403],
    ["an object", { role: { name: { admin: true } } }, 403],
    ["nothing", {}, 403],
    ["behind a text", { role: "admin" }, 403],
  ] as const
) {
  test(`jwt_auth answers ${status} if a claim is ${what}`, async () => {
    const verifyClaims = [{ path: ["role", "name"], value: "admin" }];
    await using mounted = await mountJwtAuth({
      providers: { okta: providerOf(one) },
      require: { any: [{ provider: "okta", verifyClaims }] },
    });
    const result = await mounted.ask({ headers: bearer(await one.sign(claims)) });
    assert.equal(result.status, status);
    const seen = status === 200 ? [["okta", { iss: ISSUER, ...claims }]] : undefined;
    assert.deepEqual(result.claims && [...result.claims], seen);
  });
}

for (
  const [what, aud, status] of [
    ["the one", "api", 200],
    ["one of several", ["web", "api"], 200],
    ["another", "web", 403],
    ["none", undefined, 403],
    ["a list in a list", [["api"]], 403],
  ] as const
) {
  test(`jwt_auth answers ${status} if the audience is ${what}`, async () => {
    const okta = providerOf(one, { audiences: ["api", "app"] });
    await using mounted = await mountJwtAuth({ providers: { okta }, require: ANY });
    assert.equal((await mounted.ask({ headers: bearer(await one.sign({ aud })) })).status, status);
  });
}

const two = await makeIssuer("two");
const both = {
  okta: providerOf(one),
  corp: { ...providerOf(two), issuer: "https://corp", locations: [{ header: { name: "x-corp" } }] },
};
const corp = { "x-corp": await two.sign({ iss: "https://corp" }) };

for (
  const [how, headers, status, reason] of [
    ["any", bearer(good), 200],
    ["any", corp, 200],
    ["any", {}, 401, "Jwt is missing"],
    ["any", { "x-corp": good }, 401, "Jwt issuer is not configured"],
    ["any", { "x-corp": "a" }, 401, FORMAT],
    ["all", { ...bearer(good), ...corp }, 200],
    ["all", bearer(good), 401, "Jwt is missing"],
    ["all", { ...bearer(bad), ...corp }, 401, "Jwt verification fails"],
  ] as readonly (readonly [string, TokenRequest["headers"] & object, number, string?])[]
) {
  test(`jwt_auth with ${how} of two answers ${status} to ${Object.keys(headers)} (${reason})`, async () => {
    const needs = [{ provider: "okta" }, { provider: "corp" }];
    await using mounted = await mountJwtAuth({ providers: both, require: { [how]: needs } });
    const result = await mounted.ask({ headers });
    assert.deepEqual([result.status, result.reason], [status, reason]);
  });
}

test("jwt_auth removes the caller's payload header of a provider whose token was not verified", async () => {
  const okta = { ...both.okta, forwarding: { headerName: "x-jwt" } };
  await using mounted = await mountJwtAuth({
    providers: { ...both, okta },
    require: { any: [{ provider: "okta" }, { provider: "corp" }] },
  });
  const { sent } = await mounted.ask({ headers: { ...corp, "x-jwt": "mine" } });
  assert.deepEqual(seen(sent), ["/"]);
});

test("jwt_auth caches verified tokens only while they are valid, and up to a limit", async () => {
  const okta = providerOf(one, { clockSkewSeconds: 0, cacheConfig: { size: 1 } });
  await using mounted = await mountJwtAuth({ providers: { okta }, require: ANY });
  const short = bearer(await one.sign({ exp: mounted.plugin.clock.now() / 1_000 + 60 }));
  for (const token of [short, short, bearer(good), short]) {
    assert.equal((await mounted.ask({ headers: token })).status, 200);
  }
  await mounted.plugin.clock.advance(61_000);
  assert.equal((await mounted.ask({ headers: short })).reason, "Jwt is expired");
});

for (
  const [what, config, fault] of [
    [
      "a misspelled key",
      { providers: { okta: providerOf(one, { isuer: "a" }) }, require: ANY },
      /isuer/,
    ],
    ["an unknown provider", { providers: {}, require: ANY }, /there is no provider "okta"/],
    ["an empty requirement", { providers: {}, require: { any: [] } }, /require/],
    ["invalid keys", {
      providers: { okta: providerOf(one, { jsonWebKeySet: { local: { jwks: btoa("{}") } } }) },
      require: ANY,
    }, /providers\.okta\.jsonWebKeySet: JWKS: it has no list of keys/],
    ["deeply nested keys", {
      providers: {
        okta: providerOf(one, { jsonWebKeySet: { local: { jwks: btoa("[".repeat(100_000)) } } }),
      },
      require: ANY,
    }, /JWKS: it has too many lists and objects/],
    ["keys in a file named as if they were remote", {
      providers: { okta: providerOf(one, { jsonWebKeySet: { remote: { uri: "file:///etc/a" } } }) },
      require: ANY,
    }, /jsonWebKeySet/],
    ["a missing file", {
      providers: { okta: providerOf(one, { jsonWebKeySet: { local: { filename: "/no/a?b" } } }) },
      require: ANY,
    }, /providers\.okta\.jsonWebKeySet/],
  ] as const
) {
  test(`jwt_auth refuses ${what}`, async () => {
    await assert.rejects(mountJwtAuth(config), fault);
  });
}

for (
  const [what, token, claims, reached] of [
    ["without a token", undefined, [], ["/"]],
    ["with an invalid token", "a.b.c", [], ["/", "authorization: Bearer a.b.c"]],
    ["with a token of another issuer", bad, [], ["/", `authorization: Bearer ${bad}`]],
    ["with a good token", good, ["okta"], ["/", `x-jwt: ${good.split(".")[1]}`]],
  ] as const
) {
  test(`jwt_auth without a requirement admits a request ${what}, and passes on verified claims`, async () => {
    const local = { jwks: btoa("no key set") };
    await using optional = await mountJwtAuth({
      providers: {
        okta: providerOf(one, { forwarding: { headerName: "x-jwt" } }),
        // Tokens of that provider stay unverified; the other providers still work.
        broken: { issuer: ISSUER, jsonWebKeySet: { local }, forwarding: { headerName: "a" } },
      },
    });
    const forged = { a: "forged", "x-jwt": "forged" };
    const { status, claims: known, sent } = await optional.ask({
      headers: { ...forged, ...(token ? bearer(token) : {}) },
    });
    assert.deepEqual([status, [...known?.keys() ?? []], seen(sent)], [200, claims, reached]);
  });
}
