import assert from "node:assert/strict";
import { test } from "node:test";
import { mount, status } from "../../src/kit/mod.ts";
import headerRules from "./header_rules.ts";

const ALL = { set: { "x-team": "pay" }, add: { via: "me" }, remove: ["X-Secret"] };
/** What is asked and answered before there are rules. */
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
    assert.deepEqual(told((name) => seen?.headers(name) ?? []), request ?? REQUEST);
    assert.deepEqual(told((name) => answer.headers.all(name)), response ?? RESPONSE);
    assert.deepEqual([seen?.body, answer.status, answer.body], ["asked", 201, "answered"]);
  });
}

function told(all: (name: string) => readonly string[]): Record<string, string> {
  const values = ["via", "x-secret", "x-team"].map((name) => [name, all(name).join(" | ")]);
  return Object.fromEntries(values.filter(([, value]) => value !== ""));
}

for (
  const [what, config, reason] of [
    ["a key that is none", { request: { put: {} } }, /plugins\[0\]\.config\.request\.put: /],
    ["a name that no header has", { request: { set: { "a b": "" } } }, /is no header's name/],
    ["a value that is no text", { response: { add: { a: 1 } } }, /config\.response\.add\.a: /],
  ] as const
) {
  test(`header_rules refuse ${what}`, async () => {
    await assert.rejects(mount(headerRules, { config }), reason);
    await assert.rejects(mount(headerRules, { routeConfig: config }), /routes\[0\]\.header_rules/);
  });
}
