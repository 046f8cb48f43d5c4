/** A plugin of an upstream chooses the target of a request. */

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";

/** A tenth of the users goes to the subset v2; `x-target` names any target. */
const CANARY = `
import * as v from "valibot";
export default {
  name: "canary", api: 1, phase: "filter", config: v.strictObject({}),
  routeConfig: v.strictObject({ mark: v.string() }),
  create: () => ({
    onRequest({ request, routeConfig }, next) {
      if (request.path === "/mark") {
        const headers = { set: { "x-mark": routeConfig?.mark ?? "none" } };
        return next({ response: (response) => response.with({ headers }) });
      }
      const target = request.headers.get("x-target");
      if (target !== undefined) return next({ target: JSON.parse(target) });
      const user = Number(request.headers.get("x-user") ?? -1);
      return user >= 0 && user % 10 === 0 ? next({ target: { subset: "v2" } }) : next();
    },
  }),
};
`;

export function chosenTargets(agents: Agents): void {
  test("a plugin sends a share of the requests to a subset, and others to any target of its upstream or to another upstream", async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "postern-canary-"));
    try {
      const file = join(directory, "canary.js");
      const accessLog = join(directory, "access.log");
      await writeFile(file, CANARY);
      await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
      await mesh.configEntry({
        Kind: "proxy-defaults",
        Name: "global",
        Config: { protocol: "http" },
        AccessLogs: {
          Enabled: true,
          Type: "file",
          Path: accessLog,
          TextFormat: "%REQ(X-USER)% %UPSTREAM_CLUSTER% %UPSTREAM_CHOSEN_BY% %RESPONSE_FLAGS%\n",
        },
      });
      await mesh.configEntry({
        Kind: "service-resolver",
        Name: "db",
        DefaultSubset: "v1",
        Subsets: {
          v1: { Filter: 'Service.Meta.version == "1"' },
          v2: { Filter: 'Service.Meta.version == "2"' },
        },
        Failover: { v1: { Service: "spare" } },
      });
      await mesh.configEntry({
        Kind: "service-splitter",
        Name: "db",
        Splits: [{ Weight: 100, ServiceSubset: "v1" }, { Weight: 0, ServiceSubset: "v2" }],
      });
      const names = ["v1", "v2", "spare", "other"] as const;
      const origins = await Promise.all(
        names.map((name) => startRawOrigin(() => answerOf(name), { host: mesh.host })),
      );
      await using _origins = {
        async [Symbol.asyncDispose]() {
          for (const origin of origins) await origin[Symbol.asyncDispose]();
        },
      };
      const [v1, v2, spare, other] = origins.map(({ port }) => port) as [
        number,
        number,
        number,
        number,
      ];
      await using _v1 = await mesh.serve({
        name: "db",
        id: "db-1",
        port: v1,
        meta: { version: "1" },
      });
      await using _v2 = await mesh.serve({
        name: "db",
        id: "db-2",
        port: v2,
        meta: { version: "2" },
      });
      await using _spare = await mesh.serve({ name: "spare", port: spare });
      await using _other = await mesh.serve({ name: "other", port: other });
      const { port } = await mesh.place();
      const { port: otherPort } = await mesh.place();
      await using web = await mesh.serve({
        name: "web",
        upstreams: [
          {
            name: "db",
            port,
            config: {
              postern_plugins: [{
                use: file,
                routes: { default: { mark: "here" }, "routes[7]": { mark: "nowhere" } },
              }],
            },
          },
          { name: "other", port: otherPort },
        ],
      });
      const ask = async (headers: Record<string, string>) => {
        const reply = await fetch(`http://${mesh.host}:${port}/`, { headers });
        return `${reply.status} ${await reply.text()}`;
      };
      const askAt = (target: object) => ask({ "x-target": JSON.stringify(target) });
      await eventually("all targets are known", async () => {
        const all = [{ subset: "v1" }, { subset: "v2" }, { service: "spare" }, {
          upstream: "other",
        }];
        const answers = await Promise.all(all.map((one) => askAt(one).catch(() => "")));
        return answers.join() === "200 v1,200 v2,200 spare,200 other";
      });

      await t.test("a tenth of the users is answered by the subset of weight 0", async () => {
        const users = Array.from({ length: 100 }, (_, user) => user);
        const answers: string[] = [];
        for (const user of users) answers.push(await ask({ "x-user": String(user) }));
        assert.deepEqual(answers, users.map((user) => user % 10 === 0 ? "200 v2" : "200 v1"));
      });

      await t.test("the list configures the plugin for routes, and an unknown one is named", async () => {
        const reply = await fetch(`http://${mesh.host}:${port}/mark`);
        assert.equal(reply.headers.get("x-mark"), "here");
        await web.process.waitFor(/configuration of a plugin for routes is not used.*routes\[7\]/, {
          timeoutMs: 20_000,
        });
      });

      await t.test("targets have their names, ids and upstreams", async () => {
        assert.equal(await askAt({ id: "v2.db.default.default.dc1" }), "200 v2");
        assert.equal(await askAt({ service: "db", subset: "v2", datacenter: "dc1" }), "200 v2");
        assert.equal(await askAt({ upstream: "other", service: "other" }), "200 other");
      });

      await t.test("a target that is not there is a failure of its own code", async () => {
        assert.equal(await askAt({ subset: "v3" }), "503 ");
        await web.process.waitFor(
          /canary chose \{\\?"subset\\?":\\?"v3\\?"\}, which is not there; db has v1\.db\.\S+, \S*spare\.\S+, v2\.db\./,
          { timeoutMs: 20_000 },
        );
        assert.equal(await askAt({ service: "db" }), "503 ", "v1 and v2 are both db");
        assert.equal(await askAt({ upstream: "gone" }), "503 ");
        assert.equal(await ask({}), "200 v1");
      });

      await t.test("the access log and explain show the choice", async () => {
        await ask({ "x-user": "90" });
        await eventually("the choice is logged", async () => {
          const lines = (await readFile(accessLog, "utf8")).split("\n");
          return lines.some((line) => /^90 v2\.db\.\S+ canary -$/.test(line)) &&
            lines.some((line) => /^91 \S*v1\.db\.\S+ - -$/.test(line)) &&
            lines.some((line) => /^- - canary NC$/.test(line));
        });
        const { body } = await web.admin("/explain?upstream=db&format=text");
        assert.match(body, /canary: may choose another target: \S*v1\.db\.\S+, .*v2\.db/);
      });
    } finally {
      await rm(directory, { recursive: true });
    }
  });
}
