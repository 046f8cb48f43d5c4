/**
 * Settings of a mesh that Postern does not implement: `check` lists them, and the log names each once.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { freePort } from "../kit/process/ports.ts";
import type { Agents, Mesh } from "../kit/mesh/mesh.ts";

async function check(
  mesh: Mesh,
  id: string,
  ...flags: readonly string[]
): Promise<{ code: number | null; output: string }> {
  await using checked = mesh.run(["check", "-sidecar-for", id, ...flags]);
  checked.expectEnd();
  const { code } = await checked.process.waitExit({ timeoutMs: 60_000 });
  return { code, output: checked.output };
}

export function unfollowedKeys(agents: Agents): void {
  test("check lists the keys that Postern does not follow, and the log names each once", async () => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    const port = await freePort(mesh.host);
    await mesh.register({ name: "web", upstreams: [{ name: "db", port }] });
    const fine = await check(mesh, "web-1");
    assert.equal(fine.code, 0, fine.output);
    assert.match(fine.output, /answered: web-1-sidecar-proxy, service web, 1 upstream,/);
    assert.match(fine.output, /Postern does everything that this service's configuration asks/);

    await mesh.configEntry({
      Kind: "proxy-defaults",
      Name: "global",
      Config: {
        postern_upstream_plugins: { "*": [{ use: "in_flight_limit", config: { taem: 1 } }] },
      },
    });
    const misspelt = await check(mesh, "web-1");
    assert.equal(misspelt.code, 2, misspelt.output);
    assert.match(
      misspelt.output,
      /^ +refused: plugins: proxy-defaults global: postern_upstream_plugins\["\*"\]\[0\]\.config\.taem/m,
    );

    const config = { envoy_tracing_json: '{"key": "hidden"}', max_conections: 0 };
    await mesh.configEntry({ Kind: "proxy-defaults", Name: "global", Config: config });
    const ignored = await check(mesh, "web-1");
    assert.equal(ignored.code, 0, ignored.output);
    assert.match(ignored.output, /asks for 2 things that Postern does not do:/);
    assert.match(
      ignored.output,
      /^ +ignored: The proxy's config has envoy_tracing_json: /m,
    );
    assert.equal((await check(mesh, "web-1", "-strict")).code, 1);
    assert.match(
      ignored.output,
      /^ +ignored: The proxy's config has max_conections: Postern does not know it/m,
    );
    assert.doesNotMatch(ignored.output, /hidden/);

    await mesh.configEntry({ Kind: "mesh", AllowEnablingPermissiveMutualTLS: true });
    await mesh.configEntry({
      Kind: "service-defaults",
      Name: "web",
      Protocol: "http",
      MutualTLSMode: "permissive",
      EnvoyExtensions: [
        { Name: "builtin/lua", Arguments: { Listener: "inbound", Script: "-- nothing" } },
      ],
    });
    const refused = await check(mesh, "web-1");
    assert.equal(refused.code, 2, refused.output);
    assert.doesNotMatch(refused.output, /^postern: /m);
    assert.match(refused.output, /asks for 4 things that Postern does not do:/);
    assert.match(
      refused.output,
      /^ +refused: service-defaults web: MutualTLSMode: permissive is not supported: /m,
    );
    assert.match(refused.output, /^ +ignored: service-defaults web: EnvoyExtensions\[0\]: /m);

    await using web = await mesh.sidecar("web-1");
    await web.process.waitFor(
      /configuration refused what="service-defaults web: MutualTLSMode" reason="permissive is not/,
      { timeoutMs: 20_000 },
    );
    assert.equal(web.output.match(/envoy_tracing_json/g)?.length, 1);
    assert.equal(web.output.match(/max_conections/g)?.length, 1);
  });
}
