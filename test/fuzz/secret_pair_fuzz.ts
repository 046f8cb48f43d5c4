/** Chains and keys, plain and encrypted: only `credentials_invalid` comes out, or the same pair. @module */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ProxyError } from "../../src/base/mod.ts";
import { NO_RULES } from "../../src/identity/mod.ts";
import { loadSecret } from "../../src/secrets/load/mod.ts";
import type { DataSource, SecretSpec } from "../../src/secrets/mod.ts";
import type { FuzzTarget } from "./fuzz.ts";

const read = (name: string) => {
  return new Uint8Array(readFileSync(new URL(`../fixtures/secrets/${name}`, import.meta.url)));
};
const inline = (bytes: Uint8Array): DataSource => ({ kind: "inline", bytes });
const CHAIN = inline(read("web.pem"));
const KEY = inline(read("plain.key"));
const PASSWORD = inline(new TextEncoder().encode("secret"));
const SERIAL = "58:be:66:0b:55:48:a3:4c:80:fc:52:9a:c3:20:87:ef:6d:e9:e6:56";
const NOW_MS = Date.UTC(2027, 0, 1);

async function attempt(spec: SecretSpec) {
  try {
    const none = () => Promise.reject(new Error("no file is read"));
    return await loadSecret(spec, none, { nowMs: NOW_MS, tlsFault: () => undefined });
  } catch (error) {
    if (error instanceof ProxyError && error.code === "credentials_invalid") return undefined;
    throw error;
  }
}

export const target: FuzzTarget = {
  name: "secret_pair",
  corpus: [
    "web.pem",
    "ca.pem",
    "plain.key",
    "sec1.key",
    "pbes2.key",
    "pbes2_sha1.key",
    "dek_aes.key",
    "crl.pem",
    "crl.der",
  ].map(read),
  dictionary: [
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
    "Proc-Type: 4,ENCRYPTED\n",
    "DEK-Info: AES-128-CBC,00\n",
    "-----END CERTIFICATE-----\n",
    "\r",
    "\u00ef\u00bb\u00bf",
  ],
  async run(input) {
    const damaged = inline(input);
    for (
      const spec of [
        { type: "certificate", chain: damaged, key: KEY },
        { type: "certificate", chain: CHAIN, key: damaged, password: PASSWORD },
        { type: "certificate", chain: CHAIN, key: KEY, password: damaged },
      ] as const
    ) {
      const secret = await attempt(spec);
      // The leaf's signature is not verified: a damaged chain has to match the key, but may have
      // another serial.
      if (secret?.type === "certificate" && spec.chain === CHAIN) {
        assert.equal(secret.serial, SERIAL);
      }
    }
    for (const part of [{ trustedCa: damaged }, { trustedCa: CHAIN, crl: damaged }]) {
      await attempt({ type: "validation", systemRoots: false, rules: NO_RULES, ...part });
    }
  },
};
