import assert from "node:assert/strict";
import { test } from "node:test";
import { credentialsPlan, secretRef } from "../../../test/kit/secrets/secret_peers.ts";
import { CERTIFICATE, storeWorld, WEB } from "../../../test/kit/secrets/secret_store.ts";
import { NOTHING_HELD } from "../parts/own_credentials.ts";
import { SecretsLink } from "./secrets_link.ts";

function linked() {
  const world = storeWorld();
  let created = 0;
  let changes = 0;
  const link = new SecretsLink(() => {
    created++;
    return world.store;
  }, () => void changes++);
  return {
    ...world,
    link,
    get created() {
      return created;
    },
    get notified() {
      return changes;
    },
  };
}

test("SecretsLink makes no store where no secret is wanted", async () => {
  const it = linked();
  it.link.follow({});
  assert.equal(it.created, 0);
  assert.equal(it.link.held, NOTHING_HELD);
  assert.deepEqual(it.link.report(), { statuses: [] });
  assert.deepEqual(it.link.refusals(), []);
  assert.equal(await it.link.fetch({ credentials: "web", name: "a", remote: "" }), false);
  it.link.refresh();
  await it.link.close();
  assert.equal(it.created, 0);
});

test("SecretsLink follows plans, reports changes, and releases everything", async () => {
  const it = linked();
  const plans = { web: WEB };
  it.link.follow(plans);
  it.link.follow(plans);
  assert.equal(it.created, 1);
  assert.equal(it.link.held.credentials.web?.kind, "warming");
  it.providers.of("web").events.onSecret(CERTIFICATE, "1");
  await it.clock.advance(1_000);
  assert.ok(it.notified > 0);
  assert.equal(it.link.held.credentials.web?.kind, "open");
  it.link.follow({});
  assert.deepEqual(it.providers.names, []);
  assert.equal(it.created, 1, "the store stays");
  await it.link.close();
});

test("SecretsLink takes the same plans in a new object for what they are", async () => {
  const it = linked();
  it.link.follow({ web: WEB });
  it.link.follow({ web: credentialsPlan({ certificates: [secretRef("web")] }) });
  assert.equal(it.providers.begun, 1);
  await it.link.close();
});

test("SecretsLink names secrets whose change could not be used, and no others", async () => {
  const it = linked();
  it.link.follow({ web: WEB });
  it.providers.of("web").events.onSecret(CERTIFICATE, "1");
  assert.deepEqual(it.link.refusals(), []);
  it.providers.of("web").events.onRejected("the key is another's");
  assert.deepEqual(it.link.refusals().map(({ reason }) => reason), ["the key is another's"]);
  assert.match(it.link.refusals()[0]?.what ?? "", /^secret web \(sds sds_cluster\)$/);
  await it.link.close();
});

test("SecretsLink.refresh() reads secrets again", async () => {
  const it = linked();
  it.link.follow({ web: WEB });
  it.link.refresh();
  assert.equal(it.providers.of("web").refreshes, 1);
  await it.link.close();
});
