import assert from "node:assert/strict";
import test from "node:test";
import { ProxyError, silentLog, Stats } from "../../../base/mod.ts";
import { parseRoots } from "../../../identity/mod.ts";
import { FakeClock } from "../../../../test/kit/clock/clock.ts";
import { fixture } from "../../../../test/kit/consul/scripted_agent.ts";
import type { Roots } from "../../model/values.ts";
import type { StreamSink } from "../types.ts";
import { checkRoots, RootsFeed } from "./server_roots.ts";

interface Recorded {
  readonly active_root_id: string;
  readonly trust_domain: string;
  readonly roots: readonly {
    readonly id: string;
    readonly name: string;
    readonly root_cert: string;
    readonly active?: boolean;
  }[];
}

/** A recorded message as the method decodes it. */
function recorded(name: string): Roots {
  const message = fixture(`agentless/${name}`) as Recorded;
  return {
    activeId: message.active_root_id,
    trustDomain: message.trust_domain,
    roots: message.roots.map((root) => ({
      id: root.id,
      name: root.name,
      active: root.active ?? false,
      pem: root.root_cert,
      externalTrustDomain: "",
    })),
  };
}

const FIRST = recorded("grpc_watch_roots");
const ROTATED = recorded("grpc_watch_roots_rotated");

test("checkRoots() takes a rotated root beside the active one", () => {
  const roots = ROTATED;
  checkRoots(roots);
  assert.deepEqual(roots.roots.map(({ id, active }) => [id, active]), [
    [ROTATED.activeId, true],
    [FIRST.activeId, false],
  ]);
  // Cross-signed certificates are not roots.
  assert.equal(parseRoots(roots.roots.map(({ pem }) => pem)).length, 2);
});

for (
  const [what, message] of [
    ["no root", { ...FIRST, roots: [] }],
    ["no trust domain", { ...FIRST, trustDomain: "" }],
    ["a root without a certificate", {
      ...ROTATED,
      roots: ROTATED.roots.map((root) => root.active ? root : { ...root, pem: "" }),
    }],
  ] as const
) {
  test(`checkRoots() refuses ${what}`, () => {
    assert.throws(
      () => checkRoots(message),
      (error) => error instanceof ProxyError && error.code === "agent_reply_invalid",
    );
  });
}

/** A feed, the sinks of its stream, and the values of its watches. */
class Followed {
  readonly sinks = new Set<StreamSink<unknown>>();
  readonly values: Roots[] = [];
  readonly errors: string[] = [];
  opened = 0;
  readonly feed = new RootsFeed({
    servers: {
      follow: (_method, _request, sink) => {
        this.opened++;
        this.sinks.add(sink as StreamSink<unknown>);
        return { stop: () => void this.sinks.delete(sink as StreamSink<unknown>) };
      },
    },
    clock: new FakeClock(),
    log: silentLog,
    stats: new Stats(),
  });

  say(message: Roots): void {
    for (const sink of this.sinks) sink.onMessage(message);
  }

  watch() {
    return this.feed.watch({
      onValue: (roots) => void this.values.push(roots),
      onError: ({ code }) => void this.errors.push(code),
    });
  }
}

test("all watches of the roots share one stream, which closes with the last watch", () => {
  const followed = new Followed();
  const first = followed.watch();
  followed.say(FIRST);
  const second = followed.watch();
  assert.equal(followed.opened, 1);
  assert.equal(followed.values.length, 2, "a later watch gets the value at once");
  followed.say(FIRST);
  assert.equal(followed.values.length, 2, "an equal message delivers nothing");
  first.stop();
  followed.say(ROTATED);
  assert.equal(followed.values.length, 3);
  second.stop();
  assert.equal(followed.sinks.size, 0);
  followed.watch().stop();
  assert.equal(followed.values.length, 3, "a value from before the last watch closed is not used");
  assert.equal(followed.opened, 2);
});

test("invalid roots are reported, and the last valid ones stay", () => {
  const followed = new Followed();
  const handle = followed.watch();
  followed.say(FIRST);
  followed.say({ ...FIRST, roots: [] });
  assert.deepEqual(followed.errors, ["agent_reply_invalid"]);
  assert.equal(handle.state.failures, 1);
  assert.equal(followed.feed.current?.activeId, FIRST.activeId);
  followed.say(FIRST);
  assert.equal(handle.state.failures, 0);
  handle.stop();
});
