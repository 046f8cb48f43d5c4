import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "../../test/kit/clock/clock.ts";
import { ProtocolHarness, XDS_CLIENT, xdsResource } from "../../test/kit/secrets/xds_protocol.ts";
import { SECRET_RESOURCE } from "../secrets/sds/secret_resource.ts";
import type { PlainMessage } from "../wire/mod.ts";
import { DeltaProtocol } from "./delta.ts";
import type { DeltaRequest, DeltaResponse, XdsResource } from "./messages.ts";

type Response = DeltaResponse<PlainMessage>;

class Harness extends ProtocolHarness<DeltaRequest> {
  readonly protocol = new DeltaProtocol(this.options);
}

const NOTHING = { subscribe: [], unsubscribe: [], initialVersions: new Map(), nonce: "" };

function response(parts: Partial<Response> & { names?: readonly string[] }): Response {
  const { names = [] } = parts;
  return {
    typeUrl: SECRET_RESOURCE.typeUrl,
    nonce: "n1",
    resources: names.map((name) => xdsResource(name)),
    removed: [],
    ...parts,
  };
}

function open(...names: string[]): Harness {
  const it = new Harness();
  it.protocol.change(names, []);
  it.protocol.opened();
  it.take();
  return it;
}

const HEARTBEAT: XdsResource<PlainMessage> = {
  name: "web",
  version: "1",
  content: { kind: "heartbeat" },
};

test("DeltaProtocol begins with its node and every name", () => {
  const it = new Harness();
  it.protocol.change(["web", "ROOTCA"], []);
  assert.deepEqual(it.take(), []);
  it.protocol.opened();
  assert.deepEqual(it.take(), [
    { ...NOTHING, client: XDS_CLIENT, subscribe: ["web", "ROOTCA"] },
  ]);
});

for (
  const [name, names, answer, detail, calls] of [
    ["accepts a subscribed resource", ["web"], response({ names: ["web"] }), undefined, [
      "accept web 1",
    ]],
    [
      "refuses an empty response to one name",
      ["web"],
      response({}),
      "Missing SDS resources for web",
      ["rejected web: Missing SDS resources for web"],
    ],
    ["accepts an empty response to several names", ["web", "db"], response({}), undefined, []],
    [
      "refuses resources of another type",
      ["web"],
      response({ typeUrl: "x", names: ["web"] }),
      'the response is of type "x"',
      ['rejected web: the response is of type "x"'],
    ],
    [
      "accepts the good resource and names the one without subscription",
      ["web", "db"],
      response({ names: ["web", "x"] }),
      '"x" was not asked for',
      ["accept web 1"],
    ],
    [
      "refuses a name that is in the response twice, and accepts the others",
      ["web", "db"],
      response({ names: ["web", "web", "db"] }),
      "web: it is in the response twice; web: it is in the response twice",
      [
        "rejected web: it is in the response twice",
        "rejected web: it is in the response twice",
        "accept db 1",
      ],
    ],
    [
      "reports a removed resource",
      ["web", "db"],
      response({ removed: ["web", "x"] }),
      undefined,
      ["removed web"],
    ],
    [
      "refuses a heartbeat for a resource that it does not hold",
      ["web"],
      response({ resources: [HEARTBEAT] }),
      "web: it is not there",
      ["rejected web: it is not there"],
    ],
  ] as const
) {
  test(`DeltaProtocol ${name}`, async () => {
    const it = open(...names);
    await it.protocol.message(answer);
    assert.deepEqual(it.calls, calls);
    assert.deepEqual(it.take(), [{
      ...NOTHING,
      nonce: "n1",
      ...(detail !== undefined && { error: { code: 13, message: detail } }),
    }]);
  });
}

test("DeltaProtocol begins the next stream with the versions that are in use", async () => {
  const it = open("web", "db", "mail", "gone");
  it.refuse.set("db", "bad");
  await it.protocol.message(
    response({
      resources: [
        xdsResource("web", "3"),
        xdsResource("db", "4"),
        xdsResource("mail", "5"),
        xdsResource("gone", "6"),
      ],
    }),
  );
  await it.protocol.message(response({ nonce: "n2", removed: ["gone"] }));
  it.protocol.change([], ["mail"]);
  it.protocol.closed();
  it.take();
  it.protocol.opened();
  assert.deepEqual(it.take(), [{
    ...NOTHING,
    client: XDS_CLIENT,
    subscribe: ["web", "db", "gone"],
    initialVersions: new Map([["web", "3"]]),
  }]);
});

