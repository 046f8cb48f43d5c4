import assert from "node:assert/strict";
import { test } from "node:test";
import { mount, status } from "../../src/kit/mod.ts";
import headerRules from "./header_rules.ts";

const ALL = { set: { "x-team": "pay" }, add: { via: "me" }, remove: ["X-Secret"] };
/** Headers of the request and the response before any rule. */
const REQUEST = { via: "a, b", "x-secret": "1" };
const RESPONSE = { via: "x, y", "x-secret": "2" };

interface Row {
  readonly config?: unknown;
  readonly routeConfig?: unknown;
  readonly request?: Readonly<Record<string, string>>;
  readonly response?: Readonly<Record<string, string>>;
}

const ROWS: Readonly<Record<string, Row>> = {
  "that are none change nothing": {},
  "for requests leave responses alone": {
    config: { request: ALL },
    request: { via: "a, b | me", "x-team": "pay" },
  },
  "for responses leave requests alone": {
    config: { response: ALL },
    response: { via: "x, y | me", "x-team": "pay" },
  },
  "of a route hold without any of the listener": {
    routeConfig: { request: { remove: ["via"] }, response: { remove: ["x-secret"] } },
    request: { "x-secret": "1" },
    response: { via: "x, y" },
  },
  "of a route come last on the way in": {
    config: { request: ALL },
    routeConfig: { request: { set: { "x-team": "shop" } } },
    request: { via: "a, b | me", "x-team": "shop" },
  },
  "of the listener come last on the way out": {
    config: { response: ALL },
    routeConfig: { response: { set: { "x-team": "shop", "x-secret": "3" } } },
    response: { via: "x, y | me", "x-team": "pay" },
  },
  "remove first, then set, then add": {
    config: { request: { remove: ["via"], set: { Via: "c" }, add: { via: "d" } } },
    request: { via: "c | d", "x-secret": "1" },
  },
};

for (const [what, { config = {}, routeConfig, request, response }] of Object.entries(ROWS)) {
  test(`header_rules ${what}`, async () => {
    const upstream = [status(201, RESPONSE, "answered")];
    await using plugin = await mount(headerRules, { config, routeConfig, upstream });
    const answer = await plugin.request({ method: "PUT", headers: REQUEST, body: "asked" });
    const [seen] = plugin.upstream.requests;
    assert.deepEqual(valuesIn((name) => seen?.headers(name) ?? []), request ?? REQUEST);
    assert.deepEqual(valuesIn((name) => answer.headers.all(name)), response ?? RESPONSE);
    assert.deepEqual([seen?.body, answer.status, answer.body], ["asked", 201, "answered"]);
  });
}

for (
  const [what, { request = {}, response = {} }, wantRequest, wantResponse] of [
    [
      "contain the caller and the protocol",
      {
        request: { set: { "x-team": "%DOWNSTREAM_REMOTE_ADDRESS%, %PROTOCOL%" } },
        response: { add: { "x-team": "%REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE%" } },
      },
      { ...REQUEST, "x-team": "10.0.1.1:40000, HTTP/1.1" },
      { ...RESPONSE, "x-team": "PUT /?q 201" },
    ],
    [
      "refer to the headers after removal, before any is set",
      {
        request: {
          remove: ["x-secret"],
          set: { via: "c", "x-team": "%REQ(via)%" },
          add: { via: "%REQ(x-secret)%" },
        },
        response: { set: { via: "%REQ(via)%", "x-team": "%RESP(via)%" } },
      },
      { via: "c", "x-team": "a, b" },
      { ...RESPONSE, via: "c", "x-team": "x, y" },
    ],
    [
      "that are empty leave the header unchanged",
      {
        request: { set: { via: "%REQ(x-none)%" }, add: { via: "" } },
        response: { add: { via: "%RESP(x-none)%" } },
      },
      REQUEST,
      RESPONSE,
    ],
    [
      "are trimmed octets of UTF-8, with %% for a percent sign",
      { request: { set: { via: "5 %%" } }, response: { set: { via: " ü ", "x-team": " a " } } },
      { ...REQUEST, via: "5 %" },
      { ...RESPONSE, via: "\u00c3\u00bc", "x-team": "a" },
    ],
  ] as const
) {
  test(`values of header_rules ${what}`, async () => {
    for (
      const options of [
        { config: { request, response } },
        { routeConfig: { request, response } },
        { routeConfig: { split: { request, response } } },
      ]
    ) {
      const upstream = [status(201, RESPONSE)];
      await using plugin = await mount(headerRules, { ...options, upstream });
      const answer = await plugin.request({ method: "PUT", path: "/?q", headers: REQUEST });
      const [seen] = plugin.upstream.requests;
      assert.deepEqual(valuesIn((name) => seen?.headers(name) ?? []), wantRequest);
      assert.deepEqual(valuesIn((name) => answer.headers.all(name)), wantResponse);
    }
  });
}

test("header_rules applies changes of a split before those of its route, in both directions", async () => {
  const of = (by: string) => ({
    add: { via: by },
    set: { "x-team": `${by} after %REQ(x-team)%` },
    remove: by === "route" ? ["x-secret"] : [],
  });
  await using plugin = await mount(headerRules, {
    config: { request: of("listener"), response: { add: { via: "listener" } } },
    routeConfig: {
      request: of("route"),
      response: { add: { via: "route" } },
      split: {
        request: of("split"),
        response: { add: { via: "split" }, set: { "x-secret": "3" } },
      },
    },
  });
  const answer = await plugin.request({ headers: { "x-secret": "1" } });
  const [seen] = plugin.upstream.requests;
  assert.deepEqual(valuesIn((name) => seen?.headers(name) ?? []), {
    via: "listener | split | route",
    "x-team": "route after split after listener after",
  });
  assert.deepEqual(valuesIn((name) => answer.headers.all(name)), {
    via: "split | route | listener",
    "x-secret": "3",
  });
});

function valuesIn(all: (name: string) => readonly string[]): Record<string, string> {
  const values = ["via", "x-secret", "x-team"].map((name) => [name, all(name).join(" | ")]);
  return Object.fromEntries(values.filter(([, value]) => value !== ""));
}

for (
  const [what, config, reason] of [
    ["an unknown key", { request: { put: {} } }, /plugins\[0\]\.config\.request\.put: /],
    ["an invalid name", { request: { set: { "a b": "" } } }, /is no header's name/],
    ["a value with a control character", { request: { set: { a: "\n" } } }, /has a control/],
    ["a value that is not text", { response: { add: { a: 1 } } }, /config\.response\.add\.a: /],
  ] as const
) {
  test(`header_rules refuses ${what}`, async () => {
    await assert.rejects(mount(headerRules, { config }), reason);
    await assert.rejects(mount(headerRules, { routeConfig: config }), /routes\[0\]\.header_rules/);
  });
}

test("header_rules refuses an unknown operator by name", async () => {
  const config = { request: { set: { "x-a": "%REMOTE_ADRESS%" } } };
  await assert.rejects(mount(headerRules, { config }), /header value .*the operator REMOTE_ADRESS/);
  await assert.rejects(
    mount(headerRules, { config: { response: { add: { "x-a": "50 %" } } } }),
    /"%" without an operator/,
  );
});
