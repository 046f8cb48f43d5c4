import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { inlineBundle, inlineCertificate } from "../../../test/kit/secrets/sds_server.ts";
import { parseSecret } from "../envoy/envoy_secret.ts";
import type { PlainMessage } from "../../wire/mod.ts";
import { deltaMessages, sotwMessages, type XdsResource } from "../../xds/mod.ts";
import { SDS_PROTOBUF as protobuf, SECRET_RESOURCE } from "./secret_resource.ts";

const SOTW = sotwMessages(SECRET_RESOURCE);
const DELTA = deltaMessages(SECRET_RESOURCE);
const authority = createAuthority();
const WEB = inlineCertificate("web", authority.issueLeaf({ service: "web" }));

function anyOf(secret: PlainMessage): PlainMessage {
  return { type_url: SECRET_RESOURCE.typeUrl, value: protobuf.encode("Secret", secret) };
}

function sotw(...resources: PlainMessage[]): readonly XdsResource<PlainMessage>[] {
  const bytes = protobuf.encode("DiscoveryResponse", { version_info: "7", nonce: "n", resources });
  const response = SOTW.decode(bytes);
  assert.deepEqual([response.version, response.nonce, response.typeUrl], ["7", "n", ""]);
  return response.resources;
}

function delta(...resources: PlainMessage[]): readonly XdsResource<PlainMessage>[] {
  const bytes = protobuf.encode("DeltaDiscoveryResponse", { resources, removed_resources: ["x"] });
  const response = DELTA.decode(bytes);
  assert.deepEqual(response.removed, ["x"]);
  return response.resources;
}

function wrapper(fields: PlainMessage): PlainMessage {
  return {
    type_url: "type.googleapis.com/envoy.service.discovery.v3.Resource",
    value: protobuf.encode("Resource", fields),
  };
}

/** Name, version, time to live, and kind of content. */
function summary({ name, version, ttlMs, content }: XdsResource<PlainMessage>): unknown[] {
  return [name, version, ttlMs, content.kind === "unreadable" ? content.reason : content.kind];
}

for (
  const [name, resource, wanted] of [
    ["a secret", sotw(anyOf(WEB)), ["web", "7", undefined, "resource"]],
    [
      "a resource of another type",
      sotw({ type_url: "type.googleapis.com/x" }),
      ["", "7", undefined, 'it cannot be read: it is of type "type.googleapis.com/x"'],
    ],
    [
      "an unreadable resource",
      sotw({ type_url: SECRET_RESOURCE.typeUrl, value: Uint8Array.of(0xff, 0xff) }),
      ["", "7", undefined, "it cannot be read: it is cut short"],
    ],
    [
      "a secret with a time to live",
      sotw(wrapper({ name: "web", ttl: { seconds: 2, nanos: 500_000_000 }, resource: anyOf(WEB) })),
      ["web", "7", 2_500, "resource"],
    ],
    ["a heartbeat", sotw(wrapper({ name: "web", ttl: { seconds: 2 } })), [
      "web",
      "7",
      2_000,
      "heartbeat",
    ]],
    [
      "a secret (delta)",
      delta({ name: "web", version: "3", resource: anyOf(WEB) }),
      ["web", "3", undefined, "resource"],
    ],
    [
      "a secret in an envelope of another name",
      delta({ name: "db", version: "3", resource: anyOf(WEB) }),
      ["db", "3", undefined, 'it cannot be read: the secret in it is called "web"'],
    ],
    [
      "a secret in an envelope without a name",
      delta({ version: "3", resource: anyOf(WEB) }),
      ["web", "3", undefined, "resource"],
    ],
    [
      "a heartbeat (delta) with an expired time to live",
      delta({ name: "web", version: "3", ttl: { seconds: -5 } }),
      ["web", "3", 0, "heartbeat"],
    ],
  ] as const
) {
  test(`sotwMessages() reads ${name}`, () => {
    assert.deepEqual(resource.map(summary), [wanted]);
  });
}

function specOf(secret: PlainMessage) {
  const [resource] = sotw(anyOf(secret));
  assert.equal(resource?.content.kind, "resource");
  return parseSecret(resource.content.read(), { allowFiles: false });
}

test("sotwMessages() returns secrets in the shape of secret files", () => {
  assert.equal(specOf(WEB).spec.type, "certificate");
  const { name, spec } = specOf(inlineBundle("ROOTCA", authority.rootPem));
  assert.deepEqual([name, spec.type], ["ROOTCA", "validation"]);
});

test("sotwMessages() unwraps numbers, flags and SPIFFE's validator", () => {
  const { spec } = specOf({
    name: "ALL",
    validation_context: {
      max_verify_depth: { value: 0 },
      require_signed_certificate_timestamp: { value: false },
      trust_chain_verification: "ACCEPT_UNTRUSTED",
      match_typed_subject_alt_names: [{
        san_type: "URI",
        matcher: { prefix: "spiffe://td.test/" },
      }],
      custom_validator_config: {
        name: "envoy.tls.cert_validator.spiffe",
        typed_config: {
          type_url:
            "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig",
          value: protobuf.encode("SPIFFECertValidatorConfig", {
            trust_domains: [{ name: "td.test", trust_bundle: { inline_string: "pem" } }],
          }),
        },
      },
    },
  });
  assert.ok(spec.type === "validation");
  assert.equal(spec.rules.maxDepth, 0);
  assert.equal(spec.rules.acceptUntrusted, true);
  assert.deepEqual(spec.rules.matchers.map(({ type }) => type), ["uri"]);
  assert.equal(spec.spiffe?.kind === "domains" && spec.spiffe.domains[0]?.name, "td.test");
});

for (
  const [name, secret, wanted] of [
    [
      "keys held elsewhere",
      {
        ...WEB,
        tls_certificate: { ...WEB.tls_certificate as PlainMessage, private_key_provider: {} },
      },
      /private_key_provider cannot be honoured/,
    ],
    ["ticket keys", { name: "web", session_ticket_keys: {} }, /session_ticket_keys cannot be used/],
    ["other secrets", { name: "web", generic_secret: {} }, /generic_secret cannot be used/],
    [
      "matchers of an unknown kind",
      {
        name: "web",
        validation_context: {
          match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { custom: {} } }],
        },
      },
      /custom cannot be honoured/,
    ],
    [
      "empty matchers",
      {
        name: "web",
        validation_context: { match_typed_subject_alt_names: [{ san_type: "DNS", matcher: {} }] },
      },
      /matcher needs one of/,
    ],
    [
      "unknown validators",
      {
        name: "web",
        validation_context: {
          custom_validator_config: {
            name: "envoy.tls.cert_validator.spiffe",
            typed_config: { type_url: "type.googleapis.com/x", value: Uint8Array.of(1) },
          },
        },
      },
      /"@type"\] must be/,
    ],
    [
      "files of this machine",
      { name: "web", validation_context: { trusted_ca: { filename: "/etc/ca.pem" } } },
      /may not name files/,
    ],
  ] as const
) {
  test(`sotwMessages() keeps a field that must be refused: ${name}`, () => {
    assert.throws(() => specOf(secret), wanted);
  });
}
