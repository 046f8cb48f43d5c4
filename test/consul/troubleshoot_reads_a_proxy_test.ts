/**
 * Consul's own troubleshooter, which reads Envoy's admin pages, reports the truth about Postern.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import test from "node:test";
import { consulPath } from "../../scripts/consul.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startConsul } from "../kit/mesh/consul.ts";
import type { Place } from "../kit/wire/echo.ts";
import { startEnvoyTls } from "../kit/peers/envoy_tls.ts";
import { createFileSidecar } from "../kit/mesh/file_sidecar.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { startPostern } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";

function troubleshoot(admin: string, ...args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    const words = ["troubleshoot", ...args, "-envoy-admin-endpoint", admin];
    execFile(consulPath(), words, (_error, stdout, stderr) => resolve(stdout + stderr));
  });
}

test("consul troubleshoot finds an upstream, its cluster and its healthy endpoints", async () => {
  await using server = await startConsul({ acl: true });
  await using pair = await startMeshPair(server);
  const admin = await pair.web.adminAddress();
  assert.match(await troubleshoot(admin, "upstreams"), /explicit upstreams only\) \(1\)\s+db\s/);
  const proxy = (name: string) => troubleshoot(admin, "proxy", "-upstream-envoy-id", name);
  const healthy = /Healthy endpoints for cluster "db\.default\.dc1\.internal\.\S+\.consul"/;
  await eventually("the upstream is healthy", async () => healthy.test(await proxy("db")));
  const found = await proxy("db");
  assert.match(found, /Certificates are valid/);
  assert.match(found, /Upstream resources are valid/);
  assert.match(await proxy("nobody"), /No listener for upstream "nobody"/);
});

/** How long certificates are valid that expire while the proxies run. */
const LIFE_MS = 9_000;
/** The certificates that expire, and the line that troubleshoot prints about them. */
const EXPIRED = {
  "own certificate": "! Certificate chain is expired",
  "mesh's root": "! CA certificate is expired",
  "peer's certificate": "✓ Certificates are valid",
} as const;

test("consul troubleshoot prints the same for Envoy and Postern with an expired certificate", async () => {
  const names = Object.keys(EXPIRED) as (keyof typeof EXPIRED)[];
  // Their waits are shared.
  const ends = await Promise.allSettled(names.map(expectSame));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
});

async function expectSame(expired: keyof typeof EXPIRED): Promise<void> {
  const overrides = { notAfterMs: Date.now() + LIFE_MS };
  const authority = createAuthority(expired === "mesh's root" ? { overrides } : {});
  const issue = (of: keyof typeof EXPIRED) =>
    authority.issueLeaf({ service: "web", ...(expired === of ? { overrides } : {}) });
  const [own, peers] = [issue("own certificate"), issue("peer's certificate")];
  const context = ({ certPem, keyPem }: typeof own) => ({
    common_tls_context: {
      tls_certificates: [{
        certificate_chain: { inline_string: certPem },
        private_key: { inline_string: keyPem },
      }],
      validation_context: { trusted_ca: { inline_string: authority.rootPem } },
    },
  });
  await using mesh = await createFileSidecar();
  await using peer = await startEnvoyTls({
    inbound: { target: mesh.inbound, tls: { ...context(peers), require_client_certificate: true } },
  });
  const target = await eventually("the peer listens", () => peer.place("tls_in"));
  await using envoy = await startEnvoyTls({ outbound: { target, tls: context(own) } });
  const write = (file: string, text: string) => writeFile(join(mesh.directory, file), text);
  await write("web.pem", own.certPem);
  await write("web.key", own.keyPem);
  await write("roots.pem", authority.rootPem);
  const config = JSON.parse(await readFile(join(mesh.directory, "web.json"), "utf8"));
  config.upstreams[0].addresses = [`${target.host}:${target.port}`];
  await write("web.json", JSON.stringify(config));
  await using postern = startPostern(mesh.args, {});
  await eventually("Postern serves", async () => await mesh.readyStatus() === 200);
  const outbound = await eventually("Envoy serves", () => envoy.place("tls_out"));
  await eventually("it has expired", () => Date.now() > overrides.notAfterMs);
  for (
    const [admin, upstream, caller] of [
      [envoy.adminAddress, "tls_out", outbound],
      [await postern.adminAddress(), "web", mesh.upstream],
    ] as const
  ) {
    await connectOnce(caller);
    const found = `${expired}: ${await troubleshoot(
      admin,
      "proxy",
      "-upstream-envoy-id",
      upstream,
    )}`;
    assert.ok(found.includes(EXPIRED[expired]), found);
    assert.equal(found.includes("Certificates are valid"), expired === "peer's certificate", found);
    assert.match(found, /✓ Envoy has 0 rejected configurations/);
    const [, failures] = /has detected (\d+) connection failure/.exec(found) ?? [];
    // The peer that refuses our certificate does so after the handshake is done for us.
    assert.equal(Number(failures) > 0, expired !== "own certificate", found);
  }
}

/** Until the other side ends it. */
function connectOnce(place: Place): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(place, () => socket.write("hello"));
    socket.on("error", () => {}); // However it ends.
    socket.on("close", () => resolve());
  });
}
