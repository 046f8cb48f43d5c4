/** Messages about failed TLS to the agent, from real handshakes. */
import { DATAPLANE_FLAGS, PROXY_FLAGS } from "../model/flag_names.ts";
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ProxyError, systemClock } from "../../base/mod.ts";
import { contextTag } from "../../wire/mod.ts";
import { derElement } from "../../wire/der_writer.ts";
import { type CertificateOverrides, createAuthority } from "../../../test/kit/certs/authority.ts";
import { runtimeEngine, tlsWords } from "../../net/mod.ts";
import { createAgentCarrier } from "./transport.ts";
import { explainAlert } from "./tls_credentials.ts";

const HOUR_MS = 3_600_000;
const authority = (name: string) =>
  createAuthority({ trustDomain: "mesh.consul", nowMs: Date.now() - HOUR_MS, name });
const OURS = authority("Agent CA 1");
const OTHER = authority("Agent CA 2");
const SAME_NAME = authority("Agent CA 1");
const LOOPBACK = derElement(contextTag(7, "primitive"), Uint8Array.of(127, 0, 0, 1));
const SERVER: CertificateOverrides = {
  subject: "server.dc1.consul",
  uris: [],
  dnsNames: ["server.dc1.consul"],
  altNames: [LOOPBACK],
};

/** The failure of one request to an agent that shows a certificate of `OURS` made with `overrides`. */
async function failureOf(
  caPem: string | undefined,
  overrides: CertificateOverrides = {},
  flags: { readonly serverName?: string } = {},
): Promise<string> {
  const { certPem, keyPem } = OURS.issueLeaf({
    service: "server",
    overrides: { ...SERVER, ...overrides },
  });
  let requests = 0;
  const server = https.createServer({ cert: certPem, key: keyPem }, (_request, response) => {
    requests++;
    response.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const directory = mkdtempSync(join(tmpdir(), "postern-tls-"));
  const caFile = join(directory, "ca.pem");
  if (caPem) writeFileSync(caFile, caPem);
  const { port } = server.address() as AddressInfo;
  const carrier = createAgentCarrier({
    address: { kind: "tcp", host: "127.0.0.1", port },
    tls: {
      caFile: caPem ? caFile : "",
      caPath: "",
      certFile: "",
      keyFile: "",
      verify: true,
      serverName: flags.serverName ?? "",
    },
  }, { engine: runtimeEngine(), clock: systemClock });
  try {
    const request = { method: "GET", path: "/", headers: { "x-consul-token": "secret" } };
    await carrier.send({ ...request, timeoutMs: 10_000, repeatable: true, limitBytes: 99 });
    throw new Error("the agent was trusted");
  } catch (error) {
    assert.ok(error instanceof ProxyError, String(error));
    assert.equal(error.code, "agent_unreachable");
    assert.equal(requests, 0, "an untrusted agent gets no request");
    return error.message.replaceAll(directory, "/tls");
  } finally {
    carrier.close();
    server.close();
    server.closeAllConnections();
    rmSync(directory, { recursive: true });
  }
}

for (
  const [name, failure, pattern] of [
    [
      "another CA",
      () => failureOf(OTHER.rootPem),
      /its certificate \("CN=server\.dc1\.consul"\) names "CN=Agent CA 1" as its issuer, but -ca-file \(CONSUL_CACERT\) "\/tls\/ca\.pem" has "CN=Agent CA 2"; say with -ca-file/,
    ],
    [
      "a CA of the same name",
      () => failureOf(SAME_NAME.rootPem),
      /names "CN=Agent CA 1" as its issuer, and -ca-file .* has one of this name with another key/,
    ],
    [
      "no CA file",
      () => failureOf(undefined),
      /names "CN=Agent CA 1" as its issuer, which is not in what this system trusts; say with -ca-file/,
    ],
    [
      "another name",
      () => failureOf(OURS.rootPem, { altNames: [], dnsNames: ["server.dc1.consul", "localhost"] }),
      /not for "127\.0\.0\.1" but for "DNS:server\.dc1\.consul, DNS:localhost"; say one of these with -tls-server-name/,
    ],
    [
      "a wrong -tls-server-name",
      () => failureOf(OURS.rootPem, {}, { serverName: "server.dc2.consul" }),
      /not for "server\.dc2\.consul" but for "DNS:server\.dc1\.consul, IP Address:127\.0\.0\.1"/,
    ],
    [
      "an expired certificate",
      () => failureOf(OURS.rootPem, { notAfterMs: Date.UTC(2020, 1, 2), notBeforeMs: 0 }),
      /"CN=server\.dc1\.consul"\) is valid from 1970-01-01T00:00:00.000Z to 2020-02-02T00:00:00.000Z, and it is 20/,
    ],
  ] as const
) {
  test(`the message about an untrusted agent names the mismatch of its certificate: ${name}`, async () => {
    assert.match(await failure(), pattern);
  });
}

const SHOWN = '-client-cert (CONSUL_CLIENT_CERT) "/c"';
for (
  const [alert, certName, pattern] of [
    [
      "CertificateRequired",
      "",
      /^the PEER wants a certificate: give -client-cert and -client-key$/,
    ],
    ["BadCertificate", "", /^the PEER wants a certificate: give -client-cert and -client-key$/],
    ["HandshakeFailure", "", /^the peer found nothing .*: give -client-cert and -client-key$/],
    ["HandshakeFailure", SHOWN, /asks for$/],
    [
      "UnknownCA",
      SHOWN,
      /^the PEER does not take -client-cert .* "\/c": use one of a CA that its LIST/,
    ],
    ["BadCertificate", SHOWN, /^the PEER does not take -client-cert .* "\/c": use one of a CA/],
    ["ProtocolVersion", "", /^the peer takes no TLS version/],
  ] as const
) {
  for (const [peer, list] of [["agent", "tls.https"], ["server", "tls.defaults"]] as const) {
    test(`explainAlert() reads ${alert} of an ${peer}${certName && ", with a certificate shown"}`, () => {
      const words = tlsWords(`received fatal alert: ${alert}`);
      const texts = { certName, names: PROXY_FLAGS };
      const explained = explainAlert(words, { peer, texts }).replace(`the ${peer} `, "the PEER ")
        .replace(`${list}.ca_file`, "LIST");
      assert.match(explained, pattern);
    });
  }
}

test("explainAlert() names the flags of the command that runs", () => {
  const words = tlsWords("received fatal alert: CertificateRequired");
  assert.equal(
    explainAlert(words, { peer: "server", texts: { certName: "", names: DATAPLANE_FLAGS } }),
    "the server wants a certificate: give -tls-cert and -tls-key",
  );
});
