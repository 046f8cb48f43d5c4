/** The prediction of `postern explain` for a request is its outcome. */

import assert from "node:assert/strict";
import test from "node:test";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import type { Agents, Mesh } from "../kit/mesh/mesh.ts";
import type { Postern } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";

export function explained(agents: Agents): void {
  test("a request is explained as it goes", async (t) => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "deny" });
    await using old = await startRawOrigin(() => answerOf("db"), { host: mesh.host });
    await using canary = await startRawOrigin(() => answerOf("canary"), { host: mesh.host });
    for (const Name of ["db", "canary"]) {
      await mesh.configEntry({ Kind: "service-defaults", Name, Protocol: "http" });
      await mesh.configEntry({
        Kind: "service-intentions",
        Name,
        Sources: [{
          Name: "web",
          Permissions: [
            { Action: "deny", HTTP: { PathPrefix: "/admin" } },
            { Action: "allow", HTTP: { PathPrefix: "/", Methods: ["GET"] } },
          ],
        }],
      });
    }
    await mesh.configEntry({
      Kind: "service-router",
      Name: "db",
      Routes: [{
        Match: { HTTP: { Header: [{ Name: "x-canary", Exact: "s3cret" }] } },
        Destination: { Service: "canary", RequestTimeout: "20s", NumRetries: 2 },
      }],
    });
    await mesh.configEntry({
      Kind: "service-splitter",
      Name: "db",
      Splits: [{ Weight: 90 }, { Weight: 10, Service: "canary" }],
    });
    const config = { balance_inbound_connections: "exact_balance" };
    await using db = await mesh.serve({ name: "db", port: old.port, config });
    await using _canary = await mesh.serve({ name: "canary", port: canary.port });
    const { port, ...place } = await mesh.place();
    const upstreams = [{ name: "db", port, ...place, config: { envoy_cluster_json: "{}" } }];
    await using web = await mesh.serve({ name: "web", upstreams }, { args: ["-workers", "2"] });
    const ask = async (path: string, init?: RequestInit) => {
      const reply = await fetch(`http://${mesh.host}:${port}${path}`, init);
      return `${reply.status} ${await reply.text()}`;
    };
    const headers = { "x-canary": "s3cret" };
    await eventually("the route is followed", async () => {
      return await ask("/", { headers }).catch(() => "") === "200 canary";
    });

    await t.test("its route, plugins, splits and endpoints", async () => {
      const text = await explain(mesh, web, ["http://db/a", "-H", "x-canary: s3cret"]);
      assert.match(
        text,
        /\nask there +postern explain -sidecar-for canary-1 -inbound -source web GET \/a\n/,
      );
      assert.match(text, /^proxy .*\nrequest +GET db\/a\nlistener +\S*db \(outbound, http\)\n/);
      assert.match(text, /\nroute +routes\[0\] \(.*header x-canary\) to canary\n/);
      assert.match(text, /retry +on this route \{.*"numRetries":2/);
      assert.match(text, /timeout +on this route \{"requestTimeoutMs":20000/);
      assert.match(
        text,
        /\nto +100 % of the requests, round_robin\n +sent as GET db\/a\n +first \S*canary\./,
      );
      assert.match(text, /passes Consul's checks, takes connections\n/);
      assert.ok(!text.includes("s3cret"), text);
      const json = JSON.parse(await explain(mesh, web, ["http://db/", "-json"]));
      assert.equal(json.route.name, "default");
      assert.deepEqual(json.splits.map(({ chance }: { chance: number }) => chance), [0.9, 0.1]);
      assert.equal(json.workers, 2);
    });

    await t.test("names the ignored keys of the upstream or proxy in question", async () => {
      const ignored = / has envoy_cluster_json, which is ignored: raw Envoy configuration /;
      assert.match(
        await explain(mesh, web, ["http://db/a"]),
        new RegExp(`\\nunfollowed +Upstream "db"${ignored.source}`),
      );
      const toWeb = await explain(mesh, web, ["-inbound", "-source", "db", "/"], 1);
      assert.doesNotMatch(toWeb, ignored);
      const own = await explain(mesh, db, ["-inbound", "-source", "web", "/a"]);
      assert.match(own, /\nunfollowed +The proxy's config has balance_inbound_connections /);
    });

    await t.test("its intention and permission", async () => {
      const inbound = ["-inbound", "-source", "web"];
      const allowed = await explain(mesh, db, [...inbound, "/a"]);
      assert.match(
        allowed,
        /\nverdict +goes on to the application\nrule +\S+ => \S+ \(precedence 9, permission 2: /,
      );
      assert.match(
        allowed,
        /\npermissions +1 +deny \/admin\* +does not cover it: it needs path \/admin\*\n/,
      );
      assert.match(
        allowed,
        new RegExp(`\\nlocal +${mesh.host}:${old.port}\\n +sent as GET db/a\\n`),
      );
      assert.match(
        await explain(mesh, db, [...inbound, "PUT", "/a"], 1),
        /verdict +refused with 403: /,
      );
      assert.match(await ask("/a", { method: "PUT" }), /^403 /);
      assert.match(await ask("/admin/x"), /^403 /);
      assert.match(await explain(mesh, db, [...inbound, "/x/../admin/x"], 1), /permission 1: deny/);
    });

    await t.test("names the callee's intentions, and a caller that is not in the catalog", async () => {
      const refused = await explain(mesh, web, ["PUT", "http://db/a"], 1);
      assert.match(refused, /\nverdict +refused with 403 by the intentions of db, canary\n/);
      assert.match(refused, /\n +intentions of db: deny: .*no permission: default deny\)\n/);
      const strange = await explain(mesh, db, ["-inbound", "-source", "shpo", "/a"], 1);
      assert.match(
        strange,
        /\n +no service "shpo" is in the catalog of dc1: is the name right\?\n/,
      );
      assert.match(strange, /\nverdict +refused with 403: default deny\n/);
    });

    await t.test("an application that does not listen", async () => {
      await old[Symbol.asyncDispose]();
      const inbound = await explain(mesh, db, ["-inbound", "-source", "web", "/a"], 1);
      assert.match(
        inbound,
        /\nverdict +refused with 503: Cannot dial the service at .*does it run\?/,
      );
      assert.ok(!/holds|goes on/.test(inbound), inbound);
    });

    await t.test("names the upstreams where the asked one is not there", async () => {
      const { code, output } = await run(mesh, web, ["http://nobody/"]);
      assert.equal(code, 2);
      assert.match(output, /there is no upstream "nobody"; there is: db\n/);
    });
  });
}

async function explain(
  mesh: Mesh,
  sidecar: Postern,
  words: readonly string[],
  exitCode = 0,
): Promise<string> {
  const { code, output } = await run(mesh, sidecar, words);
  assert.equal(code, exitCode, output);
  return output;
}

async function run(mesh: Mesh, sidecar: Postern, words: readonly string[]) {
  await using explaining = mesh.run([
    ...["explain", "-admin", await sidecar.adminAddress()],
    ...words,
  ]);
  explaining.expectEnd();
  const { code } = await explaining.process.waitExit({ timeoutMs: 20_000 });
  return { code, output: explaining.output };
}
