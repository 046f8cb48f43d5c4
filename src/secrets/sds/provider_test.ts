import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority } from "../../../test/kit/certificates.ts";
import { SdsClient } from "../../../test/kit/sds_client.ts";
import { inlineBundle, inlineCertificate, startSdsServer } from "../../../test/kit/sds_server.ts";

const authority = createAuthority();
const leaf = authority.issueLeaf({ service: "web" });
const other = authority.issueLeaf({ service: "web" });

for (const api of ["sotw", "delta", "auto"] as const) {
  for (const tcp of [undefined, { port: 0 }]) {
    test(`createSdsProvider() follows a certificate and a bundle by ${api} over ${tcp ? "TCP" : "a unix socket"}`, async () => {
      await using server = await startSdsServer(tcp ? { tcp } : {});
      await using client = new SdsClient({ address: server.address, api });
      server.set(inlineCertificate("web", leaf), inlineBundle("ROOTCA", authority.rootPem));
      const web = client.watch("web");
      const roots = client.watch("ROOTCA", "validation");
      const { secret } = await web.next("secret");
      assert.equal(secret.type === "certificate" && secret.certPem, leaf.certPem);
      const bundle = (await roots.next("secret")).secret;
      assert.equal(bundle.type === "validation" && bundle.validation.kind, "ca");
      server.set(inlineCertificate("web", other));
      const next = (await web.next("secret", 1)).secret;
      assert.equal(next.type === "certificate" && next.certPem, other.certPem);
      assert.equal(server.streams, 1);
    });
  }
}
