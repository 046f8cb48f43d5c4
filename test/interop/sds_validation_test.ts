import assert from "node:assert/strict";
import { createHash, X509Certificate } from "node:crypto";
import test from "node:test";
import { mintCrlPem } from "../kit/certs/mint_crl.ts";
import { spkiOf } from "../../src/identity/mod.ts";
import { formatPem } from "../../src/wire/mod.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { sdsSecret } from "../kit/peers/envoy_tls.ts";
import { eventually } from "../kit/process/process.ts";
import {
  certificateSecret,
  inlineBytes,
  startSdsPeer,
  validationSecret,
} from "../kit/secrets/sds_peer.ts";
import { probeTls } from "../kit/wire/tls_probe.ts";
import { clientPair } from "../kit/wire/tls_session.ts";
import { mutualTls, SUBJECTS, waitForLeaf } from "../kit/peers/tls_subjects.ts";

const HOUR_MS = 3_600_000;
const ca = createAuthority({ name: "root" });
const below = ca.intermediate({ overrides: { subject: "below" } });
const elsewhere = createAuthority();
const issue = (authority: typeof ca, service: string, dnsName = `${service}.example`) =>
  authority.issueLeaf({ service, overrides: { dnsNames: [dnsName] } });

const CALLERS = {
  api: issue(ca, "api"),
  job: issue(ca, "job"),
  /** For any host of a domain. */
  star: issue(ca, "star", "*.star.example"),
  /** A leaf of an intermediate CA, with that CA in its chain. */
  low: issue(below, "low"),
  expired: ca.issueLeaf({
    service: "api",
    overrides: { dnsNames: ["api.example"], notAfterMs: Date.now() - HOUR_MS },
  }),
  stranger: issue(elsewhere, "api"),
};
type Caller = keyof typeof CALLERS;
const EVERYBODY = Object.keys(CALLERS) as Caller[];

const x509 = (caller: Caller) => new X509Certificate(CALLERS[caller].certPem);
const hash = (caller: Caller) => createHash("sha256").update(CALLERS[caller].certDer).digest("hex");
const pin = (caller: Caller) =>
  createHash("sha256").update(spkiOf(x509(caller).publicKey)).digest("base64");
const dates = { thisUpdateMs: Date.now() - HOUR_MS, nextUpdateMs: Date.now() + HOUR_MS };
const rootCrl = (...revoked: readonly Caller[]) =>
  mintCrlPem({
    ...dates,
    signer: ca.key.privateKey,
    issuer: "root",
    revoked: revoked.map((caller) => x509(caller).serialNumber),
  });
const lowCrl = mintCrlPem({ ...dates, signer: below.key.privateKey, issuer: "below" });
const belowPem = below.chainDer.map((der) => formatPem("CERTIFICATE", der)).join("");
const names = (...matchers: readonly (readonly [type: string, matcher: unknown])[]) => ({
  match_typed_subject_alt_names: matchers.map(([san_type, matcher]) => ({ san_type, matcher })),
});

/** The rules of `roots` besides the CA, and the callers that are accepted then. */
const ROWS: readonly (readonly [
  what: string,
  rules: Readonly<Record<string, unknown>>,
  taken: readonly Caller[],
  /** Where Envoy does otherwise. */
  takenByEnvoy?: readonly Caller[],
])[] = [
  ["the CA alone", {}, ["api", "job", "star", "low"]],
  ["a DNS name", names(["DNS", { exact: "api.example" }]), ["api"]],
  ["a host of a wildcard", names(["DNS", { exact: "x.star.example" }]), ["star"]],
  ["the start of a URI", names(["URI", { prefix: uriOf("jo") }]), ["job"]],
  ["the end of a URI", names(["URI", { suffix: "/svc/api" }]), ["api"]],
  ["RE2", names(["URI", { safe_regex: { regex: ".*/svc/(api|star)" } }]), ["api", "star"]],
  ["RE2, which matches the whole", names(["URI", { safe_regex: { regex: "/svc/api" } }]), []],
  ["any case", names(["DNS", { contains: "JOB", ignore_case: true }]), ["job"]],
  [
    "any of several names",
    names(["DNS", { exact: "api.example" }], ["URI", { exact: uriOf("low") }]),
    ["api", "low"],
  ],
  ["the pin of a key", { verify_certificate_spki: [pin("job")] }, ["job"]],
  ["a pin that needs its CA, too", { verify_certificate_spki: [pin("stranger")] }, []],
  ["the hash of a leaf", { verify_certificate_hash: [colons(hash("api"))] }, ["api"]],
  [
    "either pin",
    { verify_certificate_spki: [pin("low")], verify_certificate_hash: [hash("job")] },
    ["job", "low"],
  ],
  [
    "a pin and a name",
    { verify_certificate_spki: [pin("job")], ...names(["DNS", { exact: "api.example" }]) },
    [],
  ],
  [
    "a pin without a CA",
    { trusted_ca: undefined, verify_certificate_spki: [pin("stranger")] },
    ["stranger"],
  ],
  // With one revocation list, each CA in the chain needs one.
  ["a revocation list", { crl: inlineBytes(rootCrl("api")) }, ["job", "star"]],
  ["lists of all CAs", { crl: inlineBytes(rootCrl("job") + lowCrl) }, ["api", "star", "low"]],
  ["a list of the lower CA", { crl: inlineBytes(lowCrl) }, []],
  [
    "a list of the lower CA, for leaves alone",
    { crl: inlineBytes(lowCrl), only_verify_leaf_cert_crl: true },
    ["low"],
  ],
  ["expired ones, too", { allow_expired_certificate: true }, [
    ...["api", "job", "star", "low", "expired"] as const,
  ]],
  ["no CA below", { max_verify_depth: 1 }, ["api", "job", "star"]],
  ["the lower CA as anchor", { trusted_ca: inlineBytes(belowPem) }, ["low"]],
  [
    "anybody with a certificate",
    { trust_chain_verification: "ACCEPT_UNTRUSTED" },
    EVERYBODY,
  ],
  ["the CA alone, again", {}, ["api", "job", "star", "low"]],
  // Errors of the chain are forgiven. Envoy forgives a wrong name, too.
  [
    "of anybody those with a name",
    {
      trust_chain_verification: "ACCEPT_UNTRUSTED",
      ...names(["DNS", { exact: "job.example" }]),
    },
    ["job"],
    EVERYBODY,
  ],
];

