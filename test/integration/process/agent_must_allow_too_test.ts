import test from "node:test";
import assert from "node:assert/strict";
import { DevPair } from "../../kit/dev_mesh.ts";
import { EchoClient, expectRefused, waitForEcho } from "../../kit/echo.ts";

const AUTHORIZE = /POST \/v1\/agent\/connect\/authorize/;

test("-authorize both asks the agent for each connection, and fails closed without it", async () => {
  await using pair = await DevPair.start({ db: { args: ["-authorize", "both"] } });
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(new TextEncoder().encode("hello"));

  // The intentions allow it; the agent says no.
  pair.agent.breakNext(
    AUTHORIZE,
    { kind: "replace", body: '{"Authorized": false, "Reason": "Denied by maintenance"}' },
    Infinity,
  );
  await expectRefused(pair.upstream);
  const denied = await pair.db.process.waitFor(/connection failed[^\n]*intention_denied[^\n]*/, {
    timeoutMs: 20_000,
  });
  assert.match(denied[0], /Denied by maintenance/);

  // A yes alone is not enough.
  pair.agent.mend();
  pair.agent.breakNext(
    AUTHORIZE,
    { kind: "replace", body: '{"Authorized": true, "Reason": "of course"}' },
    Infinity,
  );
  await waitForEcho(pair.upstream);
  pair.agent.setIntention("web", "db", "deny");
  await open.over;
  open.destroy();
  await expectRefused(pair.upstream);
  pair.agent.setIntention("web", "db", "allow");
  await waitForEcho(pair.upstream);

  for (const body of ["{}", "null", '{"Authorized": "true"}', '{"Authorized": tr']) {
    pair.agent.mend();
    pair.agent.breakNext(AUTHORIZE, { kind: "replace", body }, Infinity);
    await expectRefused(pair.upstream);
  }
  pair.agent.mend();
  await waitForEcho(pair.upstream);

  await pair.agent.stop();
  await expectRefused(pair.upstream);
  await pair.db.process.waitFor(/connection failed[^\n]*code=authorize_failed/, {
    timeoutMs: 20_000,
  });
  await pair.agent.start();
  await waitForEcho(pair.upstream);
});
