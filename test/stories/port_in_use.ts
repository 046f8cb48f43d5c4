/**
 * Ports that another program has: the log names them, free listeners serve, and nothing is given up.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { startEcho, waitForEcho } from "../kit/wire/echo.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { handsOver } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";

export function portInUse(agents: Agents): void {
  test("a taken port is logged, the others serve, and it is bound once it is free", async () => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await using app = await mesh.echo();
    await using _other = await mesh.serve({ name: "other", port: app.port });
    const [inbound, free, taken] = [await mesh.place(), await mesh.place(), await mesh.place()];
    const squatters = [await startEcho(inbound), await startEcho(taken)];
    const id = await mesh.register({
      name: "db",
      port: app.port,
      sidecarPort: inbound.port,
      upstreams: [{ name: "other", port: free.port }, { name: "db", port: taken.port }],
    });
    await using db = mesh.runSidecar(id);
    for (const { port } of [inbound, taken]) {
      const [line] = await db.process.waitFor(
        new RegExp(`\\[ERROR\\] +listener failed[^\\n]*${port}[^\\n]*`),
        { timeoutMs: 60_000 },
      );
      assert.match(line, /in use/i);
    }
    await waitForEcho(free);
    // The log names the listener and the reason.
    for (const [name, { port }] of [["inbound", inbound], ["db", taken]] as const) {
      const reason = new RegExp(`listener \\S*${name} is not bound: .*${port}.*in use`, "i");
      await eventually(`/ready says ${reason}`, async () => {
        const { status, body } = await db.admin("/ready");
        return status === 503 && reason.test(body);
      });
    }
    await eventually("it has tried again", async () => {
      return await db.metric("postern_listen_failures_total") >= 4;
    });
    // Said once each, however often it was tried.
    assert.equal(db.output.match(/\[ERROR\]/g)?.length, 2);

    for (const squatter of squatters) await squatter.close();
    await db.waitReady();
    // Itself, so that one sidecar shows both sides.
    await waitForEcho(taken);
  });

  test("a second Postern of one id takes over, at once or when the first one ends", async () => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    const id = await mesh.register({ name: "web" });
    // The admin address is the default, where other programs find it.
    await using first = mesh.run(["proxy", "-sidecar-for", id]);
    await first.waitReady();
    await using second = mesh.run(["proxy", "-sidecar-for", id]);
    first.expectEnd();
    if (!handsOver(first)) {
      const rival = `another Postern of ${id}-sidecar-proxy runs on this machine`;
      await second.process.waitFor(new RegExp(`WARN.*${rival}`), { timeoutMs: 60_000 });
      const { status, body } = await second.admin("/ready");
      assert.equal(status, 503);
      const waits = `in use by another process; tried again every second\n${rival}`;
      assert.match(body, new RegExp(waits));
      await first.stop();
    }
    await second.waitReady();
    const exit = await first.process.waitExit({ timeoutMs: 60_000 });
    assert.deepEqual(exit, { code: 0, signal: null });
    assert.equal(await second.adminAddress() === await first.adminAddress(), handsOver(first));
  });

  test("an admin address given by flag that is taken is an error", async () => {
    await using mesh = await agents.start();
    const id = await mesh.register({ name: "web" });
    await using squatter = await mesh.echo();
    const address = `${squatter.host}:${squatter.port}`;
    await using web = mesh.run(["proxy", "-sidecar-for", id, "-admin-bind", address]);
    web.expectEnd();
    assert.equal((await web.process.waitExit({ timeoutMs: 60_000 })).code, 1);
    const said = `Cannot listen on -admin-bind ${address}: the address is in use`;
    assert.ok(web.output.includes(said), web.process.tail());
  });
}
