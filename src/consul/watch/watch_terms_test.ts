import assert from "node:assert/strict";
import { test } from "node:test";
import { ConsulReach } from "./consul_reach.ts";
import { agentWatchTerms, serversWatchTerms } from "./watch_terms.ts";

const agent = agentWatchTerms(new ConsulReach());
const servers = serversWatchTerms(new ConsulReach());
const CRITICAL = { isCritical: true, failures: 1 };
const OTHER = { isCritical: false, failures: 1 };

for (
  const [what, value, wanted] of [
    [
      "an agent's wait that ends with its connection",
      agent.waitMs({ isCritical: true, isDropped: true }),
      300_000,
    ],
    ["an agent's wait that outlasts its connection", agent.waitMs({ isCritical: true }), 60_000],
    // Only the end of the wait shows that a server is cut off from the others.
    ["a server's wait for rules", servers.waitMs({ isCritical: true }), 30_000],
    ["a server's wait for instances", servers.waitMs({ isDropped: true }), 300_000],
    ["an agent that fails", agent.pauseLimitMs("agent_failed", OTHER), 180_000],
    ["an agent that fails about rules", agent.pauseLimitMs("agent_failed", CRITICAL), 5_000],
    ["servers without a leader", servers.pauseLimitMs("agent_failed", OTHER), 1_000],
    [
      "servers without a leader for long",
      servers.pauseLimitMs("agent_failed", { isCritical: false, failures: 20 }),
      10_000,
    ],
    [
      "rules without a leader for long",
      servers.pauseLimitMs("agent_failed", { isCritical: true, failures: 20 }),
      1_000,
    ],
    [
      "servers without a leader for less",
      servers.pauseLimitMs("agent_failed", { isCritical: false, failures: 19 }),
      1_000,
    ],
    ["servers that are not reached", servers.pauseLimitMs("agent_unreachable", OTHER), 1_000],
    ["servers that are overloaded", servers.pauseLimitMs("agent_overloaded", OTHER), 60_000],
    ["a right that is missing", servers.pauseLimitMs("agent_forbidden", CRITICAL), 60_000],
  ] as const
) {
  test(`${what}: ${wanted} ms`, () => assert.equal(value, wanted));
}
