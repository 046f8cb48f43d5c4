import test from "node:test";
import assert from "node:assert/strict";
import { DevPair } from "../../kit/dev_mesh.ts";
import { EchoClient, expectRefused, waitForEcho } from "../../kit/echo.ts";
import { deadline } from "../../kit/process.ts";

test("a flipped intention closes the open connection within a second, and flips back", async () => {
  await using pair = await DevPair.start();
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(new TextEncoder().encode("hello"));

  const flipped = performance.now();
  pair.agent.setIntention("web", "db", "deny");
  const over = await deadline(open.over, 5_000);
  assert.ok(over !== undefined, "it is open after 5 s");
  assert.ok(over - flipped < 1_000, `it took ${Math.round(over - flipped)} ms`);
  open.destroy();
  await expectRefused(pair.upstream);
  const line = await pair.db.process.waitFor(/connection failed[^\n]*intention_denied[^\n]*/, {
    timeoutMs: 2_000,
  });
  // Who, at which stage, and by which rule.
  assert.match(line[0], /source=spiffe:\/\/[^ ]+\/svc\/web /);
  assert.match(line[0], /stage=relay/);
  assert.match(line[0], /rule="[^"]*web[^"]*deny/);

  pair.agent.setIntention("web", "db", "allow");
  await waitForEcho(pair.upstream, { timeoutMs: 5_000 });
});

test("a new rule ends what only the default policy allowed", async () => {
  await using pair = await DevPair.start({ mesh: { defaultIntentionPolicy: "allow" } });
  pair.agent.setIntention("web", "db", undefined);
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(new TextEncoder().encode("hello"));
  pair.agent.setIntention("*", "db", "deny");
  assert.ok(await deadline(open.over, 1_000), "it is open after a second");
  open.destroy();
  await expectRefused(pair.upstream);
});
