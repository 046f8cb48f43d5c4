/** Consul's own troubleshooter, which reads Envoy's admin pages, tells the truth about Postern. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import test from "node:test";
import { consulPath } from "../../scripts/consul.ts";
import { startConsul } from "../kit/consul.ts";
import { startPair } from "../kit/mesh_pair.ts";
import { eventually } from "../kit/process.ts";

test("consul troubleshoot finds an upstream, its cluster and whether somebody is there", async () => {
  await using server = await startConsul({ acl: true });
  await using pair = await startPair(server);
  const admin = await pair.web.adminAddress();
  const troubleshoot = (...args: string[]) =>
    new Promise<string>((resolve) => {
      const words = ["troubleshoot", ...args, "-envoy-admin-endpoint", admin];
      execFile(consulPath(), words, (_error, stdout, stderr) => resolve(stdout + stderr));
    });
  assert.match(await troubleshoot("upstreams"), /explicit upstreams only\) \(1\)\s+db\s/);
  const proxy = (name: string) => troubleshoot("proxy", "-upstream-envoy-id", name);
  const healthy = /Healthy endpoints for cluster "db\.default\.dc1\.internal\.\S+\.consul"/;
  await eventually("the upstream is healthy", async () => healthy.test(await proxy("db")));
  const found = await proxy("db");
  assert.match(found, /Certificates are valid/);
  assert.match(found, /Upstream resources are valid/);
  assert.match(await proxy("nobody"), /No listener for upstream "nobody"/);
});
