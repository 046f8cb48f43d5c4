import test from "node:test";
import assert from "node:assert/strict";
import { DevMesh } from "../../kit/dev_mesh.ts";
import { startEcho, waitForEcho } from "../../kit/echo.ts";
import { eventually } from "../../kit/process.ts";

test("a taken port is said, the others serve, and it is bound when it is free", async () => {
  await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
  await using app = await mesh.echo();
  const [inbound, upstream, taken] = [await mesh.place(), await mesh.place(), await mesh.place()];
  const squatters = [await startEcho(inbound), await startEcho(taken)];
  const id = await mesh.register({
    ...{ name: "db", port: app.port, sidecarPort: inbound.port },
    // Itself, so that one sidecar shows both sides.
    upstreams: [{ name: "db", port: upstream.port }, { name: "other", port: taken.port }],
  });
  await using db = mesh.run(["proxy", "-sidecar-for", id, "-admin-bind", "127.0.0.1:0"]);
  for (const { port } of [inbound, taken]) {
    const [line] = await db.process.waitFor(
      new RegExp(`\\[ERROR\\] +listener failed[^\\n]*${port}[^\\n]*`),
      { timeoutMs: 30_000 },
    );
    assert.match(line, /in use/i);
  }
  await eventually("the free one is bound", async () => {
    return new RegExp(`:${upstream.port}$`, "m").test((await db.admin("/listeners")).body);
  });
  // Which, and why.
  for (const [name, { port }] of [["inbound", inbound], ["other", taken]] as const) {
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
  await waitForEcho(upstream);
});
