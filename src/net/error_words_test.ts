import assert from "node:assert/strict";
import { test } from "node:test";
import { alertWords, tlsWords } from "./error_words.ts";

const BORING = "error:10000000:SSL routines:OPENSSL_internal:";

/** Texts that BoringSSL (Bun), rustls (Deno) and OpenSSL (Node) were seen to give. */
for (
  const [words, ...texts] of [
    ["the peer spoke HTTP to a port that takes TLS only", `${BORING}HTTP_REQUEST`],
    ["the peer spoke HTTP to a port that takes TLS only", `${BORING}HTTPS_PROXY_REQUEST`],
    [
      "the peer does not speak TLS",
      `${BORING}WRONG_VERSION_NUMBER`,
      "received corrupt message of type InvalidContentType (SSL routines:ssl3_get_record:wrong version number)",
    ],
    [
      "no TLS version in common with the peer",
      `${BORING}UNSUPPORTED_PROTOCOL`,
      "peer is incompatible: Tls12NotOffered",
    ],
    [
      "no cipher suite in common with the peer",
      `${BORING}NO_SHARED_CIPHER`,
      "peer is incompatible: NoCipherSuitesInCommon",
    ],
    [
      "no application protocol in common with the peer",
      `${BORING}NO_APPLICATION_PROTOCOL`,
      "peer doesn't support any known protocol",
    ],
    [
      "the peer showed no certificate",
      `${BORING}PEER_DID_NOT_RETURN_A_CERTIFICATE`,
      "peer sent no certificates",
    ],
    ["the certificate of the peer has expired", "certificate has expired"],
    ["the certificate of the peer is not valid yet", "certificate is not yet valid"],
    [
      "the certificate of the peer is signed by no CA that we trust, or out of date",
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
      "unable to verify the first certificate",
      "self signed certificate in certificate chain",
      "self-signed certificate in certificate chain",
    ],
    [
      "the peer does not trust the CA that signed our certificate",
      `${BORING}TLSV1_ALERT_UNKNOWN_CA`,
      "received fatal alert: UnknownCA",
      "0A000418:SSL routines::tlsv1 alert unknown ca",
    ],
    [
      "the peer does not accept our certificate",
      `${BORING}SSLV3_ALERT_BAD_CERTIFICATE`,
      "received fatal alert: BadCertificate",
      "0A000412:SSL routines::sslv3 alert bad certificate:../ssl/record/rec_layer_s3.c:1599",
    ],
    [
      "the peer holds our certificate for expired or not valid yet; compare the clocks",
      `${BORING}SSLV3_ALERT_CERTIFICATE_EXPIRED`,
      "received fatal alert: CertificateExpired",
    ],
    [
      "the peer asks for a certificate and was shown none",
      `${BORING}TLSV1_ALERT_CERTIFICATE_REQUIRED`,
      "received fatal alert: CertificateRequired",
    ],
    [
      "the peer takes no TLS version that we offer",
      `${BORING}TLSV1_ALERT_PROTOCOL_VERSION`,
      "received fatal alert: ProtocolVersion",
    ],
    [
      "the peer has no certificate for the name that we ask for",
      `${BORING}TLSV1_ALERT_UNRECOGNIZED_NAME`,
      "received fatal alert: UnrecognisedName",
    ],
    ["the peer ended it with the TLS alert recordoverflow", "received fatal alert: RecordOverflow"],
    ["connect ECONNREFUSED 127.0.0.1:1", "connect ECONNREFUSED 127.0.0.1:1"],
  ] as const
) {
  test(`tlsWords() returns "${words}"`, () => {
    for (const text of texts) assert.equal(tlsWords(text), words, text);
  });
}

test("alertWords() is empty for a text without an alert of the peer", () => {
  assert.equal(alertWords(`${BORING}WRONG_VERSION_NUMBER`), "");
  assert.equal(alertWords("ECONNRESET: connection reset by peer, read"), "");
});
