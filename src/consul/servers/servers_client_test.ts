/** The HTTP client beside servers, with a scripted server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom, silentLog, Stats } from "../../base/mod.ts";
import { Seen } from "../../../test/kit/consul/agent_client.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import {
  type AgentRequest,
  eventually,
  type Handler,
  type Reaction,
  ScriptedAgent,
} from "../../../test/kit/consul/scripted_agent.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { RunningWatches } from "../running_watches.ts";
import { ClusterPin } from "../http/cluster.ts";
import { ConsulReach } from "../watch/consul_reach.ts";
import { ConnectionBudget } from "../watch/budget.ts";
import { serversWatchTerms } from "../watch/watch_terms.ts";
import type { Intentions } from "../model/values.ts";
import { PROXY_FLAGS } from "../model/flag_names.ts";
import { createServersClient } from "./servers_client.ts";
import type { Server, ServersOptions } from "./types.ts";

class Rig implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly script: ScriptedAgent;
  readonly watches: RunningWatches;
  readonly left: string[] = [];
  /** Tokens that the server did not know. */
  readonly rejected: string[] = [];
  token = "first";
  readonly #onToken = new Set<() => void>();
  readonly #onMove = new Set<(server: Server) => void>();
  readonly #servers = {
    current: { host: "127.0.0.1" },
    status: { lastFailure: "" },
    isDown: false,
    onDown: () => () => {},
    leave: (_server: Server, reason: string) => void this.left.push(reason),
    onMove: (fn: (server: Server) => void) => {
      this.#onMove.add(fn);
      return () => this.#onMove.delete(fn);
    },
  };
  readonly #close: () => void;

  private constructor(script: ScriptedAgent, connections: number) {
    this.script = script;
    const { clock } = this;
    const reach = new ConsulReach();
    const deps = { clock, random: seededRandom(7), log: silentLog, stats: new Stats() };
    const budget = new ConnectionBudget({ ...deps, connections, modest: true });
    const options: ServersOptions = {
      places: { kind: "names", names: ["127.0.0.1"] },
      grpcPort: 1,
      httpPort: Number(script.address.split(":")[1]),
      tls: null,
      login: null,
      watchServers: true,
      node: "virt-1",
      token: "",
      tokenFile: "",
      datacenter: "",
      namespace: "",
      partition: "",
      names: PROXY_FLAGS,
    };
    const client = createServersClient(options, {
      ...deps,
      servers: this.#servers,
      engine: runtimeEngine(),
      reach,
      cluster: new ClusterPin(),
      token: {
        current: () => this.token,
        rejected: (token) => void this.rejected.push(token),
        onChange: (fn) => {
          this.#onToken.add(fn);
          return () => this.#onToken.delete(fn);
        },
      },
    });
    this.watches = new RunningWatches(client, {
      ...deps,
      budget,
      reach,
      terms: serversWatchTerms(reach),
    });
    this.#close = () => (this.watches.close(), client.carrier.close());
  }

  static async start(handler: Handler, connections = 12): Promise<Rig> {
    return new Rig(await ScriptedAgent.start(handler), connections);
  }

  replaceToken(token: string): void {
    this.token = token;
    for (const fn of this.#onToken) fn();
  }

  /** A move to another server, which has the same address here. */
  move(): void {
    this.#servers.current = { host: "127.0.0.1" };
    for (const fn of this.#onMove) fn(this.#servers.current);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close();
    await this.script[Symbol.asyncDispose]();
  }
}

const RULE = { SourceName: "web", DestinationName: "db", Action: "allow", Precedence: 9 };

/** Answers reads at once, and never answers waits. */
function calm({ query }: AgentRequest): Reaction {
  return query.has("index") ? "hang" : { index: 44, json: { db: [RULE] } };
}

/** `read first` or `wait 44 first`: a request with its token. */
function wordsOf({ query, headers }: AgentRequest): string {
  const what = query.has("index") ? `wait ${query.get("index")}` : "read";
  return `${what}${query.has("stale") ? " stale" : ""} ${headers["x-consul-token"]}`;
}

test("reads go to the leader, and waits are stale", async () => {
  await using rig = await Rig.start(calm);
  rig.watches.common.watchIntentions("db", new Seen<Intentions>());
  await eventually(() => rig.script.waiting === 1, "a wait");
  assert.deepEqual(rig.script.requests.map(wordsOf), ["read first", "wait 44 stale first"]);
});

test("a missing instance is confirmed by one read from the leader", async () => {
  const instance = {
    Node: { Node: "n", Address: "10.0.0.1", Datacenter: "dc1" },
    Service: { ID: "db-1", Service: "db", Port: 1, Connect: { Native: true } },
  };
  const answers: Reaction[] = [{ index: 44, json: [instance] }, { index: 45, json: [] }, {
    index: 45,
    json: [],
  }];
  await using rig = await Rig.start(() => answers.shift() ?? "hang");
  const seen = new Seen<readonly unknown[]>();
  rig.watches.common.watchHealth({ service: "db", datacenter: "", filter: "" }, seen);
  await eventually(() => seen.values.length === 1, "the instance");
  await rig.clock.advance(20_000);
  await eventually(() => seen.values.length === 2 && rig.script.waiting === 1, "that it went");
  assert.deepEqual(rig.script.requests.map(wordsOf), [
    "read first",
    "wait 44 stale first",
    "read first",
    "wait 45 stale first",
  ]);
});

test("a wait is sent again with a new token", async () => {
  await using rig = await Rig.start(calm);
  const seen = new Seen<Intentions>();
  rig.watches.common.watchIntentions("db", seen);
  await eventually(() => rig.script.waiting === 1, "a wait");
  rig.replaceToken("second");
  await eventually(
    () => rig.script.requests.length === 4 && rig.script.waiting === 1,
    "another wait",
  );
  assert.deepEqual(rig.script.requests.slice(2).map(wordsOf), [
    "read second",
    "wait 44 stale second",
  ]);
  assert.equal(seen.values.length, 1);
  assert.deepEqual(seen.codes, []);
});

test("a wait is sent again to another server", async () => {
  await using rig = await Rig.start(calm);
  const seen = new Seen<Intentions>();
  rig.watches.common.watchIntentions("db", seen);
  await eventually(() => rig.script.waiting === 1, "a wait");
  rig.move();
  await eventually(
    () => rig.script.requests.length === 4 && rig.script.waiting === 1,
    "another wait",
  );
  assert.deepEqual(seen.codes, []);
  assert.deepEqual(rig.left, [], "a move does not blame the old server");
});

test("an unknown token is reported, and the next token is used at once", async () => {
  await using rig = await Rig.start((asked) =>
    asked.headers["x-consul-token"] === "first"
      ? { status: 403, text: "rpc error making call: ACL not found" }
      : calm(asked)
  );
  const seen = new Seen<Intentions>();
  rig.watches.common.watchIntentions("db", seen);
  await eventually(() => seen.errors.length === 1, "the refusal");
  assert.deepEqual(rig.rejected, ["first"]);
  assert.match(seen.errors[0]?.message ?? "", /the server does not know the token/);
  rig.replaceToken("second");
  // The watch pauses for a second after the refusal, so the new token has woken it.
  await rig.clock.advance(500);
  await eventually(() => seen.values.length === 1, "the rules");
});

for (
  const [what, answer, reason] of [
    ["refuses for load", { status: 429, text: "rate limit exceeded, try again later" }, /overload/],
    [
      "refuses calls that need the leader",
      {
        status: 503,
        text: "rate limit exceeded for operation that can only be performed by the leader",
      },
      /overload/,
    ],
    ["does not answer with JSON", { text: "<html>" }, /invalid/],
  ] as const
) {
  test(`a server that ${what} for long is left`, async () => {
    await using rig = await Rig.start(() => answer);
    const seen = new Seen<Intentions>();
    rig.watches.common.watchIntentions("db", seen);
    while (rig.left.length === 0) {
      const { length } = seen.errors;
      await eventually(() => seen.errors.length > length || rig.left.length > 0, "an answer");
      if (seen.errors.length === 1) assert.deepEqual(rig.left, [], "one failure is no reason");
      assert.ok(seen.errors.length < 20, "it is left");
      await rig.clock.advance(5_000);
    }
    assert.match(rig.left[0] ?? "", reason);
  });
}

test("a server without a leader for long is left", async () => {
  await using rig = await Rig.start((asked) => calm(asked));
  rig.script.handler = () => ({ index: 44, json: { db: [RULE] }, lastContactMs: 15_001 });
  rig.watches.common.watchIntentions("db", new Seen<Intentions>());
  await eventually(() => rig.left.length === 1, "it is left");
  assert.deepEqual(rig.left, ["it has no leader"]);
});

test("a proxy with four upstreams uses eleven connections without TLS", async () => {
  const chain = {
    Chain: { ServiceName: "a", Protocol: "tcp", StartNode: "", Nodes: {}, Targets: {} },
  };
  await using rig = await Rig.start(({ query, path }) => {
    if (query.has("index") && query.get("wait") !== "1ms") return "hang";
    if (path.startsWith("/v1/discovery-chain")) return { index: 44, json: chain };
    if (path.startsWith("/v1/health")) return { index: 44, json: [] };
    if (path.startsWith("/v1/config")) return { index: 44, status: 404, text: "not found" };
    return { index: 44, json: { db: [] } };
  }, 100);
  const { watchIntentions, watchChain, watchHealth, watchMesh, watchDefaults } = rig.watches.common;
  const seen = Array.from({ length: 12 }, () => new Seen<unknown>());
  const next = () => seen[count++] ?? new Seen<unknown>();
  let count = 0;
  // The second watch replaces that of the registration, which is critical, too.
  for (const service of ["db", "db"]) watchIntentions(service, next());
  for (const service of ["a", "b", "c", "d"]) {
    watchChain({ service, datacenter: "" }, next());
    watchHealth({ service, datacenter: "", filter: "" }, next());
  }
  watchMesh(next());
  watchDefaults({ kind: "proxy-defaults", name: "global" }, next());
  await eventually(() => rig.script.waiting === 10, "every long poll waits");
  for (let turns = 0; turns < 40; turns++) {
    await rig.clock.advance(500);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await eventually(() => seen.every(({ values }) => values.length > 0), "everything was read");
  assert.equal(rig.script.mostOpen, 3 + 2 * 4);
});
