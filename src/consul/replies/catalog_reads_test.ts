import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient } from "../../../test/kit/consul/agent_client.ts";
import { inTurn } from "../../../test/kit/consul/scripted_agent.ts";

const ID = "web-1-sidecar-proxy";
const INSTANCE = { service: "web", proxyId: ID, datacenter: "dc1" };
const LOCAL_CHECKS = { "service:web:1": { Node: "n1", ServiceID: ID } };

function row(node: string, statuses: readonly string[], output = "") {
  return {
    Node: { Node: node },
    Service: { ID },
    Checks: statuses.map((Status, at) => ({
      CheckID: `c${at}`,
      Name: `Check ${at}`,
      Status,
      Output: output,
    })),
  };
}

for (
  const [name, rows, local, want] of [
    ["passes", [row("n1", ["passing", "passing"])], LOCAL_CHECKS, []],
    ["has no check", [row("n1", [])], {}, []],
    ["fails a check", [row("N1", ["passing", "critical"], "refused\nmore")], LOCAL_CHECKS, [
      'check "Check 1" (c1) on node "N1" is critical: refused',
    ]],
    ["warns", [row("n1", ["warning"])], LOCAL_CHECKS, [
      'check "Check 0" (c0) on node "n1" is warning',
    ]],
    [
      "is in maintenance mode",
      [row("n1", ["critical"], 'Aliased check "Service Maintenance Mode" failing: ')],
      LOCAL_CHECKS,
      ['in maintenance mode on node "n1", set on its service'],
    ],
    ["has a long output", [row("n1", ["critical"], "x".repeat(300))], LOCAL_CHECKS, [
      `check "Check 0" (c0) on node "n1" is critical: ${"x".repeat(200)}...`,
    ]],
    [
      "passes while an instance of the same id on another node fails",
      [row("n2", ["critical"]), row("n1", ["passing"])],
      LOCAL_CHECKS,
      [],
    ],
    ["is only on another node", [row("n2", ["passing"])], LOCAL_CHECKS, [
      `the catalog has no instance "${ID}" of "web" on node "n1"`,
    ]],
    [
      "is on an unknown node, and any instance of the id fails",
      [row("n2", ["critical"]), row("n1", ["passing"])],
      {},
      ['check "Check 0" (c0) on node "n2" is critical'],
    ],
    ["is absent", null, {}, [`the catalog has no instance "${ID}" of "web"`]],
  ] as const
) {
  test(`askFailingChecks() of an instance that ${name}`, async () => {
    await using client = await AgentClient.start(inTurn({ json: local }, { json: rows }));
    assert.deepEqual(await client.agent.askFailingChecks(INSTANCE), want);
    const [, asked] = client.script.requests;
    assert.equal(asked?.path, "/v1/health/connect/web");
    assert.equal(asked.query.get("filter"), `Service.ID == "${ID}"`);
    for (const cachedOrOld of ["cached", "stale", "index"]) {
      assert.ok(!asked.query.has(cachedOrOld), cachedOrOld);
    }
  });
}

for (
  const [name, answer, want] of [
    [
      "its node",
      { json: [], filtered: true },
      /Cannot see "web-1-sidecar-proxy" in the catalog: the token takes .*node:read on "n1"$/,
    ],
    ["its service", { status: 403, text: "Permission denied" }, /takes service:read on "web"/],
  ] as const
) {
  test(`askFailingChecks() names the right where the token may not read ${name}`, async () => {
    await using client = await AgentClient.start(inTurn({ json: LOCAL_CHECKS }, answer));
    await assert.rejects(client.agent.askFailingChecks(INSTANCE), want);
  });
}
