/** PKCS#12: only `credentials_invalid` comes out of damaged files, in bounded time. @module */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ProxyError } from "../../src/base/mod.ts";
import { readPkcs12 } from "../../src/secrets/load/pkcs12.ts";
import type { FuzzTarget } from "./fuzz.ts";

const read = (name: string) => {
  return new Uint8Array(readFileSync(new URL(`../fixtures/secrets/${name}`, import.meta.url)));
};
const PASSWORD = new TextEncoder().encode("secret");

export const target: FuzzTarget = {
  name: "pkcs12",
  corpus: ["aes.p12", "sha1_3des.p12", "rc2.p12", "no_key.p12", "java.p12"].map(read),
  limitBytes: 4096,
  async run(input) {
    try {
      const { certPem, keyPem } = await readPkcs12(input, { what: "fuzz", password: PASSWORD });
      assert.match(certPem, /^-----BEGIN CERTIFICATE-----/);
      assert.match(keyPem, /^-----BEGIN PRIVATE KEY-----/);
    } catch (error) {
      if (!(error instanceof ProxyError) || error.code !== "credentials_invalid") throw error;
      assert.doesNotMatch(error.message, /secret/);
    }
  },
};
