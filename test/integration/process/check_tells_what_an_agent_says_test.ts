import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import test from "node:test";
import { formatAddress } from "../../../src/base/mod.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { runPostern } from "../../kit/process/postern.ts";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { startWorkloadServer, svidOf } from "../../kit/secrets/workload_server.ts";

const WEB = "spiffe://example.org/web";
const USER = `uid ${process.getuid?.()}, gid ${process.getgid?.()}`;

test("check shows the Workload API's identities, its caller and the ids on offer", async () => {
  await using mesh = await createFileSidecar();
  const file = join(mesh.directory, "web.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  const ca = createAuthority({ trustDomain: "example.org" });
  await using agent = await startWorkloadServer();
  const check = async (id: string) => {
    config.inbound.tls = { source: "workload", socket: formatAddress(agent.address), id };
    await writeFile(file, JSON.stringify(config));
    await using checked = runPostern(["check", "-config", file]);
    checked.expectEnd();
    const { code } = await checked.process.waitExit({ timeoutMs: 60_000 });
    return { code, output: checked.output };
  };
  agent.sendSvids({ svids: [svidOf(ca, WEB), svidOf(ca, `${WEB}/2`, { hint: "internal" })] });
  const good = await check(WEB);
  assert.equal(good.code, 0, good.output);
  assert.match(good.output, new RegExp(`^asked as ${USER};`, "m"));

  const misspelt = await check("spiffe://example.org/wbe");
  assert.equal(misspelt.code, 2);
  assert.match(
    misspelt.output,
    /such SVID for this process; it offers "\S+\/web", "\S+\/web\/2" with hint "internal"$/m,
  );

  agent.end("svids", 7, "no identity issued");
  const denied = await check(WEB);
  assert.equal(denied.code, 2);
  assert.match(
    denied.output,
    new RegExp(`nothing is registered for this process: ${USER}, pid \\d+ \\(PERMISSION_DENIED`),
  );
  assert.match(denied.output, new RegExp(`^ +asked as ${USER};`, "m"));
});
