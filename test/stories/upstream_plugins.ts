/** Plugins at the upstreams of a registration, and lists that are joined with those of proxy-defaults. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import type { Agents } from "../kit/mesh/mesh.ts";
import { ready } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";

/** A filter that adds its mark to the request field `x-marks`. */
const markOf = (name: string, mark = name) => `
import * as v from "valibot";
export default {
  name: "${name}", api: 1, phase: "filter", config: v.strictObject({}),
  create: () => ({
    onRequest: ({ request }, next) => {
      const marks = [request.headers.get("x-marks"), "${mark}"].filter(Boolean).join(" ");
      return next({ request: request.with({ headers: { set: { "x-marks": marks } } }) });
    },
  }),
};
`;

export function upstreamPlugins(agents: Agents): void {
  test("plugins of an upstream are joined with those of all proxies, followed live, and kept where a list is bad", async () => {
    const directory = await mkdtemp(join(tmpdir(), "postern-upstream-plugins-"));
    try {
      const [fleet, fleetIn, team, own] = ["fleet", "fleet_in", "team", "own"].map((name) => {
        return join(directory, `${name}.js`);
      }) as [string, string, string, string];
      await writeFile(fleet, markOf("fleet"));
      await writeFile(fleetIn, markOf("fleet_in"));
      await writeFile(team, markOf("team"));
      await writeFile(own, markOf("own"));
      await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
      await using origin = await startRawOrigin(
        ({ head }) => answerOf(/^x-marks: (.*)$/mi.exec(head)?.[1]?.trim() ?? "none"),
        { host: mesh.host },
      );
      await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
      await mesh.configEntry({
        Kind: "proxy-defaults",
        Name: "global",
        Config: {
          postern_plugins: [{ use: fleetIn }],
          postern_upstream_plugins: { "*": [{ use: fleet }] },
        },
      });
      await using _db = await mesh.serve({ name: "db", port: origin.port });
      const { port } = await mesh.place();
      const register = (
        config: Readonly<Record<string, unknown>>,
        ofUpstream: Readonly<Record<string, unknown>> = {},
      ) =>
        mesh.register({
          name: "web",
          config,
          upstreams: [{ name: "db", port, config: ofUpstream }],
        });
      await register({});
      await using web = await ready(mesh.runSidecar("web-1", { args: [] }));
      const ask = async () => await (await fetch(`http://${mesh.host}:${port}/`)).text();
      const answers = (wanted: string) =>
        eventually(`requests have the marks ${wanted}`, async () => {
          return await ask().catch(() => "") === wanted;
        });
      await answers("fleet fleet_in");

      await register({ postern_upstream_plugins: { db: [{ use: team }], dbb: [{ use: team }] } });
      await answers("fleet team fleet_in");
      await web.process.waitFor(/postern_upstream_plugins\.dbb is not used/, { timeoutMs: 20_000 });

      await register({ postern_upstream_plugins: { db: [{ use: team }] } }, {
        postern_plugins: [{ use: own }],
      });
      await answers("fleet team own fleet_in");
      const explained = (await web.admin("/explain?upstream=db&format=text")).body;
      for (const place of ["fleet", "team", "own"]) assert.match(explained, new RegExp(place));

      await register({}, { postern_plugins: [{ use: "./own.js" }] });
      await web.process.waitFor(/upstream db: postern_plugins\[0\]\.use must be an absolute path/, {
        timeoutMs: 20_000,
      });
      assert.equal(await ask(), "fleet team own fleet_in", "the last good list stays");
      await writeFile(own, markOf("own", "mended"));
      await register({}, { postern_plugins: [{ use: own }] });
      await answers("fleet mended fleet_in");
    } finally {
      await rm(directory, { recursive: true });
    }
  });
  test("a bundle in Consul's key/value store reaches every sidecar by its digest", async () => {
    const directory = await mkdtemp(join(tmpdir(), "postern-kv-plugins-"));
    try {
      await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
      await using origin = await startRawOrigin(
        ({ head }) => answerOf(/^x-marks: (.*)$/mi.exec(head)?.[1]?.trim() ?? "none"),
        { host: mesh.host },
      );
      /** Writes the bundle of a plugin with that mark under the key; returns its digest. */
      const ship = async (mark: string) => {
        const file = join(directory, `${mark}.js`);
        await writeFile(file, markOf("mark", mark));
        await using command = mesh.run(["plugin", "bundle", file]);
        command.expectEnd();
        assert.equal(
          (await command.process.waitExit({ timeoutMs: 60_000 })).code,
          0,
          command.output,
        );
        const bundle: unknown = JSON.parse(
          await readFile(join(directory, `${mark}.bundle`), "utf8"),
        );
        await mesh.put("/v1/kv/plugins/mark", bundle);
        return createHash("sha256").update(JSON.stringify(bundle)).digest("hex");
      };
      const roll = (digest: string) =>
        mesh.configEntry({
          Kind: "proxy-defaults",
          Name: "global",
          Config: { postern_plugins: [{ use: "consul-kv:plugins/mark", sha256: digest }] },
        });
      await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
      const first = await ship("first");
      await roll(first);
      await using _db = await mesh.serve({ name: "db", port: origin.port });
      const { port } = await mesh.place();
      // Both sidecars of a request have the plugin.
      await mesh.configEntry({ Kind: "service-defaults", Name: "web", Protocol: "http" });
      await using web = await mesh.serve({
        name: "web",
        port: origin.port,
        upstreams: [{ name: "db", port }],
      });
      const ask = async () => await (await fetch(`http://${mesh.host}:${port}/`)).text();
      const answers = (wanted: string) =>
        eventually(`requests have the mark ${wanted}`, async () => {
          return await ask().catch(() => "") === wanted;
        });
      await answers("first");
      // The key changes before the digest does: nothing else runs.
      const second = await ship("second");
      assert.equal(await ask(), "first");
      await roll(second);
      await answers("second");
      await roll("0".repeat(64));
      await web.process.waitFor(/consul-kv:plugins\/mark has the digest/, { timeoutMs: 20_000 });
      assert.equal(await ask(), "second");
    } finally {
      await rm(directory, { recursive: true });
    }
  });
}
