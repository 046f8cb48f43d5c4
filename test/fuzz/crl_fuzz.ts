/** Revocation lists: any bytes give one or `credentials_invalid`; a damaged one is not its CA's any more. @module */

import assert from "node:assert/strict";
import { createAuthority } from "../kit/certs/authority.ts";
import { parseCertificate } from "../../src/identity/mod.ts";
import { mintCrl } from "../kit/certs/mint_crl.ts";
import { sameBytes } from "../../src/identity/certificate.ts";
import { parseCrl } from "../../src/identity/crl.ts";
import { isSignedBy } from "../../src/identity/signature.ts";
import { type FuzzTarget, refuses } from "./fuzz.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const ca = createAuthority({ trustDomain: "fuzz.consul", nowMs: NOW_MS });
const root = parseCertificate(ca.rootDer);
const base = { signer: ca.key.privateKey, issuer: "ca", thisUpdateMs: NOW_MS } as const;
const reason = { oid: "2.5.29.21", critical: false, value: Uint8Array.of(10, 1, 1) };
const number = { oid: "2.5.29.20", critical: false, value: Uint8Array.of(2, 1, 1) };
const scope = { oid: "2.5.29.28", critical: true, value: Uint8Array.of(0x30, 3, 0x81, 1, 0xff) };

const LISTS = [
  mintCrl({ ...base, version: 1 }),
  mintCrl({ ...base, nextUpdateMs: NOW_MS + 1000, extensions: [number] }),
  mintCrl({ ...base, revoked: ["01", { serial: "ff:02", extensions: [reason] }] }),
  mintCrl({ ...base, revoked: ["03"], extensions: [number, scope] }),
];

export const target: FuzzTarget = {
  name: "crl",
  corpus: LISTS,
  run(input) {
    const crl = refuses(["credentials_invalid"], () => parseCrl(input));
    if (!crl) return;
    assert.ok(Number.isSafeInteger(crl.thisUpdateMs));
    assert.ok(crl.nextUpdateMs === Infinity || Number.isSafeInteger(crl.nextUpdateMs));
    if (!isSignedBy(crl, root)) return;
    assert.ok(LISTS.some((list) => sameBytes(list, input)), "a list without a valid signature");
  },
};
