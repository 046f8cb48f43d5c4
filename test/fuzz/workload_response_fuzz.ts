/**
 * Answers of a Workload API: only `credentials_invalid` comes out, and an SVID that is taken is the one
 * that its id and key say.
 *
 * @module
 */

import assert from "node:assert/strict";
import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import { decodeBundles, decodeSvids } from "../../src/secrets/workload/messages.ts";
import { loadWorkloadProtobuf } from "../../src/secrets/workload/proto.ts";
import {
  bundlesFor,
  certificateSpecOf,
  validationSpecOf,
} from "../../src/secrets/workload/svid.ts";
import { createAuthority } from "../kit/certificates.ts";
import { encodeBundles, encodeSvids, svidOf } from "../kit/workload_server.ts";
import { type FuzzTarget, refuses } from "./fuzz.ts";

const protobuf = await loadWorkloadProtobuf();
const ca = createAuthority({ trustDomain: "example.org" });
const other = createAuthority({ trustDomain: "other.test" });
const web = svidOf(ca, "spiffe://example.org/web", { hint: "web" });
const api = svidOf(ca.intermediate(), "spiffe://example.org/api");
const bundles = { "spiffe://example.org": ca.rootDer, "spiffe://other.test": other.rootDer };

const CODES = ["credentials_invalid"];
const textOf = (source: unknown) => {
  const { kind, bytes } = source as { readonly kind: string; readonly bytes: Uint8Array };
  assert.equal(kind, "inline");
  return new TextDecoder().decode(bytes);
};

export const target: FuzzTarget = {
  name: "workload_response",
  corpus: [
    encodeSvids(protobuf, { svids: [web] }),
    encodeSvids(protobuf, { svids: [web, api], federated: bundles, crls: [ca.rootDer] }),
    encodeBundles(protobuf, { bundles, crls: [ca.rootDer] }),
  ],
  dictionary: ["spiffe://", "__proto__", "\x0a\x00", "\x12\x00", "\x1a\x00", "\x0b\x0b\x0b\x0c"],
  run(input) {
    const trust = refuses(CODES, () => {
      const { bundles, crls } = decodeBundles(input, protobuf);
      return validationSpecOf(bundles, crls);
    });
    if (trust) assert.ok(trust.spiffe?.kind === "domains" && trust.spiffe.domains.length > 0);
    const message = refuses(CODES, () => decodeSvids(input, protobuf));
    for (const svid of message?.svids ?? []) {
      const spec = refuses(CODES, () => certificateSpecOf(svid));
      if (spec) {
        const leaf = new X509Certificate(textOf(spec.chain));
        assert.equal(leaf.subjectAltName, `URI:${svid.spiffeId}`);
        const key = createPublicKey(createPrivateKey(textOf(spec.key)));
        assert.ok(key.equals(leaf.publicKey));
      }
      const found = message && refuses(CODES, () => bundlesFor(svid, message));
      if (found) refuses(CODES, () => validationSpecOf(found, message.crls));
    }
  },
};
