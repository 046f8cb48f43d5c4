/** The access log is central configuration, which a sidecar follows live. */

import assert from "node:assert/strict";
import test from "node:test";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";

export function accessLog(agents: Agents): void {
  test("the access log of proxy-defaults is followed live, and unusable settings are named", async (t) => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
    await using app = await startRawOrigin(() => answerOf("hello"), { host: mesh.host });
    await using db = await mesh.serve({ name: "db", port: app.port });
    const upstream = { name: "db", ...await mesh.place() };
    await using web = await mesh.serve({ name: "web", upstreams: [upstream] });
    let asked = 0;
    /** Asks for another path each time until a line of that request fits. */
    const line = (what: string, find: (path: string) => RegExp) =>
      eventually(what, async () => {
        const path = `/items/${++asked}`;
        const reply = await fetch(`http://${upstream.host}:${upstream.port}${path}`)
          .catch(() => undefined);
        await reply?.text();
        // Lines are joined for a moment before they are written.
        await db.process.waitFor(find(path), { timeoutMs: 1_000 }).catch(() => undefined);
        return find(path).exec(db.output)?.[0];
      });
    const set = (AccessLogs: object) =>
      mesh.configEntry({ Kind: "proxy-defaults", Name: "global", AccessLogs });

    await t.test("lines in the default format on standard output", async () => {
      await set({ Enabled: true });
      const found = await line("a line of JSON", (path) => {
        return new RegExp(`^\\{"start_time".*"path":"${path}".*\\}$`, "m");
      });
      const { method, response_code, upstream_cluster, user_agent } = JSON.parse(found ?? "");
      assert.deepEqual([method, response_code, upstream_cluster], ["GET", 200, "local_app"]);
      assert.equal(typeof user_agent, "string");
      const seen = await eventually("a line of the caller's side", async () => {
        // It may have got it later than the other side.
        const reply = await fetch(`http://${upstream.host}:${upstream.port}/`);
        await reply.text();
        return /^\{"start_time".*"upstream_cluster":"(db\.default\.[^"]*)"/m.exec(web.output)?.[1];
      });
      assert.match(seen ?? "", /^db\.default\.dc1\.internal\.[0-9a-f-]{36}\.consul$/);
    });

    await t.test("a text format", async () => {
      await set({
        Enabled: true,
        TextFormat: "own %REQ(:PATH)% %RESPONSE_CODE% %DOWNSTREAM_PEER_URI_SAN%",
      });
      const found = await line("a line of text", (path) => {
        return new RegExp(`^own ${path} 200 spiffe://\\S+$`, "m");
      });
      assert.match(found ?? "", /\/svc\/web$/);
    });

    await t.test("the default format where an operator is unknown", async () => {
      await set({ Enabled: true, JSONFormat: '{"other":"%FILTER_STATE(x)%"}' });
      await line("a line of JSON again", (path) => {
        return new RegExp(`^\\{"start_time".*"path":"${path}".*\\}$`, "m");
      });
      const { body } = await db.admin("/config_dump");
      assert.match(body, /JSONFormat has the operator FILTER_STATE, which is not known here/);
    });

    await t.test("no lines once it is turned off", async () => {
      await set({ Enabled: false });
      await eventually("nothing is written any more", async () => {
        const { snapshot } = JSON.parse((await db.admin("/config_dump")).body);
        return snapshot.accessLog === null;
      });
    });
  });
}
