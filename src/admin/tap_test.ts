import { strict as assert } from "node:assert";
import { test } from "node:test";
import { eventually } from "../../test/kit/process/process.ts";
import { fakeAdminView, TOKEN } from "../../test/kit/admin/admin_view.ts";
import { silentLog } from "../base/mod.ts";
import { followAdmin } from "./ask_admin.ts";
import { startAdmin } from "./server/server.ts";
import { tapFilterOf } from "./tap.ts";

for (
  const [query, want] of [
    ["", { headers: [] }],
    ["source=web&upstream=db&path=/a&status=5xx&denied&slow=100&header=X-Request-Id", {
      source: "web",
      upstream: "db",
      path: "/a",
      status: "5xx",
      isDenied: true,
      slowMs: 100,
      headers: ["x-request-id"],
    }],
    ["status=6xx", "status"],
    ["status=50", "status"],
    ["slow=", "slow"],
    ["slow=-1", "slow"],
    ["header=authorization", "header"],
    ["header=Set-Cookie", "header"],
    ["header=x-request-id&header=x-api-token", "header"],
    [Array.from({ length: 11 }, (_, at) => `header=x-${at}`).join("&"), "header"],
  ] as const
) {
  test(`tapFilterOf() ?${query}`, () => {
    const asked = new URLSearchParams(query);
    const filter = tapFilterOf((name) => asked.get(name) ?? undefined, asked.getAll("header"));
    if (typeof want === "string") assert.equal("want" in filter && filter.name, want);
    else assert.deepEqual(filter, want);
  });
}

test("admin /tap streams lines while it is read, and closes the tap when the reader leaves", async () => {
  const view = fakeAdminView();
  const bind = { kind: "address", host: "127.0.0.1", port: 0 } as const;
  const server = await startAdmin(view, { bind }, silentLog);
  const ending = new AbortController();
  const events: string[] = [];
  try {
    assert.equal(view.taps.length, 0);
    const following = followAdmin(server.address, {
      path: "/tap?denied",
      timeoutMs: 5_000,
      signal: ending.signal,
      onEvent: (data, { event }) => void events.push(`${event} ${data}`),
    });
    await eventually("the tap is open", () => view.taps.length === 1);
    const [tap] = view.taps;
    assert.deepEqual(tap?.filter, { isDenied: true, headers: [] });
    tap?.take(`{"a":1}\n{"b":"${TOKEN}"}`, 0);
    tap?.take("", 7);
    await eventually("both events have come", () => events.length === 2);
    assert.equal(events[1], "dropped 7");
    assert.match(events[0] ?? "", /^message {"a":1}\n{"b":"/);
    assert.ok(!events.join().includes(TOKEN), "a line shows the token");
    // A batch that does not fit is dropped as a whole, and counted.
    tap?.take("x".repeat(70_000), 0);
    tap?.take("y", 0);
    await eventually("the loss is told", () => events.length === 4);
    assert.deepEqual(events.slice(2), ["dropped 1", "message y"]);
    ending.abort();
    await following;
    await eventually("the tap is closed", () => view.taps.length === 0);
  } finally {
    await server.close();
  }
});
