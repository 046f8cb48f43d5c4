import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import {
  graceBegins,
  graceEnds,
  setUpWorkload as setUp,
} from "../../../test/kit/secrets/workload_provider.ts";
import { type SvidFields, svidOf } from "../../../test/kit/secrets/workload_server.ts";
import { WITHDRAWAL_GRACE_MS } from "../model/plan.ts";

const WEB = "spiffe://example.org/web";
const API = "spiffe://example.org/api";
const CA = createAuthority({ trustDomain: "example.org" });
const OTHER = createAuthority({ trustDomain: "other.test" });
const web = (options: Partial<SvidFields> = {}) => svidOf(CA, WEB, options);
const api = (options: Partial<SvidFields> = {}) => svidOf(CA, API, options);

/** Follows the agent's first SVID, which is `web`. */
async function setUpWeb(choice: { readonly hint?: string } = {}) {
  const set = await setUp();
  set.server.sendSvids({ svids: [web(choice), api()] });
  const followed = set.follow("certificate", choice);
  assert.deepEqual((await followed.certificate()).uris, [WEB]);
  return {
    set,
    followed,
    /** The id of the next reported secret. */
    next: async () => (await followed.certificate()).uris.join(),
    send: (...svids: readonly SvidFields[]) => set.server.sendSvids({ svids }),
    [Symbol.asyncDispose]: () => set[Symbol.asyncDispose](),
  };
}

test("WorkloadProvider keeps its identity when the agent lists another first", async () => {
  await using rig = await setUpWeb();
  rig.send(api(), web());
  assert.equal(await rig.next(), WEB);
});

test("WorkloadProvider keeps its identity when the agent is back", async () => {
  await using rig = await setUpWeb();
  const { set, followed } = rig;
  set.server.kill();
  await followed.fault("unreachable", /Cannot read from the Workload API/);
  rig.send(api(), web());
  await set.server.start();
  await set.clock.advance(500);
  assert.equal(await rig.next(), WEB);
});

test("WorkloadProvider returns to its identity after a withdrawal of all", async () => {
  await using rig = await setUpWeb();
  const { set, followed } = rig;
  set.server.end("svids", 7, "no identity issued");
  await followed.fault("unreachable", /nothing is registered/);
  await graceEnds(set);
  await followed.removed();
  rig.send(api(), web());
  await set.clock.advance(500);
  assert.equal(await rig.next(), WEB);
});

test("WorkloadProvider keeps an absent identity for the grace before it uses another", async () => {
  await using rig = await setUpWeb();
  const { set, followed } = rig;
  rig.send(api());
  await graceBegins(set);
  await set.clock.advance(WITHDRAWAL_GRACE_MS - 1);
  assert.ok(followed.silent);
  await set.clock.advance(1);
  assert.equal(await rig.next(), API);
  // It stays with the new identity.
  rig.send(web(), api());
  assert.equal(await rig.next(), API);
});

test("WorkloadProvider keeps an identity that is replaced within its grace", async () => {
  await using rig = await setUpWeb();
  const { set, followed } = rig;
  rig.send(api());
  await graceBegins(set);
  rig.send(api(), web());
  assert.equal(await rig.next(), WEB);
  await set.clock.advance(WITHDRAWAL_GRACE_MS);
  assert.ok(followed.silent);
});

test("WorkloadProvider drops an absent identity if the other one cannot be used", async () => {
  await using rig = await setUpWeb();
  const { set, followed } = rig;
  rig.send(api({ key: web().key }));
  await followed.fault("rejected", /does not belong to its leaf/);
  await graceEnds(set);
  await followed.removed();
});

test("WorkloadProvider follows a hint to another identity at once", async () => {
  await using rig = await setUpWeb({ hint: "inner" });
  rig.send(web(), api({ hint: "inner" }));
  assert.equal(await rig.next(), API);
});

test("WorkloadProvider uses the bundle of the identity in use", async () => {
  await using rig = await setUpWeb();
  const { set } = rig;
  // The agent does not implement the method for bundles.
  set.server.end("bundles", 12, "unknown method");
  const partner = svidOf(OTHER, "spiffe://other.test/web");
  rig.send(partner, web());
  assert.equal(await rig.next(), WEB);
  const { bundles } = await set.follow("validation").validation();
  assert.deepEqual(Object.keys(bundles), ["example.org"]);
});
