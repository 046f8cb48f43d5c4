/**
 * Answers of an SDS server: whatever the bytes, they are refused or read, each response is answered
 * once, and only resources that were requested and can be read reach a host.
 *
 * @module
 */

import assert from "node:assert/strict";
import { ProxyError } from "../../src/base/mod.ts";
import { parseSecret } from "../../src/secrets/envoy/envoy_secret.ts";
import {
  SDS_PROTOBUF as protobuf,
  SECRET_RESOURCE,
} from "../../src/secrets/sds/secret_resource.ts";
import type { PlainMessage } from "../../src/wire/mod.ts";
import {
  deltaMessages,
  DeltaProtocol,
  type DeltaRequest,
  type OfferedResource,
  sotwMessages,
  SotwProtocol,
  type SotwRequest,
} from "../../src/xds/mod.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { inlineBundle, inlineCertificate } from "../kit/secrets/sds_server.ts";
import { ProtocolHarness } from "../kit/secrets/xds_protocol.ts";
import type { FuzzTarget } from "./fuzz.ts";

const NAMES = ["web", "ROOTCA", "ALL"];
const authority = createAuthority();

const anyOf = (secret: PlainMessage) => ({
  type_url: SECRET_RESOURCE.typeUrl,
  value: protobuf.encode("Secret", secret),
});
const spiffe = protobuf.encode("SPIFFECertValidatorConfig", {
  trust_domains: [{ name: "td.test", trust_bundle: { inline_string: authority.rootPem } }],
});
const SECRETS = [
  inlineCertificate("web", authority.issueLeaf({ service: "web" })),
  inlineBundle("ROOTCA", authority.rootPem),
  {
    name: "ALL",
    validation_context: {
      max_verify_depth: { value: 3 },
      match_typed_subject_alt_names: [{ san_type: "URI", matcher: { prefix: "spiffe://" } }],
      custom_validator_config: {
        name: "envoy.tls.cert_validator.spiffe",
        typed_config: {
          type_url:
            "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig",
          value: spiffe,
        },
      },
    },
  },
];
const HEAD = { type_url: SECRET_RESOURCE.typeUrl, nonce: "n1" };

class Harness<Request> extends ProtocolHarness<Request> {
  override accept({ name, read }: OfferedResource<PlainMessage>): Promise<string | undefined> {
    assert.ok(NAMES.includes(name));
    try {
      parseSecret(read(), { allowFiles: false });
      return Promise.resolve(undefined);
    } catch (error) {
      // The library's errors are of several classes; ours have a code.
      if (error instanceof ProxyError) assert.equal(error.code, "credentials_invalid");
      return Promise.resolve("refused");
    }
  }
}

export const target: FuzzTarget = {
  name: "sds_response",
  corpus: [
    protobuf.encode("DiscoveryResponse", {
      ...HEAD,
      version_info: "1",
      resources: SECRETS.map(anyOf),
    }),
    protobuf.encode("DeltaDiscoveryResponse", {
      ...HEAD,
      resources: [
        ...SECRETS.map((secret) => ({
          name: secret.name,
          version: "1",
          ttl: { seconds: 5 },
          resource: anyOf(secret),
        })),
        { name: "web", version: "1" },
      ],
      removed_resources: ["ALL"],
    }),
    ...SECRETS.map((secret) =>
      protobuf.encode("DiscoveryResponse", { ...HEAD, resources: [anyOf(secret)] })
    ),
  ],
  dictionary: [
    SECRET_RESOURCE.typeUrl,
    "web",
    "ROOTCA",
    "-----BEGIN CERTIFICATE-----",
    "\x0a\x03web",
  ],
  async run(input) {
    const sotw = new Harness<SotwRequest>();
    const delta = new Harness<DeltaRequest>();
    const protocols = [
      [sotw, new SotwProtocol(sotw.options), sotwMessages(SECRET_RESOURCE)],
      [delta, new DeltaProtocol(delta.options), deltaMessages(SECRET_RESOURCE)],
    ] as const;
    for (const [harness, protocol, { decode, encode }] of protocols) {
      protocol.change(NAMES, []);
      protocol.opened();
      harness.sent.length = 0;
      let message: never;
      try {
        message = decode(input) as never;
      } catch {
        continue; // the call ends there
      }
      await protocol.message(message);
      assert.equal(harness.sent.length, 1);
      for (const sent of harness.sent) {
        assert.ok((sent.error?.message.length ?? 0) <= 4096);
        encode(sent as never);
      }
      for (const line of harness.calls) assert.ok(line.length < 100_000);
      protocol.held.close();
      assert.equal(harness.clock.pending, 0);
    }
  },
};
