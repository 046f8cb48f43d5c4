import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "../../test/kit/clock/clock.ts";
import { ProtocolHarness, XDS_CLIENT, xdsResource } from "../../test/kit/secrets/xds_protocol.ts";
import { SECRET_RESOURCE } from "../secrets/sds/secret_resource.ts";
import type { PlainMessage } from "../wire/mod.ts";
import type { SotwRequest, SotwResponse, XdsResource } from "./messages.ts";
import { SotwProtocol } from "./sotw.ts";

type Response = SotwResponse<PlainMessage>;

class Harness extends ProtocolHarness<SotwRequest> {
  readonly protocol = new SotwProtocol(this.options);
}

function response(parts: Partial<Response> & { names?: readonly string[] }): Response {
  const { version = "1", names = [] } = parts;
  return {
    version,
    typeUrl: SECRET_RESOURCE.typeUrl,
    nonce: "n1",
    resources: names.map((name) => xdsResource(name, version)),
    ...parts,
  };
}

/** An open stream with these names; its first request is taken from the list. */
function open(...names: string[]): Harness {
  const it = new Harness();
  it.protocol.change(names, []);
  it.protocol.opened();
  it.take();
  return it;
}

const ABSENT: XdsResource<PlainMessage> = {
  name: "web",
  version: "1",
  content: { kind: "heartbeat" },
};
const UNREADABLE: XdsResource<PlainMessage> = {
  name: "",
  version: "1",
  content: { kind: "unreadable", reason: "it cannot be read: index out of range" },
};

test("SotwProtocol begins with its node, every name, no version and no nonce", () => {
  const it = new Harness();
  it.protocol.change(["web", "ROOTCA"], []);
  assert.deepEqual(it.take(), [], "nothing is sent before a stream is open");
  it.protocol.opened();
  assert.deepEqual(it.take(), [
    { version: "", names: ["web", "ROOTCA"], nonce: "", client: XDS_CLIENT },
  ]);
});

test("SotwProtocol sends its node once per stream", async () => {
  const it = open("web");
  await it.protocol.message(response({ names: ["web"] }));
  assert.deepEqual(it.take(), [{ version: "1", names: ["web"], nonce: "n1" }]);
  it.protocol.closed();
  it.protocol.opened();
  assert.deepEqual(it.take()[0]?.client, XDS_CLIENT);
});

for (
  const [name, names, answer, detail, calls] of [
    ["accepts a subscribed resource", ["web"], response({ names: ["web"] }), undefined, [
      "accept web 1",
    ]],
    [
      "refuses a response without the one secret",
      ["web"],
      response({}),
      "Missing SDS resources for web",
      ["rejected web: Missing SDS resources for web"],
    ],
    [
      "refuses two resources for one name",
      ["web"],
      response({ names: ["web", "db"] }),
      "Unexpected SDS secrets length: 2",
      ["rejected web: Unexpected SDS secrets length: 2"],
    ],
    [
      "refuses a resource of another name than the subscribed one",
      ["web"],
      response({ names: ["db"] }),
      "Unexpected SDS secret (expecting web): db",
      ["rejected web: Unexpected SDS secret (expecting web): db"],
    ],
    [
      "refuses resources of another type",
      ["web", "db"],
      response({ typeUrl: "type.googleapis.com/other", names: ["web"] }),
      'the response is of type "type.googleapis.com/other"',
      [
        'rejected web: the response is of type "type.googleapis.com/other"',
        'rejected db: the response is of type "type.googleapis.com/other"',
      ],
    ],
    ["accepts an empty response to several names", ["web", "db"], response({}), undefined, []],
    [
      "accepts a response without one of several names",
      ["web", "db"],
      response({ names: ["db"] }),
      undefined,
      ["accept db 1"],
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
      "accepts the good resource beside an unreadable one, and rejects the other names",
      ["web", "db"],
      response({ resources: [xdsResource("web"), UNREADABLE] }),
      "a resource cannot be used: it cannot be read: index out of range",
      [
        "accept web 1",
        "rejected db: a resource cannot be used: it cannot be read: index out of range",
      ],
    ],
    [
      "refuses a heartbeat for a resource that it does not hold",
      ["web", "db"],
      response({ resources: [ABSENT] }),
      "web: it is not there",
      ["rejected web: it is not there"],
    ],
  ] as const
) {
  test(`SotwProtocol ${name}`, async () => {
    const it = open(...names);
    await it.protocol.message(answer);
    assert.deepEqual(it.calls, calls);
    const [request, ...more] = it.take();
    assert.deepEqual(more, []);
    assert.equal(request?.nonce, "n1");
    assert.equal(request?.version, detail === undefined ? "1" : "");
    assert.deepEqual(request?.names, names);
    assert.deepEqual(
      request?.error,
      detail === undefined ? undefined : { code: 13, message: detail },
    );
  });
}

