import test from "node:test";
import { startConsul } from "../kit/consul.ts";
import { expectRefused, waitForEcho } from "../kit/echo.ts";
import { startPair } from "../kit/mesh_pair.ts";

// What decides when no intention matches; intentions/check would get two of these wrong.
for (
  const [aclDefault, policy, want] of [
    [undefined, undefined, "allow"],
    [undefined, "deny", "deny"],
    ["allow", "deny", "deny"],
    ["allow", undefined, "allow"],
    ["deny", "allow", "allow"],
    ["deny", undefined, "deny"],
  ] as const
) {
  const title = `ACL default ${aclDefault ?? "off"}, default_intention_policy ${policy ?? "unset"}`;
  test(`${title}: ${want}`, async () => {
    await using server = await startConsul({
      ...(aclDefault ? { acl: true, aclDefault } : {}),
      ...(policy ? { defaultIntentionPolicy: policy } : {}),
    });
    await using pair = await startPair(server, { noIntention: true });
    if (want === "allow") await waitForEcho(pair.upstream);
    else await expectRefused(pair.upstream);
  });
}
