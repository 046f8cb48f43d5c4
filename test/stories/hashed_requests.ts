/**
 * The user of a request decides which instance answers it, where a resolver has a hash policy; changes
 * apply live.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";

const NAMES = ["one", "two", "three"];
/**
 * No multiple of the number of instances, so that round robin moves each user to another the next time.
 */
const USERS = Array.from({ length: 25 }, (_, index) => `user-${index}`);

export function hashedRequests(agents: Agents): void {
  test("requests of one user stay with one instance where a resolver says so", async (t) => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await using own = new AsyncDisposableStack();
    await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
    for (const name of NAMES) {
      const app = own.use(await startRawOrigin(() => answerOf(name), { host: mesh.host }));
      own.use(await mesh.serve({ name: "db", id: `db-${name}`, port: app.port }));
    }
    const db = { name: "db", ...await mesh.place() };
    own.use(await mesh.serve({ name: "web", upstreams: [db] }));

    const fetchOf = (headers: Record<string, string>, path = "/") =>
      fetch(`http://${db.host}:${db.port}${path}`, { headers });
    const ask = async (headers: Record<string, string> = {}) => {
      const reply = await fetchOf(headers);
      return { by: await reply.text(), cookies: reply.headers.getSetCookie() };
    };
    const owners = async (path = "/") => {
      const asked = [];
      for (const user of USERS) asked.push(await (await fetchOf({ "x-user": user }, path)).text());
      return asked;
    };
    const spread = async (by: readonly string[]) => {
      const found = await owners();
      return by.every((name) => found.includes(name)) && found.every((name) => by.includes(name));
    };
    const resolve = (Policy: string) =>
      mesh.configEntry({
        Kind: "service-resolver",
        Name: "db",
        LoadBalancer: {
          Policy,
          HashPolicies: [
            { Field: "header", FieldValue: "X-User", Terminal: true },
            { Field: "cookie", FieldValue: "place", CookieConfig: { TTL: "90s", Path: "/" } },
          ],
        },
      });
    await eventually("all instances answer", () => spread(NAMES));

    let before = "";
    for (const policy of ["maglev", "ring_hash"]) {
      await t.test(`requests with the same header stay with ${policy}`, async () => {
        await resolve(policy);
        await eventually("they stay, elsewhere than before", async () => {
          const now = (await owners()).join();
          return now !== before && now === (await owners()).join();
        });
        before = (await owners()).join();
        assert.ok(await spread(NAMES));
      });
    }

    await t.test("other requests get a cookie that keeps their instance", async () => {
      const { by, cookies } = await ask();
      const [cookie] = cookies;
      assert.match(cookie ?? "", /^place="[0-9a-f]{16}"; Max-Age=90; Path=\/; HttpOnly$/);
      for (let time = 0; time < 6; time++) {
        const again = await ask({ cookie: cookie?.split(";")[0] ?? "" });
        assert.deepEqual(again, { by, cookies: [] });
      }
    });

    await t.test("a route to the service keeps the instance", async () => {
      const HTTP = { PathPrefix: "/own" };
      const Destination = { ResponseHeaders: { Set: { "x-route": "own" } } };
      await mesh.configEntry({
        Kind: "service-router",
        Name: "db",
        Routes: [{ Match: { HTTP }, Destination }],
      });
      await eventually("there is a route", async () => {
        const reply = await fetchOf({}, "/own");
        await reply.body?.cancel();
        return reply.headers.get("x-route") === "own";
      });
      assert.equal((await owners("/own")).join(), before);
    });

    await t.test("only the users of an instance that leaves move, and come back with it", async () => {
      const owned = await owners();
      await mesh.setMaintenance("db-two-sidecar-proxy", true);
      await eventually("it is left", () => spread(["one", "three"]));
      (await owners()).forEach((by, at) => {
        if (owned[at] !== "two") assert.equal(by, owned[at]);
      });
      await mesh.setMaintenance("db-two-sidecar-proxy", false);
      await eventually("they are back", async () => (await owners()).join() === owned.join());
    });
  });
}