test("SotwProtocol sends a NACK with the last good version, and accepts the next response", async () => {
  const it = open("web", "db");
  await it.protocol.message(response({ names: ["web", "db"] }));
  it.take();
  it.refuse.set("web", "key and certificate differ");
  await it.protocol.message(response({ version: "2", nonce: "n2", names: ["web", "db"] }));
  assert.deepEqual(it.take(), [{
    version: "1",
    names: ["web", "db"],
    nonce: "n2",
    error: { code: 13, message: "web: key and certificate differ" },
  }]);
  it.refuse.clear();
  await it.protocol.message(response({ version: "3", nonce: "n3", names: ["web", "db"] }));
  assert.deepEqual(it.take(), [{ version: "3", names: ["web", "db"], nonce: "n3" }]);
});

test("SotwProtocol cuts the details of a NACK at 4096 characters", async () => {
  const names = Array.from({ length: 200 }, (_, index) => `secret-${index}`);
  const it = open(...names);
  for (const name of names) it.refuse.set(name, "x".repeat(100));
  await it.protocol.message(response({ names }));
  const message = it.take()[0]?.error?.message ?? "";
  assert.equal(message.length, 4096);
  assert.match(message, /^secret-0: x+; .*\.\.\. \(truncated\)$/);
});

test("SotwProtocol delays repeated NACKs more and more, and drops them for a newer response", async () => {
  const it = open("web");
  it.refuse.set("web", "bad");
  const nonces: string[] = [];
  for (let count = 1; count <= 3; count++) {
    await it.protocol.message(response({ nonce: `n${count}`, names: ["web"] }));
    nonces.push(...it.take().map(({ nonce }) => nonce));
    if (count < 3) await it.clock.advance(0);
  }
  assert.deepEqual(nonces, ["n1"], "the first NACK is sent at once, the others later");
  await it.clock.advance(10_000);
  assert.deepEqual(
    it.take().map(({ nonce }) => nonce),
    ["n3"],
    "only the newest response is answered",
  );
  it.refuse.clear();
  await it.protocol.message(response({ nonce: "n4", names: ["web"] }));
  assert.deepEqual(it.take().map(({ nonce, error }) => [nonce, error]), [["n4", undefined]]);
  assert.equal(it.clock.pending, 0);
});

test("SotwProtocol keeps its version over streams, without the nonce", async () => {
  const it = open("web");
  await it.protocol.message(response({ version: "7", names: ["web"] }));
  it.take();
  it.protocol.closed();
  it.protocol.opened();
  assert.deepEqual(it.take(), [
    { version: "7", names: ["web"], nonce: "", client: XDS_CLIENT },
  ]);
});

test("SotwProtocol sends no version with new names, so that the server sends them", async () => {
  const it = open("web");
  await it.protocol.message(response({ version: "7", names: ["web"] }));
  it.protocol.closed();
  it.protocol.change(["db"], []);
  it.take();
  it.protocol.opened();
  assert.deepEqual(it.take().map(({ version, names }) => [version, names]), [["", ["web", "db"]]]);
});

