/** SPIFFE bundles: any text gives certificates by trust domain, or `credentials_invalid`. @module */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createAuthority } from "../kit/certs/authority.ts";
import { parseRoots, parseSpiffeBundles, parseTrustDomain } from "../../src/identity/mod.ts";
import { type FuzzTarget, refuses } from "./fuzz.ts";

const ca = createAuthority({ trustDomain: "fuzz.consul", nowMs: Date.UTC(2026, 10, 21, 12) });
const x5c = [Buffer.from(ca.rootDer).toString("base64")];
const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

export const target: FuzzTarget = {
  name: "spiffe_bundles",
  corpus: [
    encode({ trust_domains: { "a.example": { keys: [{ use: "x509-svid", x5c }] } } }),
    encode({
      trust_domains: {
        a: { keys: [{ use: "jwt-svid", kid: "x" }, { use: "x509-svid", kty: "EC", x5c }] },
        "b_c.d-e": { keys: [], spiffe_sequence: 1 },
      },
    }),
  ],
  dictionary: [
    '"a":',
    '{"keys":[]}',
    '"use":"x509-svid"',
    '"x5c":[]',
    "__proto__",
    "constructor",
    ",",
  ],
  run(input) {
    const text = new TextDecoder().decode(input);
    const bundles = refuses(["credentials_invalid"], () => parseSpiffeBundles(text));
    if (!bundles) return;
    assert.ok(Object.keys(bundles).length > 0);
    for (const [name, rootPems] of Object.entries(bundles)) {
      assert.equal(parseTrustDomain(name), name);
      parseRoots(rootPems);
    }
    // The bundles that we accepted read the same for a parser that knows nothing of duplicates.
    const { trust_domains: domains } = JSON.parse(text);
    assert.deepEqual(Object.keys(domains).sort(), Object.keys(bundles).sort());
  },
};
