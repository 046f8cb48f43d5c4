import test from "node:test";
import { startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { startMeshPair, waitForPassing } from "../kit/mesh/mesh_pair.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { plainSerial, presentedSerial, readLeaf } from "../kit/wire/tls_probe.ts";

test("a restarted agent issues new leaves; no connection fails", async () => {
  await using server = await startConsul({ acl: true });
  await using agent = await startConsul({ clientOf: server });
  await using pair = await startMeshPair(agent, { defaultChecks: true });
  await waitForPassing(agent, "db");
  await waitForEcho(pair.upstream);
  const dbListener = pair.public;
  const before = await presentedSerial(dbListener, { agent, as: "web" });

  await using load = new Load(pair.upstream);
  await pause(1_000);
  // A restarted agent has no leaves any more and has new ones signed, with new keys.
  await agent.stop("SIGKILL");
  await agent.start();
  const renewed = async () => plainSerial((await readLeaf(agent, "db")).SerialNumber);
  if (await renewed() === before) throw new Error("The agent kept its leaf: this shows nothing");
  await eventually("the sidecar presents the new leaf", async () => {
    return await presentedSerial(dbListener, { agent, as: "web" }) === await renewed();
  }, { timeoutMs: 80_000, everyMs: 500 });
  // Until the restarted agent has looked at its instances again, too.
  await pause(12_000);
  pair.expectFlawless(await load.stop({ atLeast: 300 }), { atLeast: 300 });
});
