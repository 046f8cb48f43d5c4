/** `wait-ready -catalog` ends when callers would choose the instance, not when it is up. */

import assert from "node:assert/strict";
import test from "node:test";
import type { Agents, Mesh } from "../kit/mesh/mesh.ts";
import type { Postern } from "../kit/process/postern.ts";

export function waitForCatalog(agents: Agents): void {
  test("wait-ready -catalog waits until the instance passes its checks in the catalog", async () => {
    await using mesh = await agents.start({ acl: true });
    await using app = await mesh.echo();
    const id = await mesh.register({ name: "db", port: app.port });
    const proxyId = `${id}-sidecar-proxy`;
    await mesh.setMaintenance(proxyId, true);
    await using db = await mesh.sidecar(id, await mesh.ownToken("db"));

    const plain = await waitReady(mesh, db, ["-timeout", "0s"]);
    assert.equal(plain.code, 0, plain.output);
    const late = await waitReady(mesh, db, ["-catalog", "-timeout", "0s"]);
    assert.equal(late.code, 1);
    // Beside servers there is no agent with a maintenance mode: the test sets a check.
    const set =
      /NOT_PASSING, .*(?:in maintenance mode on .*, set on service|"maintenance" .*critical)/;
    assert.match(late.output, set);

    const waiting = waitReady(mesh, db, ["-catalog", "-timeout", "60s"]);
    await mesh.setMaintenance(proxyId, false);
    const done = await waiting;
    assert.equal(done.code, 0, done.output);
    const passing = await mesh.get<readonly { readonly Service: { readonly ID: string } }[]>(
      "/v1/health/connect/db?passing",
    );
    assert.deepEqual(passing.map(({ Service }) => Service.ID), [proxyId]);
  });
}

/** Beside an agent: beside servers a proxy does not start without node:read on its own node. */
export function catalogOutOfSight(agents: Agents): void {
  test("wait-ready -catalog names the right that the token lacks", async () => {
    await using mesh = await agents.start({ acl: true });
    const id = await mesh.register({ name: "db" });
    const rules = ["db", "db-sidecar-proxy"].map((name) =>
      `service "${name}" { policy = "write" }`
    );
    const token = await mesh.tokenWithRules(rules.join("\n"));
    await using db = await mesh.sidecar(id, { token });
    const { code, output } = await waitReady(mesh, db, ["-catalog", "-timeout", "0s"]);
    assert.equal(code, 1);
    assert.match(output, /the token takes service:read on "db" and its sidecars, and node:read/);
    assert.ok(!output.includes(token), "it shows the token");
  });
}

async function waitReady(
  mesh: Mesh,
  proxy: Postern,
  args: readonly string[],
): Promise<{ readonly code: number | null; readonly output: string }> {
  await using command = mesh.run(["wait-ready", "-admin", await proxy.adminAddress(), ...args]);
  command.expectEnd();
  const { code } = await command.process.waitExit({ timeoutMs: 90_000 });
  return { code, output: command.output };
}
