import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../../base/mod.ts";
import { Seen } from "../../../../test/kit/consul/agent_client.ts";
import { CatalogRig } from "../../../../test/kit/consul/node_catalog.ts";
import { eventually, fixture, inTurn } from "../../../../test/kit/consul/scripted_agent.ts";
import { readRegistration } from "../../replies/registration.ts";
import type { Registration } from "../../model/values.ts";
import { startWatch } from "../../watch/blocking_query.ts";
import { ownRegistrationQuestion, readOwnRegistration } from "./own_registration.ts";

const ID = "web-1-sidecar-proxy";
const MERGED = fixture("agentless/node_services_merged");

/** A registration without the fields in which the fixtures of one proxy differ. */
function alike(registration: Registration | undefined): unknown {
  assert.ok(registration);
  return { ...registration, id: "", bind: { ...registration.bind, host: "" } };
}

test("readOwnRegistration() reads the same registration as from an agent's reply", () => {
  const agent = readRegistration(fixture("agentless/agent_service_same"), "web-a-sidecar-proxy");
  const server = readOwnRegistration(MERGED, { node: "virt-1", proxyId: ID });
  assert.equal(server?.id, ID);
  assert.equal(server.bind.host, "10.9.9.9");
  assert.deepEqual(alike(server), alike(agent));
  assert.equal(server.upstreams.length, 3, "the fixture has upstreams to compare");
});

test("readOwnRegistration() reads the same registration of a transparent proxy", () => {
  const agent = readRegistration(
    fixture("agentless/agent_service_tproxy_same"),
    "web-a-sidecar-proxy",
  );
  const [row] = fixture("agentless/health_connect_merged_tproxy") as {
    Node: unknown;
    Service: unknown;
  }[];
  const json = { Node: row?.Node, Services: [row?.Service] };
  const server = readOwnRegistration(json, { node: "virt-1", proxyId: ID });
  assert.equal(server?.mode, "transparent");
  assert.deepEqual(alike(server), alike(agent));
});

for (
  const [name, json] of [
    ["an unknown node", { Node: null, Services: null }],
    ["an unknown node, filtered", { Node: null, Services: [] }],
    ["a node without it", { Node: { Node: "virt-1", Datacenter: "dc1" }, Services: [] }],
    ["another id in its place", { Node: null, Services: [{ ID: "web-2-sidecar-proxy" }] }],
  ] as const
) {
  test(`readOwnRegistration() finds nothing in ${name}`, () => {
    assert.equal(readOwnRegistration(json, { node: "virt-1", proxyId: ID }), undefined);
  });
}

for (
  const [name, json] of [
    ["a list", []],
    ["rows that are no objects", { Services: ["x"] }],
    ["rows without a kind", { Services: [{ ID }] }],
  ] as const
) {
  test(`readOwnRegistration() refuses ${name}`, () => {
    assert.throws(() => readOwnRegistration(json, { node: "virt-1", proxyId: ID }), ProxyError);
  });
}

test("ownRegistrationQuestion() waits by index for the merged entry of its own id", async () => {
  await using rig = await CatalogRig.start(inTurn({ json: MERGED, index: 29 }));
  const seen = new Seen<Registration>();
  const watch = startWatch(ownRegistrationQuestion(rig.catalog, ID), {
    sink: seen,
    deps: rig.deps,
  });
  await eventually(() => rig.script.requests.length === 2, "a long poll");
  watch.stop();
  const [first, second] = rig.script.requests;
  assert.equal(first?.path, "/v1/catalog/node-services/virt-1");
  assert.equal(first.query.get("merge-central-config"), "");
  assert.equal(first.query.get("filter"), `ID == "${ID}"`);
  assert.equal(second?.query.get("index"), "29");
  assert.equal(seen.last?.service, "web");
  assert.equal(seen.last.datacenter, "dc1");
});

const GONE = { json: { Node: null, Services: [] }, index: 30 };

