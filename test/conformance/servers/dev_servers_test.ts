import { test } from "node:test";
import { systemClock, systemRandom } from "../../../src/base/mod.ts";
import { startDevServers } from "../../../src/dev/mod.ts";
import { serverContract } from "./contract.ts";

const open = await startDevServers({ clock: systemClock, random: systemRandom, count: 1 });
const { httpPort, grpcPort } = open;
serverContract({ host: "127.0.0.1", httpPort, grpcPort, managementToken: "" });

// A root-level `after` runs beside the last test on Deno; a last test runs after it.
test("the servers close", () => open.close());
