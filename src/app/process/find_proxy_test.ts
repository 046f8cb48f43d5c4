import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog, type ErrorCode, type LogRecord, ProxyError } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { findProxy, type ProxyName } from "./find_proxy.ts";

/** A search on a clock that the test moves; `ask` is the agent's answer to each request. */
class Search {
  readonly clock = new FakeClock();
  readonly lines: LogRecord[] = [];
  readonly waited: string[] = [];
  readonly outcome: Promise<string>;
  /** The id found, or the code of the failure; `undefined`: the search goes on. */
  said: string | undefined;

  constructor(name: ProxyName, ask: (id: string) => Promise<string>, hasState = false) {
    const log = createLog({
      clock: this.clock,
      write: (line) => this.lines.push(line),
      holder: { level: "info" },
    });
    this.outcome = findProxy(name, {
      clock: this.clock,
      log,
      hasState,
      random: () => 0.5,
      agent: { called: "agent", findSidecar: ask, findProxy: ask, findGateway: ask },
      signal: new AbortController().signal,
      onWaiting: (reason) => Promise.resolve(void this.waited.push(reason())),
    });
    this.outcome.then(
      (id) => this.said = id,
      (error) => this.said = error instanceof ProxyError ? error.code : String(error),
    );
  }
}

const failing = (code: ErrorCode) => () => Promise.reject(new ProxyError(code, `Cannot: ${code}`));
const hanging = () => new Promise<string>(() => {});
const WEB = { by: "proxy_id", id: "web-proxy" } as const;

for (const code of ["agent_not_found", "usage", "agent_forbidden", "config_invalid"] as const) {
  test(`findProxy() ends with ${code} at once, also where there is a stored state`, async () => {
    for (const hasState of [false, true]) {
      const search = new Search(WEB, failing(code), hasState);
      await search.clock.advance(0);
      assert.equal(search.said, code);
    }
  });
}

test("findProxy() tries until the agent answers, and logs the same reason once", async () => {
  let answers = false;
  const away = failing("agent_unreachable");
  const search = new Search(WEB, (id) => answers ? Promise.resolve(id) : away());
  await search.clock.advance(60_000);
  assert.deepEqual(search.lines.map(({ message }) => message), ["agent not reached; trying again"]);
  assert.ok(search.waited.length > 3, "each failure is reported");
  answers = true;
  await search.clock.advance(20_000);
  assert.equal(search.said, WEB.id);
  assert.equal(search.clock.pending, 0);
});

test("findProxy() logs an error of the agent as an answer, not as an agent that is away", async () => {
  const search = new Search(WEB, failing("agent_failed"));
  await search.clock.advance(0);
  assert.equal(search.lines[0]?.message, "agent answered with an error; trying again");
});

for (
  const [by, id, usual] of [
    ["sidecar_for", "web", "web-sidecar-proxy"],
    ["proxy_id", "web-proxy", "web-proxy"],
    ["gateway", "", "ingress-gateway"],
  ] as const
) {
  test(`findProxy() goes on as ${usual} with a stored state and without an agent`, async () => {
    const search = new Search({ by, id }, failing("agent_unreachable"), true);
    await search.clock.advance(0);
    assert.equal(search.said, usual);
  });
}

test("findProxy() with a known id and a stored state does not wait for an agent that hangs", async () => {
  const search = new Search(WEB, hanging, true);
  await search.clock.advance(1_000);
  assert.equal(search.said, WEB.id);
  const sidecar = new Search({ by: "sidecar_for", id: "web" }, hanging, true);
  await sidecar.clock.advance(5_000);
  assert.equal(sidecar.said, undefined, "only an unreachable agent leads to the usual id");
  assert.deepEqual(sidecar.waited, [
    "the agent, since 2026-11-21T07:30:00.000Z: it has not answered yet",
  ]);
});
