/** Which requests an open connection may send is decided anew with each change of the permissions. */

import assert from "node:assert/strict";
import test from "node:test";
import { RawClient, statusOf } from "../kit/wire/http_raw.ts";
import { startPathApp } from "../kit/mesh/l7_requests.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";

export function permissionFlip(agents: Agents): void {
  test("permissions are followed live, and a permission that cannot be judged denies and is named", async () => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await using app = await startPathApp(mesh.host);
    await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
    const permit = (...Permissions: readonly object[]) =>
      mesh.configEntry({
        Kind: "service-intentions",
        Name: "db",
        Sources: [{ Name: "web", Permissions }],
      });
    const allow = (PathExact: string) => ({ Action: "allow", HTTP: { PathExact } });
    // A real agent takes it, too.
    const broken = { Action: "allow", HTTP: { PathRegex: "(", Methods: ["GET"] } };
    const regex = { Action: "allow", HTTP: { PathRegex: "/r[0-9]+", Methods: ["GET"] } };
    await permit(allow("/a"), regex, broken);
    await using db = await mesh.serve({ name: "db", port: app.port });
    const upstream = { name: "db", ...await mesh.place() };
    await using _web = await mesh.serve({ name: "web", upstreams: [upstream] });

    await using client = await RawClient.open(upstream);
    const ask = async (path: string, method = "GET") => {
      client.send(`${method} ${path} HTTP/1.1\r\nHost: db\r\nContent-Length: 0\r\n\r\n`);
      return statusOf(await client.response());
    };
    await eventually("the first is answered", async () => await ask("/a") === 200);
    assert.deepEqual([await ask("/r12"), await ask("/b"), await ask("/b", "PUT")], [200, 403, 200]);
    await db.process.waitFor(/intentions that cannot be judged.*permission 3:.* not one of RE2/, {
      timeoutMs: 20_000,
    });

    await permit({ Action: "deny", HTTP: { PathPrefix: "/a" } });
    await eventually("what was denied is allowed", async () => await ask("/b") === 200);
    assert.equal(await ask("/a"), 403);
    const [line] = await db.process.waitFor(/request failed[^\n]*path=\/a [^\n]*/, {
      timeoutMs: 20_000,
    });
    assert.match(line, /source=spiffe:\/\/[^ ]+\/svc\/web /);
    assert.match(
      line,
      /rule="default\/web => default\/db \(precedence 9, permission 1: deny \/a\*\)"/,
    );
  });
}
