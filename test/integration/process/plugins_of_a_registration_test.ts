import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { answerOf, RawClient, startRawOrigin } from "../../kit/wire/http_raw.ts";
import { ready } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";

const pluginOf = (mark: string) =>
  `import * as v from "valibot";
export default {
  name: "marks", api: 1, phase: "filter", config: v.strictObject({}),
  create: () => ({
    onRequest: ({ request }, next) =>
      next({ request: request.with({ headers: { set: { "x-mark": "${mark}" } } }) }),
  }),
};
`;

test("a registration's plugin is followed live, stays where it breaks, and outlives agent and file", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-plugin-"));
  try {
    const file = join(directory, "marks.js");
    await writeFile(file, "export default {\n  a: 1,,\n};\n");
    await using mesh = await DevMesh.start({ defaultIntentionPolicy: "allow" });
    await using origin = await startRawOrigin(
      ({ head }) => answerOf(/^x-mark: (.*)$/mi.exec(head)?.[1]?.trim() ?? "unmarked"),
      { host: mesh.host },
    );
    await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
    const sidecar = await mesh.place();
    const register = (config: Readonly<Record<string, unknown>>) =>
      mesh.register({ name: "db", port: origin.port, sidecarPort: sidecar.port, config });
    const upstream = { name: "db", ...await mesh.place() };
    await mesh.register({ name: "web", upstreams: [upstream] });
    await register({ postern_plugins: [{ use: file }] });
    const args = ["-state-dir", directory];
    await using web = await ready(mesh.runSidecar("web-1", { args: [] }));
    assert.ok(web);
    const db = mesh.runSidecar("db-1", { args });
    const ask = async () => {
      await using client = await RawClient.open(upstream);
      client.send("GET / HTTP/1.1\r\nHost: db\r\nConnection: close\r\n\r\n");
      return (await client.response()).body;
    };
    const answers = (wanted: string) =>
      eventually(`requests are ${wanted}`, async () => await ask().catch(() => "") === wanted);
    {
      await using it = db;
      // None of its plugins has ever been loaded: no caller is let in past them.
      await it.process.waitFor(/marks\.js:2:\d+/, { timeoutMs: 20_000 });
      assert.notEqual((await it.admin("/ready")).status, 200);
      await writeFile(file, pluginOf("one"));
      it.kill("SIGHUP");
      await answers("one");
      await it.waitReady();

      await register({ postern_plugins: [] });
      await answers("unmarked");
      await writeFile(file, pluginOf("two"));
      await register({ postern_plugins: [{ use: file }] });
      await answers("two");
      await register({ postern_plugins: [{ use: file, sha256: "0".repeat(64) }] });
      await it.process.waitFor(/postern_plugins\[0\]\.sha256 is not the digest/, {
        timeoutMs: 20_000,
      });
      assert.equal(await ask(), "two");
      await register({ postern_plugins: [{ use: file }] });
      await eventually("its state is written", async () => {
        return await it.metric("postern_snapshot_stored_seconds") > 0;
      });
      await mesh.kill();
      await it.stop();
    }
    await rm(file);
    await using again = await ready(mesh.runById("db-1", { args }));
    await again.process.waitFor(/stored snapshot in use/, { timeoutMs: 20_000 });
    await answers("two");
  } finally {
    await rm(directory, { recursive: true });
  }
});
