/** The agent contract against a real Consul: what keeps the embedded agent honest. @module */

import { test } from "node:test";
import { aclContract } from "../conformance/agent/acl.ts";
import type { AgentUnderTest } from "../conformance/agent/client.ts";
import { agentContract } from "../conformance/agent/contract.ts";
import { type Consul, startConsul } from "../kit/mesh/consul.ts";

function underTest(consul: Consul): AgentUnderTest {
  const port = Number(consul.address.slice(consul.address.lastIndexOf(":") + 1));
  const { host, managementToken } = consul;
  return { host, port, managementToken, mayAnswerEarly: true };
}

const open = await startConsul();
agentContract(underTest(open));

const guarded = await startConsul({ acl: true });
aclContract(underTest(guarded));

// A root-level `after` runs beside the last test on Deno; a last test runs after it.
test("the agents end", async () => {
  await open[Symbol.asyncDispose]();
  await guarded[Symbol.asyncDispose]();
});
