import assert from "node:assert/strict";
import test from "node:test";
import { LISTENER } from "../../../test/kit/secrets/tls_config.ts";
import { formatPath } from "../../base/schema.ts";
import { parseStaticSecrets } from "./static_secrets.ts";
import { parseTlsConfig } from "./tls.ts";

const PAIR = { certificate_chain: { filename: "a.pem" }, private_key: { filename: "a.key" } };

test("parseStaticSecrets() gives what credentials name", () => {
  const parsed = parseStaticSecrets([
    { name: "both", tls_certificate: PAIR },
    { name: "both", validation_context: { trusted_ca: { filename: "ca.pem" } } },
  ], { path: [] });
  assert.ok(parsed.kind === "valid");
  const credentials = parseTlsConfig({
    common_tls_context: {
      tls_certificate_sds_secret_configs: [{ name: "both" }],
      validation_context_sds_secret_config: { name: "both" },
    },
  }, { ...LISTENER, staticSecrets: parsed.secrets });
  assert.ok(credentials.kind === "valid");
  const { certificates, validation } = credentials.plan;
  assert.deepEqual([certificates[0]?.type, validation?.secret.type], ["certificate", "validation"]);
});

for (
  const [behaviour, value, wanted] of [
    ["what is no list", {}, ["secrets must be a list, not an object"]],
    ["a secret without a name", [{ tls_certificate: PAIR }], ["secrets[0].name is missing"]],
    ["a name twice", [{ name: "a", tls_certificate: PAIR }, { name: "a", tlsCertificate: PAIR }], [
      'secrets[1].name "a" is used by an earlier secret',
    ]],
    ["a secret that is none", [{ name: "a", tls_certificate: {} }], [
      "secrets[0].tls_certificate.certificate_chain is missing; or pkcs12, with key and chain",
      "secrets[0].tls_certificate.private_key is missing",
    ]],
  ] as const
) {
  test(`parseStaticSecrets() refuses ${behaviour}`, () => {
    const parsed = parseStaticSecrets(value, { path: ["secrets"] });
    assert.ok(parsed.kind === "invalid", "it was taken");
    const shown = parsed.problems.map(({ path, message }) => `${formatPath(path)} ${message}`);
    assert.deepEqual(shown, wanted);
  });
}
