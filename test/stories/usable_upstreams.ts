/** Upstreams that carry no traffic: each command and page names them, and the reason. */

import assert from "node:assert/strict";
import test from "node:test";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";

export function usableUpstreams(agents: Agents): void {
  test("an upstream that cannot be used is named by every command, with its cause", async (t) => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "deny" });
    await mesh.configEntry({ Kind: "service-defaults", Name: "pay", Protocol: "http" });
    await mesh.configEntry({
      Kind: "service-intentions",
      Name: "pay",
      Sources: [{ Name: "web", Action: "allow" }],
    });
    await mesh.configEntry({
      Kind: "service-intentions",
      Name: "db",
      Sources: [{ Name: "web", Action: "deny" }],
    });
    await using app = await mesh.echo();
    // Its application is down.
    await using pay = await mesh.serve({ name: "pay" });
    await using db = await mesh.serve({ name: "db", port: app.port });
    const at = await Promise.all(["pay", "cache", "db", "far"].map(() => mesh.place()));
    const [toPay = 0, toCache = 0, toDb = 0, toFar = 0] = at.map(({ port }) => port);
    const upstreams = [
      { name: "pay", port: toPay },
      { name: "cache", port: toCache },
      { name: "db", port: toDb },
      { name: "db", port: toFar, datacenter: "dc2", config: { mesh_gateway: { mode: "local" } } },
    ];
    const id = await mesh.register({ name: "web", upstreams });
    await using web = await mesh.sidecar(id);
    const admin = await web.adminAddress();
    const run = async (words: readonly string[]) => {
      const choice = words[0] === "check" ? [] : ["-admin", admin];
      await using command = mesh.run([...words.slice(0, 1), ...choice, ...words.slice(1)]);
      command.expectEnd();
      const { code } = await command.process.waitExit({ timeoutMs: 60_000 });
      return { code, output: command.output };
    };
    const expect = async (words: readonly string[], code: number, ...patterns: RegExp[]) => {
      const result = await run(words);
      for (const pattern of patterns) assert.match(result.output, pattern);
      assert.equal(result.code, code, result.output);
      return result.output;
    };
    const far = `${mesh.host}:${toFar}`;
    const refused = /.*wants mesh gateway mode "local"/.source;

    await t.test("explain finds a refused upstream by label, id and address", async () => {
      const want = new RegExp(
        `^proxy .*\nlistener +service:default/default/db\\?dc=dc2 \\(outbound\\)\nverdict +the connection is ` +
          `refused: nothing listens on ${far}: the upstream is refused: ${refused}`,
      );
      for (const name of ["db?dc=dc2", "service:default/default/db?dc=dc2", far]) {
        await expect(["explain", name], 1, want);
      }
      const json = JSON.parse((await run(["explain", "-json", "db?dc=dc2"])).output);
      assert.deepEqual([json.verdict, json.answer.code], ["fail", "listen_failed"]);
      await expect(
        ["explain", "nothing"],
        2,
        new RegExp(`there is: cache db pay; refused: db\\?dc=dc2 \\(${far}\\)\n`),
      );
    });

    await t.test("explain reports that an upstream has no instance", async () => {
      await expect(["explain", "cache"], 1, /\nverdict +the connection is closed: no healthy inst/);
      const json = JSON.parse((await run(["explain", "-json", "cache"])).output);
      assert.deepEqual([json.verdict, json.status], ["fail", 0]);
    });

    await t.test("explain speaks of connections, and names the intention on both sides", async () => {
      const rule = /default\/web => default\/db \(precedence 9, deny\)/.source;
      const output = await expect(
        ["explain", "db"],
        1,
        new RegExp(`\nverdict +the connection is closed by the intentions of db: ${rule}\n`),
        /\nto +100 % of the connections, round_robin\n/,
        /\ntimeouts +idle 1h\n/,
      );
      assert.ok(!output.includes("request"), output);
      await using callee = mesh.run([
        ...["explain", "-admin", await db.adminAddress(), "-inbound", "-source", "web"],
      ]);
      callee.expectEnd();
      assert.equal((await callee.process.waitExit({ timeoutMs: 60_000 })).code, 1);
      assert.match(callee.output, new RegExp(`\nverdict +the connection is closed: ${rule}\n`));
    });

    await t.test("explain names the callee whose application is down", async () => {
      const charge = () => fetch(`http://${mesh.host}:${toPay}/charge?n='1'`);
      await eventually("pay is reached", async () => (await charge()).status === 503);
      await eventually("three requests failed", async () => {
        await charge();
        return /failed [3-9] times in a row/.test((await run(["explain", "http://pay/"])).output);
      });
      const output = await expect(
        ["explain", "http://pay/charge?n='1'"],
        1,
        /\nverdict +leaves this proxy; the last [3-9] requests failed, the last of them was answered 503 by the other side\n/,
        /passes Consul's checks, failed [3-9] times in a row, last with status 503, takes connections\n/,
        /\nlimits +connections +1 of 1024 open, idle until the next requests\n/,
      );
      const json = JSON.parse((await run(["explain", "-json", "http://pay/charge"])).output);
      assert.deepEqual([json.verdict, json.status], ["failing", null]);
      assert.equal(json.splits[0].targets[0].callee.status, undefined);
      const [, command = ""] = /\nask there +postern (.*)\n/.exec(output) ?? [];
      assert.equal(
        command,
        `explain -sidecar-for pay-1 -inbound -source web GET '/charge?n='\\''1'\\'''`,
      );
      await using callee = mesh.run([
        ...["explain", "-admin", await pay.adminAddress()],
        ...["-inbound", "-source", "web", "GET", "/charge?n='1'"],
      ]);
      callee.expectEnd();
      assert.equal((await callee.process.waitExit({ timeoutMs: 60_000 })).code, 1);
      assert.match(callee.output, /\nverdict +refused with 503: Cannot dial the service at /);
    });

    await t.test("wait-ready warns of them, and with -upstreams ends with 1", async () => {
      const troubles = [
        new RegExp(`upstream service:default/default/db\\?dc=dc2: ${refused}`),
        /upstream cache has no healthy instance: nobody is registered as "cache" in dc1/,
        /upstream pay keeps failing: the last [3-9] requests failed, .* 503 by the other side/,
      ];
      await expect(["wait-ready"], 0, ...troubles, /^ready: the proxy at /m);
      await expect(
        ["wait-ready", "-upstreams", "-timeout", "0s"],
        1,
        /status 503, UPSTREAMS_NOT_USABLE, /,
        ...troubles,
      );
      const metrics = await web.admin("/stats/prometheus?filter=upstream_usable");
      for (const [name, usable] of [["db", 1], ["pay", 0], ["cache", 0], ["db?dc=dc2", 0]]) {
        const line =
          `postern_upstream_usable{listener="service:default/default/${name}"} ${usable}\n`;
        assert.ok(metrics.body.includes(line), line);
      }
    });

    await t.test("check reports on standard output the upstreams without a listener", async () => {
      const output = await expect(
        ["check", "-sidecar-for", id],
        2,
        /service web, 4 upstreams, 1 of them refused, /,
        new RegExp(
          `^ +refused: upstream \\S+db\\?dc=dc2: ${refused}.*; nothing listens on ${far}$`,
          "m",
        ),
      );
      assert.doesNotMatch(output, /^postern: /m);
    });

    await t.test("wait-ready -upstreams ends when all can be used", async () => {
      const healed = upstreams.filter(({ port }) => port === toDb);
      await mesh.register({ name: "web", upstreams: healed });
      await expect(["wait-ready", "-upstreams", "-timeout", "60s"], 0, /^ready: the proxy at /m);
    });
  });
}
