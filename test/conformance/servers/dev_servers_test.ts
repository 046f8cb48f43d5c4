import { test } from "node:test";
import { systemClock, systemRandom } from "../../../src/base/mod.ts";
import { type DevServers, startDevServers } from "../../kit/dev_agent/servers/dev_servers.ts";
import { serverAclContract } from "./acl.ts";
import { serverContract } from "./contract.ts";
import { loginContract } from "./login.ts";

const shared = { clock: systemClock, random: systemRandom, count: 1 };
const MANAGEMENT = "8a9c3ad6-2c1f-4b9e-9f0e-1d6f4a3f0b11";

function underTest({ hosts, httpPort, grpcPort }: DevServers, managementToken: string) {
  return { host: hosts[0] ?? "", httpPort, grpcPort, managementToken };
}

const open = await startDevServers(shared);
serverContract(underTest(open, ""));

const guarded = await startDevServers({
  ...shared,
  acl: { defaultPolicy: "deny", tokens: [{ secretId: MANAGEMENT, management: true }] },
});
serverAclContract(underTest(guarded, MANAGEMENT));
loginContract(underTest(guarded, MANAGEMENT));

// A root-level `after` runs beside the last test on Deno; a last test runs after it.
test("the servers close", () => {
  open.close();
  guarded.close();
});
