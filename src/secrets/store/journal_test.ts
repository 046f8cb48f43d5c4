import assert from "node:assert/strict";
import { test } from "node:test";
import {
  certificateSecret,
  credentialsPlan,
  secretRef,
} from "../../../test/kit/secrets/secret_peers.ts";
import { FILE, storeWorld, WORKLOAD } from "../../../test/kit/secrets/secret_store.ts";

const idOf = (name: string) => `spiffe://example.org/${name}`;
const svid = (serial: string, ...names: readonly string[]) => ({
  ...certificateSecret(serial),
  uris: names.map(idOf),
});

for (
  const [name, second, message, old_uri, detail] of [
    [
      "reports the id of a renewed certificate",
      svid("02", "web"),
      "certificate rotated",
      undefined,
      "",
    ],
    [
      "warns when a certificate comes with another id",
      svid("02", "api"),
      "certificate rotated with another identity",
      idOf("web"),
      `, was ${idOf("web")}`,
    ],
    [
      "warns when a certificate loses its id",
      svid("02"),
      "certificate rotated with another identity",
      idOf("web"),
      `, was ${idOf("web")}`,
    ],
  ] as const
) {
  test(`SecretJournal ${name}`, () => {
    const { store, providers, log, reported } = storeWorld();
    store.follow({ web: credentialsPlan({ certificates: [secretRef("web", { source: FILE })] }) });
    const { events } = providers.of("web");
    events.onSecret(svid("01", "web"), "");
    assert.equal(log.lines.at(-1)?.fields?.uri, idOf("web"));
    events.onSecret(second, "");
    const { message: logged, level, fields } = log.lines.at(-1) ?? {};
    assert.deepEqual([logged, level], [message, old_uri ? "warn" : "info"]);
    assert.deepEqual([fields?.uri, fields?.old_uri], [second.uris[0], old_uri]);
    assert.ok(reported.at(-1)?.detail.endsWith(detail));
    assert.match(reported[0]?.detail ?? "", /, spiffe:\/\/example\.org\/web$/);
  });
}

test("SecretJournal warns when another identity follows a withdrawal", () => {
  const { store, providers, log } = storeWorld();
  store.follow({
    web: credentialsPlan({ certificates: [secretRef("web", { source: WORKLOAD })] }),
  });
  const { events } = providers.of("web");
  events.onSecret(svid("01", "web"), "");
  events.onRemoved();
  events.onSecret(svid("02", "web"), "");
  assert.equal(log.lines.at(-1)?.level, "info");
  events.onRemoved();
  events.onSecret(svid("03", "api"), "");
  const { message, level, fields } = log.lines.at(-1) ?? {};
  assert.deepEqual([message, level], ["secret loaded with another identity", "warn"]);
  assert.equal(fields?.old_uri, idOf("web"));
});