test("DeltaProtocol sends no nonce in a request that answers no response", async () => {
  const it = open("web");
  await it.protocol.message(response({ names: ["web"] }));
  it.take();
  it.protocol.change(["db"], ["web"]);
  assert.deepEqual(it.take(), [{ ...NOTHING, subscribe: ["db"], unsubscribe: ["web"] }]);
  it.protocol.change(["db"], ["never"]);
  assert.deepEqual(it.take(), [], "nothing changes");
});

test("DeltaProtocol requests a name again that is unsubscribed and subscribed at once", async () => {
  const it = open("web");
  await it.protocol.message(response({ names: ["web"] }));
  it.take();
  it.protocol.change(["web"], ["web"]);
  assert.deepEqual(it.take(), [{ ...NOTHING, subscribe: ["web"] }]);
  it.protocol.closed();
  it.protocol.opened();
  assert.deepEqual(it.take()[0]?.initialVersions, new Map(), "the old version is not sent");
});

test("DeltaProtocol accepts a resource whose name was just unsubscribed", async () => {
  const it = open("web", "db");
  it.protocol.change([], ["web"]);
  it.take();
  await it.protocol.message(response({ names: ["web", "db"] }));
  assert.equal(it.take()[0]?.error, undefined);
});

test("DeltaProtocol answers every response, also with a delayed NACK", async () => {
  const it = open("web");
  it.refuse.set("web", "bad");
  for (const nonce of ["n1", "n2", "n3"]) {
    await it.protocol.message(response({ nonce, names: ["web"] }));
  }
  assert.deepEqual(it.take().map(({ nonce }) => nonce), ["n1", "n2"]);
  await it.clock.advance(10_000);
  assert.deepEqual(it.take().map(({ nonce }) => nonce), ["n3"]);
});

test("DeltaProtocol removes a resource after its time to live unless a heartbeat of its version comes", async () => {
  const it = open("web", "db");
  await it.protocol.message(response({ resources: [xdsResource("web", "1", 1_000)] }));
  await it.clock.advance(900);
  await it.protocol.message(response({ resources: [{ ...HEARTBEAT, ttlMs: 1_000 }] }));
  await it.clock.advance(900);
  assert.deepEqual(it.calls, ["accept web 1"]);
  await it.protocol.message(
    response({ resources: [{ ...HEARTBEAT, version: "2", ttlMs: 1_000 }] }),
  );
  assert.equal(it.calls.at(-1), "rejected web: it is not there");
  await it.clock.advance(200);
  assert.equal(it.calls.at(-1), "removed web");
});

test("DeltaProtocol ends the time to live with a heartbeat that has none", async () => {
  const it = open("web");
  await it.protocol.message(response({ resources: [xdsResource("web", "1", 1_000)] }));
  await it.protocol.message(response({ resources: [HEARTBEAT] }));
  await it.clock.advance(10_000);
  assert.deepEqual(it.calls, ["accept web 1"]);
});

test("DeltaProtocol sends nothing for a stream that has ended", async () => {
  const it = open("web", "db");
  let release = () => {};
  it.hold = new Promise((resolve) => release = resolve);
  const dealt = it.protocol.message(response({ names: ["web", "db"] }));
  await settle();
  it.protocol.closed();
  release();
  await dealt;
  assert.deepEqual(it.take(), []);
});

test("DeltaProtocol supports a time to live of years", async () => {
  const it = open("web");
  const dayMs = 86_400_000;
  await it.protocol.message(response({ resources: [xdsResource("web", "1", 800 * dayMs)] }));
  await it.clock.advance(799 * dayMs);
  assert.deepEqual(it.calls, ["accept web 1"]);
  await it.clock.advance(dayMs);
  assert.equal(it.calls.at(-1), "removed web");
});
