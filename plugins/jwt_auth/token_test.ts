import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { FakeClock } from "../../src/kit/mod.ts";
import { bearer, mountJwtAuth, providerOf } from "../../test/kit/plugins/jwt_auth.ts";
import { ISSUER, makeIssuer, rawToken } from "../../test/kit/certs/tokens.ts";

const NOW = new FakeClock().now() / 1_000;
const one = await makeIssuer("one");
const rsa = await makeIssuer("rsa", "RS256");
const stranger = await makeIssuer("one");

const MISSING = "Jwt is missing";
const FORMAT = "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections";
const NO_ALG = "Jwt header [alg] field is required and must be a string";
const ALG = "Jwt header [alg] is not supported";
const NO_KEY = "Jwks doesn't have key to match kid or alg from Jwt";
const FAILS = "Jwt verification fails";
const PAYLOAD = "Jwt payload is an invalid JSON";

const ANY = { any: [{ provider: "okta" }] };
const plain = await mountJwtAuth({ providers: { okta: providerOf(one) }, require: ANY });
const ofRsa = await mountJwtAuth({ providers: { okta: providerOf(rsa) }, require: ANY });

/** A token signed with the public key as a shared secret. */
function confused(secret: string): string {
  const text = rawToken({ alg: "HS256", kid: "rsa" }, { iss: ISSUER });
  const signed = text.slice(0, text.lastIndexOf("."));
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

const good = await one.sign();
const [goodHead = "", goodBody = "", goodSignature = ""] = good.split(".");
const changed = rawToken({ alg: "ES256", kid: "one" }, { iss: ISSUER, admin: true }, goodSignature);

for (
  const [what, ask, status, reason, on = plain] of [
    ["a good token", good, 200, undefined],
    ["no token", undefined, 401, MISSING],
    ["an empty token", "", 401, FORMAT],
    ["a token of two parts", "a.b", 401, FORMAT],
    ["a token of four parts", `${good}.a`, 401, FORMAT],
    ["a huge token", `${goodHead}.${"A".repeat(20_000)}.A`, 401, FORMAT],
    ["alg none", rawToken({ alg: "none" }, { iss: ISSUER }, ""), 401, FORMAT],
    ["alg none and a signature", rawToken({ alg: "none" }, { iss: ISSUER }), 401, ALG],
    ["alg None", rawToken({ alg: "None" }, { iss: ISSUER }), 401, ALG],
    ["no alg", rawToken({}, { iss: ISSUER }), 401, NO_ALG],
    ["a list of algs", rawToken({ alg: ["ES256"] }, { iss: ISSUER }), 401, NO_ALG],
    ["HS256 with the key as JSON", confused(JSON.stringify(rsa.jwk)), 401, NO_KEY, ofRsa],
    ["HS256 with the modulus", confused(String(rsa.jwk.n)), 401, NO_KEY, ofRsa],
    ["an algorithm of another key type", await rsa.sign({}, { kid: "one" }), 401, NO_KEY],
    [
      "another algorithm of that kind",
      rawToken({ alg: "PS256" }, { iss: ISSUER }),
      401,
      NO_KEY,
      ofRsa,
    ],
    ["another kid", await one.sign({}, { kid: "two" }), 401, NO_KEY],
    ["a kid that is a path", await one.sign({}, { kid: "../../dev/null" }), 401, NO_KEY],
    ["a kid of the prototype", await one.sign({}, { kid: "__proto__" }), 401, NO_KEY],
    [
      "a kid that is no text",
      rawToken({ alg: "ES256", kid: {} }, { iss: ISSUER }),
      401,
      "Jwt header [kid] field is not a string",
    ],
    ["no kid", await one.sign({}, { kid: undefined }), 200, undefined],
    ["a foreign key with the same kid", await stranger.sign(), 401, FAILS],
    ["its own key in the header", await stranger.sign({}, { jwk: stranger.jwk }), 401, FAILS],
    [
      "an address for its key",
      await stranger.sign({}, { jku: "https://evil.example/" }),
      401,
      FAILS,
    ],
    ["changed claims", changed, 401, FAILS],
    ["no signature", `${goodHead}.${goodBody}.`, 401, FORMAT],
    [
      "a signature that is too short",
      `${goodHead}.${goodBody}.${goodSignature.slice(0, -4)}`,
      401,
      FAILS,
    ],
    [
      "a signature in another encoding",
      `${goodHead}.${goodBody}.${goodSignature}==`,
      401,
      "Jwt signature is an invalid Base64url encoded",
    ],
    [
      "a critical extension",
      await one.sign({}, { crit: ["b64"], b64: true }),
      401,
      FAILS,
    ],
    ["a list as header", rawToken([], {}), 401, "Jwt header is an invalid JSON"],
    ["a list as claims", rawToken({ alg: "ES256" }, []), 401, PAYLOAD],
    ["deeply nested claims", rawToken({ alg: "ES256" }, "[".repeat(9_000)), 401, PAYLOAD],
    [
      "another issuer",
      await one.sign({ iss: "https://evil.example" }),
      401,
      "Jwt issuer is not configured",
    ],
    [
      "a list of issuers",
      await one.sign({ iss: [ISSUER] as never }),
      401,
      "Jwt payload [iss] field is not a string",
    ],
    ["a token that expired within the skew", await one.sign({ exp: NOW - 30 }), 200, undefined],
    [
      "a token that expired before the skew",
      await one.sign({ exp: NOW - 31 }),
      401,
      "Jwt is expired",
    ],
    ["a token that is valid within the skew", await one.sign({ nbf: NOW + 30 }), 200, undefined],
    [
      "a token that is valid after the skew",
      await one.sign({ nbf: NOW + 31 }),
      401,
      "Jwt not yet valid",
    ],
    [
      "a time that is text",
      rawToken({ alg: "ES256" }, { iss: ISSUER, exp: "9999999999" }),
      401,
      "Jwt payload [exp] field is not an integer",
    ],
    [
      "a time before all times",
      rawToken({ alg: "ES256" }, { iss: ISSUER, nbf: -1 }),
      401,
      "Jwt payload [nbf] field is not a positive 64 bit integer",
    ],
  ] as readonly (readonly [string, string | undefined, number, string | undefined, typeof plain?])[]
) {
  test(`jwt_auth answers ${status} to ${what}`, async () => {
    const headers = ask === undefined ? {} : bearer(ask);
    const result = await on.ask({ headers });
    assert.deepEqual([result.status, result.reason], [status, reason]);
    assert.equal(result.sent !== undefined, status === 200);
    // A second time, when the result may be cached.
    assert.equal((await on.ask({ headers })).status, status);
  });
}
