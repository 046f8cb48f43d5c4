/** Beside servers a proxy is found on its node, and an error names what hides it. */
import assert from "node:assert/strict";
import test from "node:test";
import { ProxyError } from "../../src/base/mod.ts";
import { startCluster } from "../kit/mesh/cluster.ts";
import { registrationOf, serversOf } from "../kit/mesh/live_agents.ts";

const SERVICES = `
  service "web" { policy = "write" }
  service "web-sidecar-proxy" { policy = "write" }
  service_prefix "" { policy = "read" }
`;

function failsWith(code: string, pattern: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ProxyError);
    assert.equal(error.code, code, error.message);
    assert.match(error.message, pattern);
    return true;
  };
}

test("a proxy is found on its node, and a token without the right gets an error", async () => {
  await using cluster = await startCluster({ acl: true });
  const id = await cluster.register({ name: "web", upstreams: [{ name: "db", port: 9191 }] });
  const proxyId = `${id}-sidecar-proxy`;
  const node = cluster.nodeOf(id);
  const token = await cluster.serviceToken("web");

  const agent = serversOf(cluster, { node: node.toUpperCase(), token });
  assert.equal(await agent.findSidecar(id.toUpperCase()), proxyId);
  assert.equal(await agent.findProxy(proxyId.toUpperCase()), proxyId);
  await assert.rejects(agent.findProxy(id), failsWith("usage", /it is a service, not a proxy/));
  await assert.rejects(
    agent.findProxy('no"pe'),
    failsWith("agent_not_found", /No proxy is registered as no"pe .*there: web-1-sidecar-proxy$/),
  );
  const registration = await registrationOf(agent, proxyId);
  assert.deepEqual(await agent.checkRights(registration), { kind: "checked", missing: [] });
  agent.close();

  const blind = serversOf(cluster, { node, token: await cluster.tokenWithRules(SERVICES) });
  const lacking = failsWith("agent_forbidden", new RegExp(`node:read on "${node}"`));
  await assert.rejects(blind.findProxy(proxyId), lacking);
  await assert.rejects(blind.findSidecar(id), lacking);
  await assert.rejects(blind.findProxy("nope"), failsWith("agent_not_found", /registered as nope/));
  const check = await blind.checkRights(registration);
  assert.ok(check.kind === "checked");
  assert.deepEqual(check.missing.map(({ right, on }) => [right, on]), [
    ["node:read", node],
    ["node:read", "any node"],
  ]);
  blind.close();

  const anonymous = serversOf(cluster, { node });
  await assert.rejects(
    anonymous.findProxy(proxyId),
    failsWith("agent_forbidden", /anonymous token/),
  );
  anonymous.close();
});
