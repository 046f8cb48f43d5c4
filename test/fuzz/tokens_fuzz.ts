/** Tokens of callers: any text is read or refused in words, and nothing that was refused has claims. */

import assert from "node:assert/strict";
import { Locations } from "../../plugins/jwt_auth/locations.ts";
import { readToken, whyRefused } from "../../plugins/jwt_auth/token.ts";
import { PluginRequest } from "../../src/plugin/mod.ts";
import { rawToken } from "../kit/certs/tokens.ts";
import type { FuzzTarget } from "./fuzz.ts";

const ALGORITHMS = /^(?:(?:RS|PS|ES)(?:256|384|512)|EdDSA|Ed25519)$/;
const TERMS = { issuer: "a", audiences: ["b"], clockSkewSeconds: 30 };
const LOCATIONS = new Locations([
  { header: { name: "authorization", valuePrefix: "Bearer ", forward: false } },
  { queryParam: { name: "t" } },
  { cookie: { name: "t" } },
]);
const GOOD = { iss: "a", aud: ["b"], exp: 2_000, nbf: 1_000 };
const encode = (text: string) => new TextEncoder().encode(text);

export const target: FuzzTarget = {
  name: "tokens",
  corpus: [
    encode(rawToken({ alg: "ES256", kid: "one" }, GOOD)),
    encode(rawToken({ alg: "none" }, GOOD)),
    encode(rawToken({ alg: "HS256" }, { iss: "a", sub: "b" })),
    encode(rawToken({ alg: "RS256", crit: ["b64"] }, { iss: 1, exp: -1, aud: "b" })),
  ],
  dictionary: [".", "=", "%2e", "&t=", ";t=", "Bearer ", "eyJ", "__proto__", "e30", ","],
  run(input) {
    const text = new TextDecoder("latin1").decode(input);
    const token = readToken(text);
    if (typeof token === "string") assert.ok(token.length > 0);
    else {
      assert.match(token.algorithm, ALGORITHMS);
      assert.equal(text.split(".").length, 3);
      const why = whyRefused(token.claims, TERMS, 1_500_000);
      if (why === undefined) assert.equal(token.claims["iss"], "a");
    }
    // Other bytes in a path were refused before.
    const visible = text.replace(/[^\x21-\x7e]|#/g, "");
    const request = new PluginRequest({
      method: "GET",
      scheme: "https",
      authority: "db",
      upgrade: "",
      length: 0,
      saysLength: false,
      expectsContinue: false,
      version: "HTTP/1.1",
      path: `/?a=b&t=${visible}`,
      fields: [
        "authorization",
        `Bearer ${visible}`,
        "authorization",
        "cookie",
        `a=b; t=${visible}`,
        "cookie",
      ],
    }, null);
    assert.ok(LOCATIONS.tokensOf(request).length >= 3);
    // A verified token is removed from the request, all of it.
    const left = LOCATIONS.without(request);
    assert.equal(left.headers.get("authorization"), undefined);
    assert.ok(!new URL(left.path, "http://db").searchParams.has("t"));
  },
};
