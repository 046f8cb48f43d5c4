/** A router and a splitter decide which of two services gets a request, live. */

import assert from "node:assert/strict";
import test from "node:test";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";

export function routes(agents: Agents): void {
  test("routes and splits between two services are followed live", async (t) => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    const heads: string[] = [];
    await using old = await startRawOrigin(() => answerOf("db"), { host: mesh.host });
    await using canary = await startRawOrigin(({ head }) => {
      heads.push(head);
      return answerOf("canary");
    }, { host: mesh.host });
    for (const Name of ["db", "canary"]) {
      await mesh.configEntry({ Kind: "service-defaults", Name, Protocol: "http" });
    }
    await using _db = await mesh.serve({ name: "db", port: old.port });
    await using _canary = await mesh.serve({ name: "canary", port: canary.port });
    const { port, ...place } = await mesh.place();
    await using web = await mesh.serve({
      name: "web",
      upstreams: [{ name: "db", port, ...place }],
    });

    const ask = async (path: string, headers: Record<string, string> = {}) => {
      const reply = await fetch(`http://${mesh.host}:${port}${path}`, { headers });
      return `${reply.status} ${await reply.text()}`;
    };
    const answers = (want: string, path: string, headers: Record<string, string> = {}) =>
      eventually(
        `${path} is answered by ${want}`,
        async () => await ask(path, headers).catch(() => "") === want,
      );
    const route = (...Routes: readonly object[]) =>
      mesh.configEntry({ Kind: "service-router", Name: "db", Routes });
    const split = (Weight: number) =>
      mesh.configEntry({
        Kind: "service-splitter",
        Name: "db",
        Splits: [{ Weight: 100 - Weight }, { Weight, Service: "canary" }],
      });

    await t.test("without either all goes to one", async () => {
      await answers("200 db", "/");
    });

    await t.test("a header route leads to the other service and sets its headers", async () => {
      const header = (Exact: string) => ({
        Match: { HTTP: { Header: [{ Name: "x-canary", Exact }] } },
        Destination: {
          Service: "canary",
          RequestHeaders: { Set: { "x-routed": Exact } },
          RequestTimeout: "20s",
          NumRetries: 2,
          RetryOn: ["gateway-error"],
          RetryOnStatusCodes: [504],
        },
      });
      await route(header("1"));
      await answers("200 canary", "/", { "x-canary": "1" });
      assert.equal(await ask("/", { "x-canary": "2" }), "200 db");
      assert.equal(await ask("/"), "200 db");
      assert.match(heads.at(-1) ?? "", /x-routed: 1/i);
      await route(header("2"));
      await answers("200 canary", "/", { "x-canary": "2" });
      assert.equal(await ask("/", { "x-canary": "1" }), "200 db");
    });

    await t.test("the first route that matches is taken", async () => {
      await route(
        { Match: { HTTP: { PathExact: "/v2/old" } } },
        { Match: { HTTP: { PathRegex: "/v[0-9]+/.*" } }, Destination: { Service: "canary" } },
      );
      await answers("200 canary", "/v2/new?x");
      assert.deepEqual([await ask("/v2/old"), await ask("/v2")], ["200 db", "200 db"]);
    });

    await t.test("a prefix is rewritten, and the rest of the path stays", async () => {
      await route({
        Match: { HTTP: { PathPrefix: "/v2" } },
        Destination: { Service: "canary", PrefixRewrite: "/" },
      });
      await answers("200 canary", "/v2");
      assert.match(heads.at(-1) ?? "", /^GET \/ HTTP/);
      await ask("/v2/new?old=/v2");
      assert.match(heads.at(-1) ?? "", /^GET \/new\?old=\/v2 HTTP/);
      assert.equal(await ask("/v2../secret"), "400 ");
    });

    await t.test("an unusable chain is refused by name, and the last chain stays", async () => {
      await route({
        Match: { HTTP: { PathPrefix: "/v3" } },
        Destination: { Service: "canary", RequestHeaders: { Set: { "x-a": "%LUCK%" } } },
      });
      await web.process.waitFor(
        /service-router \S*db\S*: Routes\[0\]\.Destination\.RequestHeaders\.Set\S+: it has the operator LUCK/,
        { timeoutMs: 20_000 },
      );
      assert.deepEqual([await ask("/v2"), await ask("/v3")], ["200 canary", "200 db"]);
    });

    await t.test("a split gives the other a tenth, and then all", async () => {
      await route({ Match: { HTTP: { PathExact: "/v2/old" } } });
      await split(100);
      await answers("200 canary", "/");
      await split(10);
      await answers("200 db", "/");
      let others = 0;
      for (let round = 0; round < 20; round++) {
        const asked = await Promise.all(Array.from({ length: 20 }, () => ask("/v2/old")));
        others += asked.filter((answer) => answer === "200 canary").length;
      }
      assert.ok(others >= 37 && others <= 43, `${others} of 400`);
    });

    await t.test("each split has its own headers, and its route's come after them", async () => {
      const leg = (Weight: number, name: string) => ({
        Weight,
        Service: name,
        RequestHeaders: { Set: { "x-leg": `${name} %REQ(x-asked)%`, "x-last": "split" } },
        ResponseHeaders: { Add: { "x-leg": name, "x-order": "split" } },
      });
      await route({
        Match: { HTTP: { PathPrefix: "/legs" } },
        Destination: {
          RequestHeaders: { Set: { "x-last": "%REQ(x-last)% route" } },
          ResponseHeaders: { Add: { "x-order": "route" } },
        },
      });
      await mesh.configEntry({
        Kind: "service-splitter",
        Name: "db",
        Splits: [leg(50, "db"), leg(50, "canary")],
      });
      const asked = async () => {
        const reply = await fetch(`http://${mesh.host}:${port}/legs`, {
          headers: { "x-asked": "now" },
        });
        return [await reply.text(), reply.headers.get("x-leg"), reply.headers.get("x-order")];
      };
      await eventually("splits have headers", async () => (await asked())[1] !== null);
      const by = new Set<unknown>();
      for (let count = 0; count < 100 && by.size < 2; count++) {
        const [answer, leg, order] = await asked();
        assert.deepEqual([leg, order], [answer, "split, route"]);
        by.add(leg);
      }
      assert.deepEqual([...by].sort(), ["canary", "db"]);
      assert.match(heads.at(-1) ?? "", /x-leg: canary now\r\n/i);
      assert.match(heads.at(-1) ?? "", /x-last: split route\r\n/i);
    });
  });
}
