import test from "node:test";
import assert from "node:assert/strict";
import { DevPair } from "../../kit/dev_mesh.ts";
import { EchoClient, expectRefused, waitForEcho } from "../../kit/echo.ts";
import { deadline } from "../../kit/process.ts";
import { promptly } from "../../kit/promptly.ts";

test("a flipped intention closes the open connection within a second, and flips back", async () => {
  await using pair = await DevPair.start();
  await promptly("an open connection is closed", 1_000, async () => {
    pair.agent.setIntention("web", "db", "allow");
    return await closedBy(pair, () => pair.agent.setIntention("web", "db", "deny"));
  });
  await expectRefused(pair.upstream);
  const line = await pair.db.process.waitFor(/connection failed[^\n]*intention_denied[^\n]*/, {
    timeoutMs: 20_000,
  });
  // Who, at which stage, and by which rule.
  assert.match(line[0], /source=spiffe:\/\/[^ ]+\/svc\/web /);
  assert.match(line[0], /stage=relay/);
  assert.match(line[0], /rule="[^"]*web[^"]*deny/);

  pair.agent.setIntention("web", "db", "allow");
  await waitForEcho(pair.upstream);
});

test("a new rule ends what only the default policy allowed", async () => {
  await using pair = await DevPair.start({ mesh: { defaultIntentionPolicy: "allow" } });
  pair.agent.setIntention("web", "db", undefined);
  await promptly("an open connection is closed", 1_000, async () => {
    pair.agent.setIntention("*", "db", undefined);
    return await closedBy(pair, () => pair.agent.setIntention("*", "db", "deny"));
  });
  await expectRefused(pair.upstream);
});

/** Opens a connection, and resolves with the milliseconds from `change` to its end. */
async function closedBy(pair: DevPair, change: () => void): Promise<number> {
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(new TextEncoder().encode("hello"));
  const changed = performance.now();
  change();
  const over = await deadline(open.over, 20_000);
  open.destroy();
  assert.ok(over !== undefined, "it is open after 20 s");
  return over - changed;
}
