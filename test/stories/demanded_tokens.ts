/** A service whose intentions demand tokens: live, from the first demand to the issuer's last key. */

import assert from "node:assert/strict";
import test from "node:test";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../kit/wire/http_raw.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";
import { ISSUER, keySetOf, makeIssuer, startKeyServer } from "../kit/certs/tokens.ts";

export function demandedTokens(agents: Agents): void {
  test("an intention's demand for tokens is followed live, and so are the keys", async () => {
    const [one, two] = [await makeIssuer("one"), await makeIssuer("two", "RS256")];
    await using keys = await startKeyServer(keySetOf(one));
    await using mesh = await agents.start({ defaultIntentionPolicy: "deny" });
    const heads: string[] = [];
    await using app = await startRawOrigin(({ head, body }) => {
      if (head.startsWith("GET /slow ")) return undefined;
      heads.push(head);
      return answerOf(body);
    }, { host: mesh.host });
    await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
    const demand = (JWT: object | null) =>
      mesh.configEntry({
        Kind: "service-intentions",
        Name: "db",
        JWT,
        Sources: [{ Name: "web", Action: "allow" }],
      });
    await demand(null);
    await using db = await mesh.serve({ name: "db", port: app.port });
    const upstream = { name: "db", ...await mesh.place() };
    await using _web = await mesh.serve({ name: "web", upstreams: [upstream] });
    const ask = async (token?: string, more = "") => {
      await using client = await RawClient.open(upstream);
      const field = token === undefined ? "" : `Authorization: Bearer ${token}\r\n`;
      const head = `POST /a HTTP/1.1\r\nHost: db\r\nContent-Length: 5\r\n${field}${more}\r\n`;
      client.send(`${head}hello`);
      const answer = await client.response();
      return `${statusOf(answer)} ${answer.body}`;
    };
    await eventually("it is answered", async () => await ask() === "200 hello");
    await using slow = await RawClient.open(upstream);
    slow.send("GET /slow HTTP/1.1\r\nHost: db\r\n\r\n");

    const published = (URI: string) =>
      mesh.configEntry({
        Kind: "jwt-provider",
        Name: "okta",
        Issuer: ISSUER,
        JSONWebKeySet: { Remote: { URI, CacheDuration: "1h" } },
        Forwarding: { HeaderName: "x-claims" },
      });
    await published(keys.uri);
    const okta = { Name: "okta", VerifyClaims: [{ Path: ["role"], Value: "admin" }] };
    await demand({ Providers: [okta] });
    await eventually("who has no token is denied", async () => (await ask()).startsWith("403"));
    assert.equal(statusOf(await slow.response()), 403, "what was under way is denied, too");
    const admin = await one.sign({ role: "admin" });
    await eventually("a token lets in", async () => await ask(admin) === "200 hello");
    assert.match(await ask(await one.sign({ role: "guest" })), /^403 /);
    assert.match(await ask(await one.sign({ role: "admin", exp: 1 })), /^403 /);
    assert.match(await ask(await two.sign({ role: "admin" })), /^403 /);

    // The issuer has a new key at a new place, and the old one is none any more.
    keys.body = keySetOf(two);
    await published(`${keys.uri}?new`);
    const newer = await two.sign({ role: "admin" });
    await eventually("a token of a new key lets in", async () => await ask(newer) === "200 hello");
    assert.match(await ask(admin, "X-Claims: forged\r\n"), /^403 /);

    // Known keys stay in use when the issuer is away.
    await keys[Symbol.asyncDispose]();
    assert.equal(await ask(newer, "X-Claims: forged\r\n"), "200 hello");
    const [last = ""] = heads.slice(-1);
    assert.doesNotMatch(last, /authorization|forged/i);
    const [, claims = ""] = /x-claims: (\S+)/i.exec(last) ?? [];
    assert.equal(JSON.parse(atob(claims)).role, "admin");

    await demand({ Providers: [{ Name: "okta" }] });
    const guest = await two.sign({ role: "guest" });
    await eventually("any token of it lets in", async () => await ask(guest) === "200 hello");
    await demand(null);
    await eventually("no request needs a token any more", async () => await ask() === "200 hello");
    const [line] = await db.process.waitFor(/request failed[^\n]*without a token of okta[^\n]*/, {
      timeoutMs: 20_000,
    });
    assert.match(
      line,
      /rule="default\/web => default\/db \(precedence 9, allow\): without a token of okta with role"/,
    );
    assert.doesNotMatch(db.process.output, /eyJ/);
  });
}