test("SotwProtocol requests further names with the last nonce", async () => {
  const it = open("web");
  await it.protocol.message(response({ names: ["web"] }));
  it.take();
  it.protocol.change(["db"], []);
  assert.deepEqual(it.take(), [{ version: "1", names: ["web", "db"], nonce: "n1" }]);
  it.protocol.change(["db"], []);
  assert.deepEqual(it.take(), [], "known names change nothing");
  it.protocol.change([], ["web"]);
  assert.deepEqual(it.take(), [{ version: "1", names: ["db"], nonce: "n1" }]);
});

test("SotwProtocol never sends a request without names, which would subscribe to all", () => {
  const it = open("web");
  it.protocol.change([], ["web"]);
  assert.deepEqual(it.take(), []);
  it.protocol.opened();
  assert.deepEqual(it.take(), []);
});

test("SotwProtocol accepts a resource whose name was just unsubscribed", async () => {
  const it = open("web", "db", "mail");
  it.protocol.change([], ["mail"]);
  it.take();
  await it.protocol.message(response({ names: ["web", "db", "mail"] }));
  assert.equal(it.take()[0]?.error, undefined);
});

test("SotwProtocol answers responses in order, each with the names subscribed at that time", async () => {
  const it = open("web", "db");
  let release = () => {};
  it.hold = new Promise((resolve) => release = resolve);
  const first = it.protocol.message(response({ version: "1", nonce: "n1", names: ["web"] }));
  const second = it.protocol.message(response({ version: "2", nonce: "n2", names: ["web"] }));
  it.protocol.change(["mail"], []);
  assert.deepEqual(it.take(), []);
  release();
  await Promise.all([first, second]);
  assert.deepEqual(it.take(), [
    { version: "1", names: ["web", "db", "mail"], nonce: "n1" },
    { version: "2", names: ["web", "db", "mail"], nonce: "n2" },
  ]);
});

test("SotwProtocol shows the server that a name was unsubscribed and subscribed again", async () => {
  const it = open("web", "ROOTCA");
  let go = () => {};
  it.hold = new Promise((resolve) => go = resolve);
  const done = it.protocol.message(response({ names: ["ROOTCA"] }));
  await settle();
  it.protocol.change([], ["web"]);
  it.protocol.change(["web"], []);
  assert.deepEqual(it.take(), []);
  go();
  await done;
  assert.deepEqual(it.take(), [
    { version: "1", names: ["ROOTCA"], nonce: "n1" },
    { version: "1", names: ["ROOTCA", "web"], nonce: "n1" },
  ]);
  // The resource arrived meanwhile, so no further request is needed.
  it.hold = new Promise((resolve) => go = resolve);
  const again = it.protocol.message(
    response({ version: "2", nonce: "n2", names: ["web", "ROOTCA"] }),
  );
  await settle();
  it.protocol.change([], ["ROOTCA"]);
  it.protocol.change(["ROOTCA"], []);
  go();
  await again;
  assert.deepEqual(it.take(), [{ version: "2", names: ["web", "ROOTCA"], nonce: "n2" }]);
});

test("SotwProtocol sends nothing for a stream that has ended", async () => {
  const it = open("web", "db");
  let release = () => {};
  it.hold = new Promise((resolve) => release = resolve);
  const dealt = it.protocol.message(response({ names: ["web", "db"] }));
  await settle();
  it.protocol.closed();
  it.protocol.opened();
  it.take();
  release();
  await dealt;
  assert.deepEqual(it.take(), []);
  assert.deepEqual(it.calls, ["accept web 1"], "the next stream delivers the rest");
});

test("SotwProtocol removes a resource after its time to live unless a heartbeat comes", async () => {
  const it = open("web", "db");
  await it.protocol.message(
    response({ resources: [xdsResource("web", "1", 1_000), xdsResource("db")] }),
  );
  await it.clock.advance(900);
  await it.protocol.message(response({ resources: [{ ...ABSENT, ttlMs: 1_000 }] }));
  await it.clock.advance(900);
  assert.deepEqual(it.calls, ["accept web 1", "accept db 1"]);
  await it.clock.advance(200);
  assert.deepEqual(it.calls, ["accept web 1", "accept db 1", "removed web"]);
  it.protocol.held.close();
  assert.equal(it.clock.pending, 0);
});