async function takenBy(place: { readonly host: string; readonly port: number }) {
  const outcomes = await Promise.all(
    Object.entries(CALLERS).map(async ([name, leaf]) => {
      const outcome = await probeTls(place, clientPair(leaf));
      return outcome.accepted ? name : "";
    }),
  );
  return outcomes.filter((name) => name !== "").join(" ");
}

for (const [subject, startProxy] of SUBJECTS) {
  test(`${subject} accepts and refuses clients by the validation context from SDS`, async () => {
    const leaf = ca.issueLeaf({ service: "web" });
    await using echo = await startEcho({ host: "127.0.0.1" });
    await using sds = await startSdsPeer();
    await sds.set({ web: certificateSecret(leaf), roots: validationSecret(elsewhere.rootPem) });
    await using proxy = await startProxy({
      sds: sds.address,
      inbound: { tls: mutualTls("delta"), target: echo },
    });
    const place = await waitForLeaf(proxy, leaf, clientPair(CALLERS.stranger));
    let before = "stranger";
    for (const [what, rules, taken, takenByEnvoy] of ROWS) {
      const want = (subject === "Envoy" && takenByEnvoy || taken).join(" ");
      // Else a rule that is not applied would pass.
      assert.notEqual(want, before, `${what}: takes the same as the row before`);
      before = want;
      await sds.set({ roots: validationSecret(ca.rootPem, rules) });
      await sds.acknowledged("roots");
      let last = "";
      await eventually(`${what}: [${want}]`, async () => {
        last = await takenBy(place);
        return last === want;
      }).catch((error) => {
        throw new Error(`${error.message}; it took [${last}]`);
      });
      assert.equal((await probeTls(place)).accepted, false, `${what}: no certificate`);
    }
  });

  test(`${subject} joins its own validation settings with those from SDS`, async () => {
    const leaf = ca.issueLeaf({ service: "web" });
    await using echo = await startEcho({ host: "127.0.0.1" });
    await using sds = await startSdsPeer();
    await sds.set({
      web: certificateSecret(leaf),
      roots: validationSecret(ca.rootPem, names(["DNS", { exact: "job.example" }])),
    });
    await using proxy = await startProxy({
      sds: sds.address,
      inbound: {
        tls: {
          // Not asked for a certificate, yet one that matches is needed.
          common_tls_context: {
            tls_certificate_sds_secret_configs: [sdsSecret("web")],
            combined_validation_context: {
              default_validation_context: {
                ...names(["DNS", { exact: "api.example" }]),
                trusted_ca: inlineBytes(elsewhere.rootPem),
              },
              validation_context_sds_secret_config: sdsSecret("roots"),
            },
          },
        },
        target: echo,
      },
    });
    const place = await waitForLeaf(proxy, leaf, clientPair(CALLERS.api));
    assert.equal(await takenBy(place), "api job", "the CA of SDS, names of both");
    assert.equal((await probeTls(place)).accepted, false, "no certificate");
    await sds.set({ roots: validationSecret(ca.rootPem) });
    await eventually("names of the configuration alone", async () => {
      return await takenBy(place) === "api";
    });
    await sds.set({ roots: { validation_context: { allow_expired_certificate: true } } });
    await eventually("the CA of the configuration", async () => {
      return await takenBy(place) === "stranger";
    });
  });
}

function uriOf(service: string): string {
  return `spiffe://${ca.trustDomain}/ns/default/dc/dc1/svc/${service}`;
}

function colons(hex: string): string {
  return (hex.match(/../g) ?? []).join(":");
}
