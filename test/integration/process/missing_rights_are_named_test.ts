import test from "node:test";
import assert from "node:assert/strict";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DevMesh } from "../../kit/dev_mesh.ts";
import { waitForEcho } from "../../kit/echo.ts";
import { Load } from "../../kit/load.ts";
import { eventually } from "../../kit/process.ts";

/** Everything that `web` with an upstream `db` needs, rule by rule. */
const RULES = {
  "own service": 'service "web" { policy = "write" }',
  "own sidecar": 'service "web-sidecar-proxy" { policy = "write" }',
  "upstream": 'service_prefix "db" { policy = "read" }',
  "nodes": 'node_prefix "" { policy = "read" }',
};

test("each right that a token lacks is named with what it is on", async () => {
  await using mesh = await DevMesh.start({ acl: { defaultPolicy: "deny" } });
  const id = await mesh.register({
    name: "web",
    upstreams: [{ name: "db", port: (await mesh.place()).port }],
  });
  const cases: readonly (readonly [lacks: keyof typeof RULES, named: RegExp])[] = [
    ["own service", /\[ERROR\][^\n]*right=service:write on=web /],
    ["own sidecar", /lacks permission 'service:read' on \\?"web-sidecar-proxy/],
    ["upstream", /\[ERROR\][^\n]*right=service:read on=db [^\n]*upstream db/],
    ["nodes", /\[ERROR\][^\n]*right=node:read on="any node"/],
  ];
  await Promise.all(cases.map(async ([lacks, named]) => {
    const rules = Object.entries(RULES).filter(([name]) => name !== lacks).map(([, rule]) => rule);
    const { secretId } = mesh.agent.addToken({ rules: rules.join("\n") });
    await using web = mesh.run(["proxy", "-sidecar-for", id, "-admin-bind", "off"], {
      env: { CONSUL_HTTP_TOKEN: secretId },
    });
    // Whether it waits for the right or gives up: both are told here.
    web.expectEnd();
    await web.process.waitFor(named, { timeoutMs: 30_000 });
    assert.ok(!web.output.includes(secretId), "it shows its token");
  }));
});

test("a token that is deleted is missed in the log and the metrics, and by no connection", async () => {
  await using mesh = await DevMesh.start({ acl: { defaultPolicy: "deny" } });
  const directory = await mkdtemp(join(tmpdir(), "postern-token-"));
  try {
    await using app = await mesh.echo();
    const token = (name: string) => mesh.agent.addToken({ serviceIdentities: [name] }).secretId;
    await using _db = await mesh.serve({ name: "db", port: app.port }, {
      env: { CONSUL_HTTP_TOKEN: token("db") },
    });
    const upstream = { name: "db", ...await mesh.place() };
    const later = { name: "db2", ...await mesh.place() };
    const web = { name: "web", sidecarPort: (await mesh.place()).port };
    const id = await mesh.register({ ...web, upstreams: [upstream] });
    mesh.agent.setIntention("web", "db", "allow");
    const file = join(directory, "token");
    const first = mesh.agent.addToken({ serviceIdentities: ["web"] });
    await writeFile(file, `${first.secretId}\n`);
    await using sidecar = await mesh.sidecar(id, { args: ["-token-file", file] });
    await waitForEcho(upstream);
    await using load = new Load(upstream);

    mesh.agent.removeToken(first.accessorId);
    // What waits keeps its answer; the change makes it ask again, and be refused.
    await mesh.register({ ...web, upstreams: [upstream, later] });
    mesh.agent.setIntention("other", "web", "deny");
    await sidecar.process.waitFor(/\[WARN\][^\n]*agent_forbidden[^\n]*ACL not found/, {
      timeoutMs: 30_000,
    });
    await eventually("a metric says so", async () => {
      const { body } = await sidecar.admin("/stats/prometheus");
      return /^postern_snapshot_stale\{reason="agent_forbidden"\} [1-9]/m.test(body);
    });

    // As a secret manager does it: the new file takes the old one's name in one step.
    await writeFile(`${file}.new`, `${token("web")}\n`);
    await rename(`${file}.new`, file);
    // At once instead of when the pause after a 403 is over.
    sidecar.kill("SIGHUP");
    await sidecar.process.waitFor(/agent token read/, { timeoutMs: 30_000 });
    mesh.agent.setConfigEntry({
      Kind: "service-resolver",
      Name: "db2",
      Redirect: { Service: "db" },
    });
    await waitForEcho(later, { timeoutMs: 30_000 });
    const result = await load.stop({ atLeast: 51 });
    assert.equal(result.errors, 0, result.messages.join("\n"));
    assert.ok(result.exchanges > 50);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
