/** Credentials: damaged PEM gives `credentials_invalid`, or the same identity as before. @module */

import assert from "node:assert/strict";
import { validateCredentials } from "../../src/identity/mod.ts";
import { RECORDED_MS, recordedLeaf, recordedRoots } from "../kit/consul/recorded.ts";
import { type FuzzTarget, refuses } from "./fuzz.ts";

const encoder = new TextEncoder();
const { certPem, keyPem, uri, serial } = recordedLeaf("leaf_secondary_rotated");
const { pems, trustDomain } = recordedRoots("roots_secondary_rotated");

export const target: FuzzTarget = {
  name: "credentials",
  corpus: [certPem, keyPem, ...pems].map((pem) => encoder.encode(pem)),
  dictionary: ["-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n", "\n"],
  run(input) {
    const text = new TextDecoder().decode(input);
    const sound = {
      certPem,
      keyPem,
      rootPems: pems,
      trustDomains: [trustDomain],
      nowMs: RECORDED_MS,
    };
    for (
      const damaged of [{ certPem: text }, { keyPem: text }, { rootPems: [text] }, {
        rootPems: [...pems, text],
      }]
    ) {
      const valid = refuses(["credentials_invalid"], () => {
        return validateCredentials({ ...sound, ...damaged });
      });
      if (!valid) continue;
      assert.equal(valid.uri, uri);
      assert.equal(valid.serial, serial);
    }
  },
};
