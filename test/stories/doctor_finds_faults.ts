/** `postern doctor` names each fault of a sidecar with its fix, and finds none once they are repaired. */

import assert from "node:assert/strict";
import test from "node:test";
import { type AskAdmin, askAdmin } from "../../src/admin/mod.ts";
import { parseCommand } from "../../src/app/command_line/args.ts";
import { doctorExitCode, type DoctorFinding } from "../../src/app/commands/doctor/finding.ts";
import { doctorReports } from "../../src/app/commands/doctor/run_doctor.ts";
import type { Agents, Mesh } from "../kit/mesh/mesh.ts";
import { startEcho } from "../kit/wire/echo.ts";

async function reportsOf(
  mesh: Mesh,
  words: readonly string[],
  token: string,
  ask: AskAdmin = askAdmin,
) {
  const agent = ["-http-addr", mesh.address, "-token", token];
  const command = parseCommand(["doctor", ...agent, ...words], {});
  assert.ok(command.kind === "doctor");
  return await doctorReports(command.options, ask);
}

async function examine(
  mesh: Mesh,
  words: readonly string[],
  token = mesh.managementToken,
  ask?: AskAdmin,
) {
  const [report] = await reportsOf(mesh, words, token, ask);
  assert.ok(report);
  return { ...report, exitCode: doctorExitCode(report) };
}

function linesOf(findings: readonly DoctorFinding[]): string {
  return findings.map(({ check, level, what, fix }) => `${level} ${check}: ${what} | ${fix}`)
    .join("\n");
}

/** The only other proxy of the machine: it has the same id, beside the servers of another mesh. */
const askOther: AskAdmin = ({ port }, { path }) => {
  if (port !== 19_050) return Promise.reject(new Error("connection refused"));
  const options = { proxyId: "web-1-sidecar-proxy", servers: "127.0.0.1" };
  const limits = { open_files: 1_024, max_connections: 341 };
  const bodies: Readonly<Record<string, unknown>> = {
    "/server_info": { node: { id: options.proxyId }, postern: { options, limits } },
    "/ready?format=postern": { state: "LIVE", reasons: [], troubles: [] },
    "/listeners?format=postern": { listeners: [] },
    "/certs": { certificates: [] },
  };
  const body = JSON.stringify(bodies[path] ?? {});
  return Promise.resolve({ status: 200, body });
};

/** What a broken sidecar has, by the check that names it. */
const FAULTS = [
  [
    "an intention that denies",
    /^failure calls: db denies web: by .* \| allow it: .*-allow web db$/m,
  ],
  ["an upstream without instances", /^failure upstreams: upstream cache has no healthy instance/m],
  ["other protocols", /^failure protocols: upstream db speaks http2, and instances of db http \|/m],
  ["a setting without effect", /^warning configuration: .*envoy_public_listener_json/m],
  [
    "a rule behind a wider one",
    /^warning intentions: default\/batch => default\/\* .* never appl/m,
  ],
  [
    "a port that is taken",
    /^failure ports: listener \S+\/db cannot bind \S+: the address is in use/m,
  ],
  ["an application that is away", /^failure application: the application of web does not answer/m],
  ["a proxy that does not run", /^warning running: no proxy of these flags runs/m],
] as const;

export function doctorFindsFaults(agents: Agents): void {
  test("doctor names each fault of a sidecar and of its mesh, with the fix", async () => {
    await using mesh = await agents.start({ acl: true });
    await using app = await mesh.echo();
    const entry = { Kind: "service-defaults", Name: "db", Protocol: "http" };
    await mesh.configEntry(entry);
    await using _db = await mesh.serve({ name: "db", port: app.port });
    const [db, cache] = [await mesh.place(), await mesh.place()];
    await using _holder = await startEcho(db);
    await mesh.intention("*", "web", "allow");
    await mesh.intention("batch", "*", "deny");
    const id = await mesh.register({
      name: "web",
      config: { envoy_public_listener_json: "{}" },
      upstreams: [{ name: "db", ...db, config: { protocol: "http2" } }, {
        name: "cache",
        ...cache,
      }],
    });
    const broken = await examine(mesh, ["-sidecar-for", id], mesh.managementToken, askOther);
    assert.equal(broken.exitCode, 1);
    for (const [name, pattern] of FAULTS) {
      assert.match(linesOf(broken.findings), pattern, `${name} is not found`);
    }
    assert.match(broken.proxy, /^web-1-sidecar-proxy of service web, agent \S+, not running$/);

    const weak = await mesh.tokenWithRules(
      'service "web" { policy = "write" }\nservice_prefix "web-" { policy = "write" }\n' +
        'service_prefix "db" { policy = "read" }\nnode_prefix "" { policy = "read" }',
    );
    const rights = await examine(mesh, ["-sidecar-for", id], weak);
    assert.match(
      linesOf(rights.findings),
      /^failure rights: the token lacks service:read on cache \| add service "cache" { policy = "re/m,
    );
    assert.ok(!JSON.stringify(rights).includes(weak), "it shows the token");

    const unknown = await examine(mesh, ["-sidecar-for", "nope"]);
    assert.match(linesOf(unknown.findings), /^failure consul: .*nope.* \| register the service/m);
    const away = await examine(mesh, ["-sidecar-for", id, "-http-addr", "127.0.0.1:1"]);
    assert.equal(away.exitCode, 1);
    assert.match(linesOf(away.findings), /^failure consul: .* \| start the agent, or give its/m);
  });

  test("doctor finds nothing wrong with a sidecar that carries traffic", async () => {
    await using mesh = await agents.start({ acl: true });
    await using app = await mesh.echo();
    await using db = await mesh.serve({ name: "db", port: app.port });
    await mesh.intention("web", "db", "allow");
    const upstream = { name: "db", ...await mesh.place() };
    await using web = await mesh.serve({ name: "web", port: app.port, upstreams: [upstream] });
    const admin = await web.adminAddress();
    const { token = "" } = await mesh.ownToken("web");
    const { findings, exitCode, proxy } = await examine(mesh, ["-admin", admin], token);
    assert.equal(exitCode, 0, linesOf(findings));
    assert.deepEqual(
      findings.filter(({ level, check }) => level !== "ok" && check !== "descriptors"),
      [],
    );
    assert.match(proxy, new RegExp(`, process ${web.pid}$`));
    const ofChecks = new Set(findings.map(({ check }) => check));
    for (const check of ["rights", "catalog", "calls", "protocols", "clock", "running"]) {
      assert.ok(ofChecks.has(check), `nothing says whether ${check} passed`);
    }
    const admins = `${admin},${await db.adminAddress()},127.0.0.1:1`;
    const both = await reportsOf(mesh, ["-admin", admins], mesh.managementToken);
    assert.deepEqual(both.map(({ proxy }) => proxy.replace(/,.*/, "")), [
      "web-1-sidecar-proxy of service web",
      "db-1-sidecar-proxy of service db",
      "the proxy at 127.0.0.1:1",
    ]);
    assert.deepEqual(both.map(doctorExitCode), [0, 0, 1]);
  });
}
