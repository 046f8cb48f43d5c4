/** A proxy that is restarted while its agent is away serves from its state directory. */

import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { expectRefused, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { ready } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";

const SAID = { timeoutMs: 20_000 };
/** Bun's own is 5 s, which servers that start twice take. */
const LIMIT = { timeout: 240_000 };

export function stateDirectory(agents: Agents): void {
  test("a restart while the agent is away serves from the state directory", LIMIT, async () => {
    const directory = await mkdtemp(join(tmpdir(), "postern-state-"));
    try {
      const args = ["-state-dir", directory];
      await using mesh = await agents.start({ acl: true });
      const token = await mesh.serviceToken("db");
      const run = { args, token };
      await using pair = await startMeshPair(mesh, { both: { args }, db: { token } });
      await waitForEcho(pair.upstream);
      const files = await eventually("both wrote their state", async () => {
        // A file that is being written has another name until it is whole.
        const names = (await readdir(directory)).filter((name) => name.endsWith(".json"));
        return names.length === 2 && names.map((name) => join(directory, name));
      });
      for (const sidecar of [pair.web, pair.db]) {
        await eventually("all that it knows is written", async () => {
          return await sidecar.metric("postern_snapshot_stored_seconds") > 0;
        });
      }
      for (const file of files) assert.equal((await stat(file)).mode & 0o777, 0o600, file);

      await mesh.kill();
      for (const sidecar of [pair.web, pair.db]) assert.equal((await sidecar.stop()).code, 0);
      await expectRefused(pair.upstream);
      {
        await using db = await ready(mesh.runSidecar("db-1", run));
        // The sidecar cannot learn which proxy it is, either way.
        await using _web = await ready(mesh.runById("web-1", { args }));
        await db.process.waitFor(
          /\[WARN\] +(?:agent|consul) is away, stored snapshot in use/,
          SAID,
        );
        // Measured: 0.1 s. A proxy that waited for anything would wait for seconds.
        assert.ok(msBetween(db.output, "starting", "stored snapshot in use") < 2_000, db.output);
        assert.equal(await db.metric("postern_snapshot_restored"), 1);
        await waitForEcho(pair.upstream);
        // It follows the agent when that comes back.
        await mesh.start();
        await eventually("it follows the agent", async () => {
          return await db.metric("postern_snapshot_restored") === 0;
        });
        await mesh.intention("web", "db", "deny");
        await waitForRefusal(pair.upstream);
        await mesh.intention("web", "db", "allow");
        await waitForEcho(pair.upstream);
      }

      // Half a file is no state: nothing of it is used.
      await mesh.kill();
      const file = files.find((name) => name.includes("db-1"));
      assert.ok(file);
      const text = await readFile(file, "utf8");
      await writeFile(file, text.slice(0, Math.floor(text.length / 2)));
      await using blank = mesh.runSidecar("db-1", run);
      const [line] = await blank.process.waitFor(/\[WARN\] +stored snapshot not used[^\n]*/, SAID);
      assert.ok(line.includes(file), line);
      assert.ok(!blank.output.includes("PRIVATE KEY"));
      await eventually("it says that it is not ready", async () => {
        const { status, body } = await blank.admin("/ready");
        return status === 503 && body.includes("waiting for");
      });
      await expectRefused(pair.upstream);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

  test("routes, splits and plugins survive a restart while the agent is away", LIMIT, async () => {
    const directory = await mkdtemp(join(tmpdir(), "postern-state-"));
    try {
      const args = ["-state-dir", join(directory, "state")];
      const file = join(directory, "mark.ts");
      await writeFile(file, MARK);
      await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
      await using old = await startRawOrigin(() => answerOf("db"), { host: mesh.host });
      await using canary = await startRawOrigin(() => answerOf("canary"), { host: mesh.host });
      for (const Name of ["db", "canary"]) {
        await mesh.configEntry({ Kind: "service-defaults", Name, Protocol: "http" });
      }
      await mesh.configEntry({
        Kind: "service-router",
        Name: "db",
        Routes: [{
          Match: { HTTP: { PathPrefix: "/v2/" } },
          Destination: { Service: "canary", PrefixRewrite: "/", NumRetries: 2 },
        }],
      });
      await using _db = await mesh.serve({ name: "db", port: old.port });
      const config = { postern_plugins: [{ use: file, config: { mark: "kept" } }] };
      await mesh.register({ name: "canary", port: canary.port, config });
      const upstream = { name: "db", ...await mesh.place() };
      await mesh.register({ name: "web", upstreams: [upstream] });
      const ask = async (path: string) => {
        const reply = await fetch(`http://${mesh.host}:${upstream.port}${path}`);
        return `${await reply.text()} ${reply.headers.get("x-mark")}`;
      };
      const answers = (path: string, want: string) =>
        eventually(`${path} is answered: ${want}`, async () => {
          return await ask(path).catch(() => "") === want;
        });
      {
        await using web = await mesh.sidecar("web-1", { args });
        await using other = await mesh.sidecar("canary-1", { args });
        await answers("/v2/a", "canary kept");
        await answers("/a", "db null");
        for (const sidecar of [web, other]) {
          await eventually("all that it knows is written", async () => {
            return await sidecar.metric("postern_snapshot_stored_seconds") > 0;
          });
        }
        await mesh.kill();
        for (const sidecar of [web, other]) assert.equal((await sidecar.stop()).code, 0);
      }
      // The bundled plugin is in the state: the file is not read.
      await rm(file);
      await using web = await ready(mesh.runById("web-1", { args }));
      await using _other = await ready(mesh.runById("canary-1", { args }));
      assert.equal(await web.metric("postern_snapshot_restored"), 1);
      await answers("/v2/a", "canary kept");
      await answers("/a", "db null");
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });
}

const MARK = `
import * as v from "valibot";
export default {
  name: "mark",
  api: 1,
  phase: "filter",
  config: v.strictObject({ mark: v.string() }),
  create: (_host, { mark }) => ({
    onRequest: (_args, next) =>
      next({ response: (response) => response.with({ headers: { set: { "x-mark": mark } } }) }),
  }),
};
`;

/** The time between the first log lines that contain these. */
function msBetween(output: string, first: string, last: string): number {
  const [from, to] = [first, last].map((text) => {
    const line = output.split("\n").find((line) => line.includes(text)) ?? "";
    return Date.parse(line.split(" ")[0] ?? "");
  });
  return (to ?? NaN) - (from ?? NaN);
}
