/**
 * Envoy's secret files, damaged: each is taken whole or refused with a reason that shows no key.
 *
 * @module
 */

import assert from "node:assert/strict";
import { ProxyError } from "../../src/base/mod.ts";
import { parseSecretFile } from "../../src/secrets/envoy/secret_file.ts";
import type { FuzzTarget } from "./fuzz.ts";

const TYPE = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
/** A placeholder for a key. */
const KEY = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgFuzz";

const CERTIFICATE = `version_info: "7"
resources:
  - "@type": ${TYPE}
    name: &name web
    tls_certificate:
      certificate_chain: { filename: /certs/cert.pem }
      private_key:
        inline_string: |
          -----BEGIN PRIVATE KEY-----
          ${KEY}
          -----END PRIVATE KEY-----
      watched_directory: { path: /certs, watch_modify: true }
`;
const VALIDATION = {
  "@type": TYPE,
  name: "ROOTCA",
  validationContext: {
    trusted_ca: { inline_bytes: "Y2E=" },
    verify_certificate_hash: ["ab".repeat(32)],
    match_typed_subject_alt_names: [
      { san_type: "URI", matcher: { safe_regex: { regex: "spiffe://.*" } } },
      { san_type: 5, oid: "1.2.3", matcher: { exact: "a", ignore_case: true } },
    ],
    trust_chain_verification: "ACCEPT_UNTRUSTED",
    max_verify_depth: "3",
    custom_validator_config: null,
  },
};
const bytesOf = (text: string) => new TextEncoder().encode(text);

export const target: FuzzTarget = {
  name: "secret_file",
  corpus: [bytesOf(CERTIFICATE), bytesOf(JSON.stringify(VALIDATION, null, 1))],
  dictionary: ["&a ", "*a", "!!binary ", "? ", "- ", "---\n", "<<: ", "|-\n", "{", "[[", "null"],
  async run(input, random) {
    const text = new TextDecoder().decode(input);
    const path = random() < 0.3 ? "a.json" : "a.yaml";
    const parse = async () => {
      try {
        return await parseSecretFile(text, { path, wantedName: "" });
      } catch (error) {
        if (!(error instanceof ProxyError) || error.code !== "credentials_invalid") throw error;
        assert.ok(error.message.startsWith("Cannot use the secret in a."), error.message);
        assert.ok(!error.message.includes(KEY), "the key is shown");
        assert.ok(error.message.length < 8_192);
        return error.message;
      }
    };
    const found = await parse();
    assert.deepEqual(await parse(), found);
    if (typeof found === "string") return;
    if (found.spec.type === "certificate") {
      const { chain, key, pkcs12 } = found.spec;
      assert.ok(pkcs12 ? !chain && !key : chain && key);
    } else assert.ok(!found.spec.spiffe || !found.spec.trustedCa);
  },
};
