/** Certificates: any bytes give one or `identity_invalid`; one that is read is exactly those bytes. @module */

import assert from "node:assert/strict";
import { altNamesOf, commonNameOf } from "../../src/identity/certificate_names.ts";
import { parseCertificate } from "../../src/identity/mod.ts";
import { recordedLeaf, recordedRoots } from "../kit/consul/recorded.ts";
import { type FuzzTarget, refuses } from "./fuzz.ts";

const LEAVES = ["leaf", "leaf_rotated", "leaf_rsa", "leaf_secondary_rotated"].map(recordedLeaf);
const { roots } = recordedRoots("roots_rsa");

export const target: FuzzTarget = {
  name: "certificate",
  corpus: [
    ...LEAVES.flatMap(({ leaf, presented }) => [leaf, ...presented]),
    ...roots.map((root) => root.raw),
  ],
  run(input) {
    const certificate = refuses(["identity_invalid"], () => parseCertificate(input));
    if (!certificate) return;
    assert.deepEqual(certificate.raw, input);
    assert.match(certificate.serial, /^[0-9a-f]{2}(:[0-9a-f]{2}){0,20}$/);
    assert.ok(Number.isSafeInteger(certificate.notBeforeMs));
    assert.ok(Number.isSafeInteger(certificate.notAfterMs));
    for (const uri of certificate.sanUris) assert.match(uri, /^[\x20-\x7e]*$/);
    assert.deepEqual(altNamesOf(certificate).uris, certificate.sanUris);
    const commonName = commonNameOf(certificate);
    assert.ok(commonName === undefined || !commonName.includes("\0"));
  },
};
