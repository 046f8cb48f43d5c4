import test from "node:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import { peer } from "../../scripts/peers.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { IngressMesh } from "../kit/mesh/ingress.ts";
import { eventually, runToEnd } from "../kit/process/process.ts";
import { inlineCertificate } from "../kit/secrets/sds_server.ts";
import { probeTls, serialOf } from "../kit/wire/tls_probe.ts";

test("the gateway of the page about ingress serves", async () => {
  await using mesh = await IngressMesh.start();
  const place = await mesh.place();
  const page = await readFile(new URL("../../docs/ingress.md", import.meta.url), "utf8");
  const { address } = mesh.sds;
  assert.equal(address.kind, "tcp");
  // This machine's own values in place of the page's.
  const block = (kind: string) => {
    const [, text] =
      page.match(new RegExp(`<!-- example: ${kind} -->\\n\\n\`\`\`hcl\\n(.*?)\`\`\``, "s")) ?? [];
    assert.ok(text, `the page has no example of kind ${kind}`);
    return text.replaceAll("10.0.0.9", place.host).replaceAll("8443", `${place.port}`)
      .replace("unix:///run/sds.sock", `${address.host}:${address.port}`)
      .replace('services = [{ name = "shop" }]', 'services = [{ name = "db" }]');
  };
  const leaf = createAuthority().issueLeaf({ service: "shop" });
  mesh.sds.set(inlineCertificate("shop", leaf));
  const directory = await mkdtemp(join(tmpdir(), "postern-page-"));
  try {
    for (
      const [kind, command] of [["gateway", "services register"], [
        "entry",
        "config write",
      ]] as const
    ) {
      const file = join(directory, `${kind}.hcl`);
      await writeFile(file, block(kind));
      await runToEnd(peer("consul"), [...command.split(" "), file], {
        timeoutMs: 60_000,
        env: {
          CONSUL_HTTP_ADDR: mesh.consul.address,
          CONSUL_HTTP_TOKEN: mesh.consul.managementToken,
        },
      });
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  await using _gateway = await mesh.run();
  await eventually("db is reached", async () => {
    const outcome = await probeTls(place, { servername: "shop.example" });
    return outcome.accepted && outcome.serial === serialOf(leaf.certPem);
  });
});
