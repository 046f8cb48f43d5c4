import { strict as assert } from "node:assert";
import { test } from "node:test";
import { parseUpstream, parseUpstreams } from "./read_values.ts";

const DB = { name: "db", type: "service", host: "127.0.0.1", port: 9191 };

for (
  const [text, want] of [
    ["db:9191", DB],
    ["db.service:9191", DB],
    ["db.:9191", DB],
    ["db::9191", DB],
    ["db:0x23e7", DB],
    ["db:0b10001111100111", DB],
    ["db:021747", DB],
    ["db:9_191", DB],
    ["db.query:9191", { ...DB, type: "prepared_query" }],
    ["db:10.0.0.1:9191", { ...DB, host: "10.0.0.1" }],
    ["db:localhost:9191", { ...DB, host: "localhost" }],
    ["db:[::1]:9191", { ...DB, host: "::1" }],
    ["geo.db.query:9191", { ...DB, name: "geo.db", type: "prepared_query" }],
  ] as const
) {
  test(`parseUpstream() takes ${text}`, () => assert.deepEqual(parseUpstream(text), want));
}

for (
  const [text, want] of [
    ["", /want name:port/],
    ["db", /want name:port/],
    ["9191", /want name:port/],
    [":9191", /want name:port/],
    ["db:", /want name:port/],
    [".query:9191", /names no service/],
    ["db.http:9191", /the type is "http"/],
    ["db:10.0.0.300:9191", /it names "10\.0\.0\.300", which is no IPv4 address/],
    ["db:[1:2]:9191", /"1:2", which is no IPv6 address/],
    ["db:0", /port must be/],
    ["db:65536", /port must be/],
    ["db:-1", /port must be/],
    ["db:ninety", /port must be/],
    ["db:0x", /port must be/],
    ["db:09", /port must be/],
    ["db:::1:9191", /want name:port/],
    ["db:[::1:9191", /want name:port/],
    ["d".repeat(600) + ":1", /want name:port/],
  ] as const
) {
  test(`parseUpstream() refuses ${text.slice(0, 40) || "nothing"}`, () => {
    assert.throws(() => parseUpstream(text), (error: Error) => want.test(error.message));
  });
}

test("parseUpstreams() sorts by name and keeps the last of a name", () => {
  const names = parseUpstreams(["web:1", "db:2", "web.query:3", "cache:4"]);
  assert.deepEqual(names.map(({ name, port }) => `${name}:${port}`), ["cache:4", "db:2", "web:3"]);
});
