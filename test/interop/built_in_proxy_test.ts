import test from "node:test";
import { startConsul } from "../kit/consul.ts";
import { assertFlawless, Load } from "../kit/load.ts";
import {
  builtInSidecar,
  expectRefused,
  posternSidecar,
  startPair,
  waitForEcho,
} from "../kit/mesh.ts";
import { pause } from "../kit/process.ts";

for (
  const [title, web, db] of [
    ["Postern calls the built-in proxy", posternSidecar, builtInSidecar],
    ["the built-in proxy calls Postern", builtInSidecar, posternSidecar],
  ] as const
) {
  test(`${title} and is denied by intention`, async () => {
    await using server = await startConsul({ acl: true });
    await using agent = await startConsul({ clientOf: server });
    await using pair = await startPair(agent, { web, db, tokens: true });
    await waitForEcho(pair.upstream);
    await using load = new Load(pair.upstream);
    await pause(3_000);
    assertFlawless(await load.stop(), { atLeast: 300 });

    // Only before a first deny: the built-in proxy's own authorization freezes after some changes.
    await server.intention("web", "db", "deny");
    await pause(1_000);
    await expectRefused(pair.upstream);
  });
}
