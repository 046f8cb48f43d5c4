/**
 * Answers of a Workload API: only `credentials_invalid` comes out, and the secrets held then are those
 * of the SVID's id and key, and bundles of those domains alone.
 *
 * @module
 */

import assert from "node:assert/strict";
import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import { ProxyError } from "../../src/base/mod.ts";
import { tlsFault } from "../../src/net/tls_checks.ts";
import { loadSecret } from "../../src/secrets/load/mod.ts";
import type { Secret, SecretSpec } from "../../src/secrets/model/secret.ts";
import { decodeBundles, decodeSvids } from "../../src/secrets/workload/workload_messages.ts";
import {
  bundlesFor,
  certificateSpecOf,
  validationSpecOf,
} from "../../src/secrets/workload/svid.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { encodeBundles, encodeSvids, svidOf } from "../kit/secrets/workload_server.ts";
import { type FuzzTarget, refuses } from "./fuzz.ts";

const ca = createAuthority({ trustDomain: "example.org" });
const other = createAuthority({ trustDomain: "other.test" });
const web = svidOf(ca, "spiffe://example.org/web", { hint: "web" });
const api = svidOf(ca.intermediate(), "spiffe://example.org/api");
const bundles = { "spiffe://example.org": ca.rootDer, "spiffe://other.test": other.rootDer };

const CODES = ["credentials_invalid"];

/** The secret that the provider would hold then; `undefined`: it would refuse. */
async function loaded(spec: SecretSpec): Promise<Secret | undefined> {
  const read = () => Promise.reject(new Error("no file is read here"));
  const options = { nowMs: Date.now(), tlsFault };
  try {
    return await loadSecret(spec, read, options);
  } catch (error) {
    if (error instanceof ProxyError && CODES.includes(error.code)) return undefined;
    throw error;
  }
}

export const target: FuzzTarget = {
  name: "workload_response",
  corpus: [
    encodeSvids({ svids: [web] }),
    encodeSvids({ svids: [web, api], federated: bundles, crls: [ca.rootDer] }),
    encodeBundles({ bundles, crls: [ca.rootDer] }),
  ],
  dictionary: ["spiffe://", "__proto__", "\x0a\x00", "\x12\x00", "\x1a\x00", "\x0b\x0b\x0b\x0c"],
  async run(input) {
    const trust = refuses(CODES, () => {
      const { bundles, crls } = decodeBundles(input);
      return validationSpecOf(bundles, crls);
    });
    if (trust) await loaded(trust);
    const message = refuses(CODES, () => decodeSvids(input));
    for (const svid of message?.svids ?? []) {
      const spec = refuses(CODES, () => certificateSpecOf(svid));
      const secret = spec && await loaded(spec);
      if (secret?.type === "certificate") {
        const leaf = new X509Certificate(secret.certPem);
        assert.deepEqual(secret.uris, [svid.spiffeId]);
        assert.ok(leaf.subjectAltName?.split(", ").includes(`URI:${svid.spiffeId}`));
        assert.ok(createPublicKey(createPrivateKey(secret.keyPem)).equals(leaf.publicKey));
      }
      const found = message && refuses(CODES, () => bundlesFor(svid, message));
      const trusted = found &&
        refuses(CODES, () => validationSpecOf(found, message.crls));
      const validation = trusted && await loaded(trusted);
      if (!found || validation?.type !== "validation") continue;
      assert.ok(validation.validation.kind === "spiffe");
      assert.deepEqual(Object.keys(validation.validation.bundles).sort(), [...found.keys()].sort());
    }
  },
};