test("ownRegistrationQuestion() keeps the last value when the entry is gone, and reads again", async () => {
  await using rig = await CatalogRig.start(inTurn({ json: MERGED, index: 29 }, GONE));
  const seen = new Seen<Registration>();
  const watch = startWatch(ownRegistrationQuestion(rig.catalog, ID), {
    sink: seen,
    deps: rig.deps,
  });
  await eventually(() => seen.errors.length === 1, "the loss");
  assert.deepEqual([seen.codes, seen.values.length], [["agent_not_found"], 1]);
  assert.deepEqual(rig.called, [], "the list is complete, so no other call is needed");
  await rig.clock.advance(2_000);
  await eventually(() => rig.script.requests.length === 3, "another try");
  assert.equal(rig.script.requests[2]?.query.has("index"), false);
  watch.stop();
});

test("ownRegistrationQuestion() waits a moment for an absent entry", async () => {
  await using rig = await CatalogRig.start(inTurn(GONE, { json: MERGED, index: 31 }));
  const seen = new Seen<Registration>();
  const watch = startWatch(ownRegistrationQuestion(rig.catalog, ID), {
    sink: seen,
    deps: rig.deps,
  });
  await eventually(() => seen.values.length === 1, "the entry");
  watch.stop();
  const { query } = rig.script.requests[1] ?? assert.fail();
  assert.deepEqual([query.get("index"), query.get("wait")], ["30", "2000ms"]);
  assert.deepEqual(seen.codes, []);
});

test("ownRegistrationQuestion() waits through earlier writes of the same registration", async () => {
  const soon = [30, 31, 32].map((index) => ({ ...GONE, index }));
  await using rig = await CatalogRig.start(inTurn(...soon, { json: MERGED, index: 33 }));
  const seen = new Seen<Registration>();
  const watch = startWatch(ownRegistrationQuestion(rig.catalog, ID), {
    sink: seen,
    deps: rig.deps,
  });
  await eventually(() => seen.values.length + seen.errors.length > 0, "an answer");
  watch.stop();
  assert.deepEqual([seen.codes, seen.values.length], [[], 1]);
});

test("ownRegistrationQuestion() fails after a moment where no entry appears", async () => {
  await using rig = await CatalogRig.start(inTurn(GONE, GONE));
  const seen = new Seen<Registration>();
  const watch = startWatch(ownRegistrationQuestion(rig.catalog, ID), {
    sink: seen,
    deps: rig.deps,
  });
  await eventually(() => seen.errors.length === 1, "the loss");
  watch.stop();
  assert.deepEqual([seen.codes, rig.script.requests.length], [["agent_not_found"], 2]);
});

for (
  const [name, outcome, code, pattern] of [
    [
      "the proxy exists",
      new Uint8Array(),
      "agent_forbidden",
      /may not see node "virt-1" .*node:read on/,
    ],
    [
      "the proxy does not exist",
      new ProxyError("agent_not_found", "x"),
      "agent_not_found",
      /No proxy/,
    ],
    [
      "the token may not read its name",
      new ProxyError("agent_forbidden", "'service:read'"),
      "agent_forbidden",
      /service:read/,
    ],
    ["the call fails", new ProxyError("agent_unreachable", "x"), "agent_not_found", /node:read on/],
  ] as const
) {
  test(`ownRegistrationQuestion() finds out why a filtered list lacks the proxy: ${name}`, async () => {
    await using rig = await CatalogRig.start(inTurn({ ...GONE, filtered: true }));
    rig.outcome = outcome;
    const seen = new Seen<Registration>();
    const question = ownRegistrationQuestion(rig.catalog, ID);
    const watch = startWatch(question, { sink: seen, deps: rig.deps });
    await eventually(() => seen.errors.length === 1, "the failure");
    watch.stop();
    assert.equal(seen.codes[0], code);
    assert.match(seen.errors[0]?.message ?? "", pattern);
    assert.deepEqual(rig.called, ["GetEnvoyBootstrapParams"]);
  });
}
