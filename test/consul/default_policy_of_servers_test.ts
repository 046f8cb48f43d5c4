/** What decides beside servers where no intention matches, with a service's own token. */
import assert from "node:assert/strict";
import test from "node:test";
import type { Roots } from "../../src/consul/mod.ts";
import { startCluster } from "../kit/cluster.ts";
import { firstOf, serversOf } from "../kit/live_agents.ts";

// The two where the ACL default says the opposite: other calls would get these wrong.
for (
  const [policy, acl, want] of [["allow", true, "allow"], ["deny", false, "deny"]] as const
) {
  const title = `ACLs ${acl ? "deny" : "off"}, default_intention_policy ${policy}`;
  test(`servers tell the default policy with ${title}: ${want}`, async () => {
    await using cluster = await startCluster({ acl, defaultIntentionPolicy: policy });
    const token = acl ? await cluster.serviceToken("web") : "";
    const agent = serversOf(cluster, { node: "vm-1", token });
    try {
      const { trustDomain } = await firstOf<Roots>((sink) => agent.watchRoots(sink));
      const request = { service: "web", trustDomain, datacenter: "dc1" };
      assert.equal(await firstOf((sink) => agent.watchDefaultPolicy(request, sink)), want);
    } finally {
      agent.close();
    }
  });
}
