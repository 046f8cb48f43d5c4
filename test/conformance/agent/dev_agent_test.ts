import { after } from "node:test";
import { systemClock, systemRandom } from "../../../src/base/mod.ts";
import { startDevAgent } from "../../../src/dev/mod.ts";
import { agentContract } from "./contract.ts";

const agent = await startDevAgent({ clock: systemClock, random: systemRandom });
after(() => agent.close());

agentContract({ host: "127.0.0.1", port: agent.port, managementToken: "" });
