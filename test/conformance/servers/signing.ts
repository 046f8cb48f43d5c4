/**
 * The signing requests that a server accepts, those it refuses and in which words (the recorded matrix),
 * and roots.
 *
 * @module
 */

import assert from "node:assert/strict";
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { generateKey } from "../../kit/certs/mint.ts";
import { parsePem } from "../../../src/wire/mod.ts";
import { mintRequest, type RequestedNames } from "../../kit/certs/mint_csr.ts";
import { AgentClient } from "../agent/client.ts";
import { GrpcClient, type ServerUnderTest } from "./grpc_client.ts";

interface Row {
  readonly case: string;
  readonly what: string;
  readonly code: number;
  readonly message?: string;
  readonly publicKey?: string;
  readonly san?: string;
}

const FIXTURE = new URL(
  "../../fixtures/consul/agentless/grpc_sign_csr_matrix.json",
  import.meta.url,
);
const RECORDED_DOMAIN = "64d89eb2-1dbd-5d44-0063-87b549ac2431";
const OTHER_DOMAIN = "00000000-0000-0000-0000-000000000000.consul";

export function signingContract(server: ServerUnderTest): void {
  const grpc = new GrpcClient(server);
  const http = new AgentClient({ ...server, port: server.httpPort });
  const rows = JSON.parse(readFileSync(FIXTURE, "utf8")) as readonly Row[];

  for (const row of rows) {
    test(`Sign: ${row.what} is answered as recorded`, async () => {
      const { TrustDomain } = await http.json<{ TrustDomain: string }>(
        "/v1/agent/connect/ca/roots",
      );
      const here = (text: string) =>
        text.replaceAll(RECORDED_DOMAIN, TrustDomain.slice(0, 36))
          .replaceAll(RECORDED_DOMAIN.toUpperCase(), TrustDomain.slice(0, 36).toUpperCase());
      const { code, details, message } = await grpc.ask("sign", {
        csr: requestOf(row.case, TrustDomain),
      });
      assert.equal(code, row.code, details);
      assert.equal(details, here(row.message ?? ""));
      if (code !== 0) return;
      const blocks = parsePem(String(message["cert_pem"]), { what: "answer" });
      assert.equal(blocks.length, 1);
      const leaf = new X509Certificate(blocks[0]?.der ?? new Uint8Array());
      assert.equal(leaf.subject ?? "", "");
      assert.equal(leaf.ca, false);
      const names = (leaf.subjectAltName ?? "").split(", ").sort();
      assert.deepEqual(names, here(row.san ?? "").split(", ").sort());
      const lifeMs = Date.parse(leaf.validTo) - Date.parse(leaf.validFrom);
      assert.equal(lifeMs, 72 * 3_600_000);
    });
  }
}

function requestOf(name: string, domain: string): string {
  const web = `spiffe://${domain}/ns/default/dc/dc1/svc/web`;
  const key = generateKey();
  const request = (names: RequestedNames) => mintRequest(key, { uris: [web], ...names });
  switch (name) {
    case "ok":
      return request({});
    case "p384":
      return mintRequest(generateKey("ec-p384"), { uris: [web] });
    case "p521":
      return mintRequest(generateKey("ec-p521"), { uris: [web] });
    case "rsa1024":
    case "rsa2048":
    case "rsa4096": {
      const modulusLength = Number(name.slice(3));
      return mintRequest(generateKeyPairSync("rsa", { modulusLength }), { uris: [web] });
    }
    case "ed25519":
      return mintRequest(generateKey("ed25519"), { uris: [web] });
    case "cn":
    case "subj":
      return request({ subject: "web.svc.default" });
    case "dnsextra":
      return request({ dnsNames: ["web.example.com"], ips: [[10, 0, 0, 1]] });
    case "caflag":
      return request({ ca: true });
    case "badsig":
      return request({ signer: generateKey().privateKey });
    case "nosan":
      return request({ uris: [], subject: "web" });
    case "dnsonly":
      return request({ uris: [], dnsNames: ["web.example.com"] });
    case "twouri":
      return request({ uris: [web, web.replace("web", "api")] });
    case "wrongtd":
      return request({ uris: [web.replace(domain, OTHER_DOMAIN)] });
    case "wrongdc":
      return request({ uris: [web.replace("/dc1/", "/dc9/")] });
    case "nons":
      return request({ uris: [web.replace("/ns/default", "")] });
    case "ns2":
      return request({ uris: [web.replace("/ns/default", "/ns/foo")] });
    case "ap":
      return request({ uris: [web.replace("/ns/", "/ap/default/ns/")] });
    case "upper":
      return request({ uris: [web.replace("svc/web", "svc/WEB")] });
    case "uppertd":
      return request({
        uris: [web.replace(domain, `${domain.slice(0, 36).toUpperCase()}.Consul`)],
      });
    case "junk":
      return request({ uris: ["https://example.com/"] });
    case "td":
      return request({ uris: [`spiffe://${domain}`] });
    case "agent":
      return request({ uris: [`spiffe://${domain}/agent/client/dc/dc1/id/virt-1`] });
    case "mgw":
      return request({ uris: [`spiffe://${domain}/gateway/mesh/dc/dc1`] });
    case "server":
      return request({ uris: [`spiffe://${domain}/agent/server/dc/dc1`] });
    case "garbage":
      return "garbage";
    case "empty":
      return "";
    default:
      throw new TypeError(`no request is known for ${name}`);
  }
}
