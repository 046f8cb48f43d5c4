import { test } from "node:test";
import { createLog, formatText, systemClock, systemRandom } from "../../../src/base/mod.ts";
import { startTestAgent } from "../../kit/dev_agent/test_agent.ts";
import { aclContract } from "./acl.ts";
import { agentContract } from "./contract.ts";

const log = createLog({
  clock: systemClock,
  holder: { level: "warn" },
  write: (record) => console.error(formatText(record)),
});
const shared = { clock: systemClock, random: systemRandom, log };
const MANAGEMENT = "8a9c3ad6-2c1f-4b9e-9f0e-1d6f4a3f0b11";

const open = await startTestAgent(shared);
agentContract({ host: "127.0.0.1", port: open.port, managementToken: "" });

const guarded = await startTestAgent({
  ...shared,
  acl: { defaultPolicy: "deny", tokens: [{ secretId: MANAGEMENT, management: true }] },
});
aclContract({ host: "127.0.0.1", port: guarded.port, managementToken: MANAGEMENT });

// A root-level `after` runs beside the last test on Deno; a last test runs after it.
test("the agents close", () => {
  open.close();
  guarded.close();
});
