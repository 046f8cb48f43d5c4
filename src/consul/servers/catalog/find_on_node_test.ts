import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../../base/mod.ts";
import { CatalogRig } from "../../../../test/kit/consul/node_catalog.ts";
import { inTurn } from "../../../../test/kit/consul/scripted_agent.ts";
import { anyCase, filterText } from "./node_catalog.ts";
import { findGateway, findProxy, findSidecar } from "./find_on_node.ts";

const NODE = { Node: "virt-1", Datacenter: "dc1" };
const list = (...services: readonly unknown[]) => ({ json: { Node: NODE, Services: services } });

function sidecar(id: string, of = "web-1"): unknown {
  const proxy = { DestinationServiceID: of, DestinationServiceName: "web" };
  return { Kind: "connect-proxy", ID: id, Service: "web-sidecar-proxy", Proxy: proxy };
}

function failsWith(code: string, pattern: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ProxyError);
    assert.equal(error.code, code);
    assert.match(error.message, pattern);
    return true;
  };
}

for (
  const [text, want] of [
    ["web-1", '"web-1"'],
    ['a"b', '"a\\x22b"'],
    ["a\\b\n", '"a\\\\b\\n"'],
  ] as const
) {
  test(`filterText() writes ${JSON.stringify(text)}`, () => assert.equal(filterText(text), want));
}

test("anyCase() escapes every character with a meaning in a pattern", () => {
  assert.equal(anyCase('we.b"*é'), '"(?i)^we\\\\x{2e}b\\\\x{22}\\\\x{2a}\\\\x{e9}$"');
});

test("findSidecar() finds the sidecar of a service id in any case", async () => {
  await using rig = await CatalogRig.start(inTurn(list(sidecar("web-1-sidecar-proxy"))));
  assert.equal(await findSidecar(rig.catalog, "Web-1"), "web-1-sidecar-proxy");
  const [asked] = rig.script.requests;
  assert.equal(
    asked?.query.get("filter"),
    'Kind == "connect-proxy" and Proxy.DestinationServiceID matches "(?i)^Web\\\\x{2d}1$"',
  );
  assert.equal(asked.query.has("stale"), false);
});

test("findSidecar() lists the candidates where there are several or none", async () => {
  const both = list(sidecar("b"), sidecar("a"));
  await using rig = await CatalogRig.start(inTurn(both, list(), list(sidecar("x", "db-1"))));
  await assert.rejects(
    findSidecar(rig.catalog, "web-1"),
    failsWith("usage", /a, b with -proxy-id/),
  );
  await assert.rejects(
    findSidecar(rig.catalog, "web"),
    failsWith("agent_not_found", /for web on node "virt-1".*sidecar there: db-1$/),
  );
});

test("find...() report a node without proxies", async () => {
  await using rig = await CatalogRig.start(inTurn(list(), list(), list(), list()));
  const pattern = /on node "virt-1": no proxy is; register it, or is -node that of another\?$/;
  await assert.rejects(findSidecar(rig.catalog, "web"), failsWith("agent_not_found", pattern));
  await assert.rejects(findProxy(rig.catalog, "web"), failsWith("agent_not_found", pattern));
});

for (
  const [whose, token, filtered] of [["a token", "any", true], ["no token", "", false]] as const
) {
  test(`an entry that ${whose} may not see is not reported as absent`, async () => {
    await using rig = await CatalogRig.start(() => ({ ...list(), filtered }), { token });
    rig.outcome = new Uint8Array();
    const forbidden = failsWith("agent_forbidden", /node:read on "virt-1"/);
    await assert.rejects(findSidecar(rig.catalog, "web"), forbidden);
    await assert.rejects(findProxy(rig.catalog, "web"), forbidden);
    assert.equal(rig.script.requests.length, 2);
    const hint = /^No ingress gateway is registered on .*, or give a token .*node:read on "virt-1"/;
    await assert.rejects(findGateway(rig.catalog, ""), failsWith("agent_not_found", hint));
  });
}

test("findProxy() returns the id in its registered case", async () => {
  await using rig = await CatalogRig.start(inTurn(list(sidecar("web-1-sidecar-proxy"))));
  assert.equal(await findProxy(rig.catalog, "WEB-1-sidecar-proxy"), "web-1-sidecar-proxy");
});

test("findProxy() refuses a service that is no proxy, and lists the node's proxies", async () => {
  const app = list({ ID: "web-1", Service: "web", Proxy: { Mode: "" } });
  const many = list(...[..."nmlkjihgfedc", "b\nx"].map((id) => sidecar(id)));
  await using rig = await CatalogRig.start(inTurn(app, list(), many));
  await assert.rejects(findProxy(rig.catalog, "web-1"), failsWith("usage", /it is a service/));
  await assert.rejects(
    findProxy(rig.catalog, "nope"),
    failsWith("agent_not_found", /as nope on node "virt-1"; .*there: "b\\nx", c, .* and 3 more$/),
  );
});

test("findGateway() finds the gateway of a name", async () => {
  const gateway = (ID: string) => ({ Kind: "ingress-gateway", ID, Service: "in" });
  await using rig = await CatalogRig.start(
    inTurn(
      list(gateway("in-1")),
      list(gateway("b"), gateway("a")),
      list(),
    ),
  );
  assert.equal(await findGateway(rig.catalog, "IN"), "in-1");
  await assert.rejects(findGateway(rig.catalog, ""), failsWith("usage", /a, b with -proxy-id/));
  await assert.rejects(
    findGateway(rig.catalog, "in"),
    failsWith("agent_not_found", /^No ingress gateway called in is .*-gateway there$/),
  );
  assert.deepEqual(rig.script.requests.map(({ query }) => query.get("filter")), [
    'Kind == "ingress-gateway" and Service matches "(?i)^IN$"',
    'Kind == "ingress-gateway"',
    'Kind == "ingress-gateway" and Service matches "(?i)^in$"',
  ]);
});
