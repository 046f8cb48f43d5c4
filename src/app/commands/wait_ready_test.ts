import { strict as assert } from "node:assert";
import { test } from "node:test";
import { type AskAdmin, startAdmin } from "../../admin/mod.ts";
import { silentLog, systemClock } from "../../base/mod.ts";
import { fakeAdminView } from "../../../test/kit/admin/admin_view.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { findProxy, findRival } from "../process/find_admin.ts";
import { waitReady } from "./wait_ready.ts";

const ADMIN = {
  kind: "address",
  admin: { kind: "tcp", host: "127.0.0.1", port: 19_000 },
} as const;
const PLAIN = { catalog: false, upstreams: false } as const;

test("waitReady() repeats the request until the proxy is ready", async () => {
  const clock = new FakeClock();
  const answers = [new Error("connection refused"), { status: 503, body: "INITIALIZING\n" }, {
    status: 200,
    body: "LIVE\nwarning: upstream db: no gateway\n",
  }];
  let requests = 0;
  const ask: AskAdmin = () => {
    const answer = answers[requests++];
    return answer && !(answer instanceof Error) ? Promise.resolve(answer) : Promise.reject(answer);
  };
  const result = waitReady({ waitFor: ADMIN, timeoutMs: 30_000, ...PLAIN, clock, ask });
  await clock.advance(1_000);
  assert.deepEqual(await result, {
    kind: "ready",
    proxy: "the proxy at 127.0.0.1:19000",
    warnings: ["warning: upstream db: no gateway"],
  });
  assert.equal(requests, 3);
  assert.equal(clock.pending, 0);
});

test("waitReady() ends at its timeout with the last answer", async () => {
  const clock = new FakeClock();
  const ask: AskAdmin = () => Promise.resolve({ status: 503, body: "INITIALIZING\nno leaf\n" });
  const result = waitReady({ waitFor: ADMIN, timeoutMs: 1_100, ...PLAIN, clock, ask });
  await clock.advance(1_100);
  assert.deepEqual(await result, {
    kind: "timed_out",
    message: "Cannot wait longer for the proxy at 127.0.0.1:19000: not ready after 1.1s; last " +
      "answer: status 503, INITIALIZING, no leaf",
  });
});

test("waitReady() with catalog waits until the instance passes in the catalog", async () => {
  const clock = new FakeClock();
  const view = fakeAdminView();
  view.inCatalog = { kind: "known", failing: ['Consul passes it over: check "x" is critical'] };
  const bind = { kind: "address", host: "127.0.0.1", port: 0 } as const;
  const server = await startAdmin(view, { bind }, silentLog);
  const waitFor = { kind: "address", admin: server.address } as const;
  const options = { waitFor, timeoutMs: 0, catalog: true, upstreams: false, clock };
  try {
    const late = await waitReady(options);
    assert.match(
      late.kind === "timed_out" ? late.message : "",
      /last answer: status 503, NOT_PASSING, Consul passes it over: check "x" is critical/,
    );
    assert.equal((await waitReady({ ...options, catalog: false })).kind, "ready");
    view.inCatalog = { kind: "known", failing: [] };
    assert.equal((await waitReady(options)).kind, "ready");
    view.inCatalog = { kind: "unsupported", reason: "it is a gateway" };
    assert.deepEqual(await waitReady({ ...options, timeoutMs: 60_000 }), {
      kind: "refused",
      message: "Cannot look into the catalog: it is a gateway",
    });
  } finally {
    await server.close();
  }
});

test("waitReady() with upstreams waits until each can be used", async () => {
  const view = fakeAdminView();
  const upstream = { id: "service:default/default/db", name: "db", bind: null };
  view.refused = () => [{ what: `upstream ${upstream.id}`, reason: "no gateway", upstream }];
  const bind = { kind: "address", host: "127.0.0.1", port: 0 } as const;
  const server = await startAdmin(view, { bind }, silentLog);
  const waitFor = { kind: "address", admin: server.address } as const;
  const options = { waitFor, timeoutMs: 0, catalog: false, upstreams: true, clock: systemClock };
  try {
    const late = await waitReady(options);
    assert.match(
      late.kind === "timed_out" ? late.message : "",
      /status 503, UPSTREAMS_NOT_USABLE, upstream service:default\/default\/db: no gateway$/,
    );
    const plain = await waitReady({ ...options, upstreams: false });
    assert.deepEqual(plain.kind === "ready" && plain.warnings, [
      "warning: upstream service:default/default/db: no gateway",
    ]);
    view.refused = () => [];
    assert.equal((await waitReady(options)).kind, "ready");
  } finally {
    await server.close();
  }
});

test("waitReady() without a timeout sends one request", async () => {
  const clock = new FakeClock();
  const ask: AskAdmin = () => Promise.reject(new Error("connection refused"));
  const result = await waitReady({ waitFor: ADMIN, timeoutMs: 0, ...PLAIN, clock, ask });
  assert.match(result.kind === "timed_out" ? result.message : "", /connection refused$/);
});

test("waitReady() reads the answers of the admin server", async () => {
  const view = fakeAdminView();
  const bind = { kind: "address", host: "127.0.0.1", port: 0 } as const;
  const server = await startAdmin(view, { bind }, silentLog);
  const waitFor = { kind: "address", admin: server.address } as const;
  const options = { waitFor, timeoutMs: 0, ...PLAIN, clock: systemClock };
  try {
    assert.equal((await waitReady({ ...options, timeoutMs: 30_000 })).kind, "ready");
    view.ready = false;
    const late = await waitReady(options);
    assert.match(
      late.kind === "timed_out" ? late.message : "",
      /status 503, INITIALIZING, waiting/,
    );
  } finally {
    await server.close();
  }
  const gone = await waitReady(options);
  assert.match(
    gone.kind === "timed_out" ? gone.message : "",
    /last answer: connection refused, nothing listens there$/,
  );
});

/** Admin servers by port, with their answers. */
function world(infos: Readonly<Record<number, unknown>>): { ask: AskAdmin; requests: string[] } {
  const requests: string[] = [];
  return {
    requests,
    ask({ port }, { path }) {
      const info = infos[port];
      if (info === undefined) return Promise.reject(new Error("connection refused"));
      requests.push(`${port}${path}`);
      const body = typeof info === "string" ? info : JSON.stringify(info);
      return Promise.resolve({ status: 200, body: path === "/ready" ? "LIVE" : body });
    },
  };
}

const proxy = (id: string, options: Readonly<Record<string, string>> = {}) => ({
  node: { id },
  postern: { options },
});
const HERE = {
  19_000: proxy("db-sidecar-proxy", { sidecarFor: "db", proxyId: "db-sidecar-proxy" }),
  19_001: "<html>something else</html>",
  19_002: { node: {} },
  // A proxy that has not reached its agent.
  19_003: proxy("", { sidecarFor: "web-1", proxyId: "" }),
  19_004: proxy("web-2-sidecar-proxy", { proxyId: "web-2-sidecar-proxy" }),
  19_100: proxy("/etc/web.json", { config: "/etc/web.json" }),
};

test("findRival() names another proxy with the same id, and not its own admin server", async () => {
  const { ask } = world({
    ...HERE,
    19_002: { ...proxy("web-2-sidecar-proxy"), postern: { pid: 7, options: {} } },
  });
  const own = { host: "127.0.0.1", port: 19_004 };
  assert.equal(
    await findRival("web-2-sidecar-proxy", { ask, own }),
    "another Postern of web-2-sidecar-proxy runs on this machine (process 7, admin server " +
      "127.0.0.1:19002) and may have the same ports",
  );
  assert.equal(
    await findRival("db-sidecar-proxy", { ask, own: { ...own, port: 19_000 } }),
    undefined,
  );
});

for (
  const [flag, value, port] of [
    ["sidecar-for", "web-1", 19_003],
    ["sidecar-for", "WEB-1", 19_003],
    ["sidecar-for", "web-2", 19_004],
    ["proxy-id", "db-sidecar-proxy", 19_000],
    ["config", "/etc/../etc/web.json", 19_100],
  ] as const
) {
  test(`waitReady() finds -${flag} ${value} among others`, async () => {
    const { ask, requests } = world(HERE);
    const waitFor = { kind: "proxy", wanted: { flag, value } } as const;
    const result = await waitReady({
      waitFor,
      timeoutMs: 0,
      ...PLAIN,
      clock: new FakeClock(),
      ask,
    });
    assert.deepEqual(result, {
      kind: "ready",
      proxy: `the proxy at 127.0.0.1:${port} (-${flag} ${value})`,
      warnings: [],
    });
    assert.equal(requests.at(-1), `${port}/ready`);
  });
}

test("waitReady() does not take another proxy, and lists those that answer", async () => {
  const waitFor = { kind: "proxy", wanted: { flag: "sidecar-for", value: "web" } } as const;
  const clock = new FakeClock();
  for (
    const [infos, there] of [
      [
        HERE,
        "there is db-sidecar-proxy at 127.0.0.1:19000, the sidecar of web-1 at 127.0.0.1:19003, " +
        "web-2-sidecar-proxy at 127.0.0.1:19004, /etc/web.json at 127.0.0.1:19100",
      ],
      [{}, "there are none"],
    ] as const
  ) {
    const { ask, requests } = world(infos);
    const result = await waitReady({ waitFor, timeoutMs: 0, ...PLAIN, clock, ask });
    assert.deepEqual(result, {
      kind: "timed_out",
      message:
        "Cannot wait longer for the proxy of -sidecar-for web: none of the admin servers on " +
        `ports 19000 to 19100 of 127.0.0.1 is its own; ${there}. Start it, or give its -admin-bind, ` +
        "where it has one, as -admin",
    });
    assert.ok(!requests.some((path) => path.endsWith("/ready")));
  }
});

for (
  const [name, agent, want] of [
    ["takes the one of the given agent", "127.0.0.1:9500", 19_005],
    [
      "names all when no agent is given",
      "",
      "of -sidecar-for web-1: several are: 127.0.0.1:19000 (process 7, agent 127.0.0.1:8500, trust " +
      "domain a.consul); 127.0.0.1:19005 (agent 127.0.0.1:9500, no certificate yet). Give -http-addr",
    ],
    [
      "takes none of another agent",
      "127.0.0.1:1",
      "of -sidecar-for web-1 and agent 127.0.0.1:1 (CONSUL_HTTP_ADDR): none of the admin servers on " +
      "ports 19000 to 19100 of 127.0.0.1 is its own; there is web-1-sidecar-proxy at " +
      "127.0.0.1:19000 (agent 127.0.0.1:8500), web-1-sidecar-proxy at 127.0.0.1:19005 (agent " +
      "127.0.0.1:9500). Start it",
    ],
  ] as const
) {
  test(`findProxy() of two with one id ${name}`, async () => {
    const web = proxy("web-1-sidecar-proxy", { agent: "127.0.0.1:8500" });
    const { ask } = world({
      19_000: { ...web, postern: { ...web.postern, pid: 7, trust_domain: "a.consul" } },
      19_005: proxy("web-1-sidecar-proxy", { agent: "127.0.0.1:9500" }),
    });
    const named = agent && { agent: { address: agent, said: "CONSUL_HTTP_ADDR" } };
    const wanted = { flag: "sidecar-for", value: "web-1", ...named || {} } as const;
    const found = await findProxy({ kind: "proxy", wanted }, { ask });
    if (found.kind === "found") assert.equal(found.admin.port, want);
    else assert.ok(found.why.startsWith(String(want)), found.why);
  });
}

test("waitReady() follows a restarted proxy to its new port", async () => {
  const infos: Record<number, unknown> = { 19_000: proxy("a"), 19_001: proxy("b") };
  const answers = [503, 503, 200];
  const clock = new FakeClock();
  const ports: number[] = [];
  const { ask } = world(infos);
  const waiting = waitReady({
    waitFor: { kind: "proxy", wanted: { flag: "proxy-id", value: "b" } },
    timeoutMs: 30_000,
    ...PLAIN,
    clock,
    ask(admin, question) {
      if (question.path !== "/ready") return ask(admin, question);
      ports.push(admin.port);
      // The proxy is started again on another port, and another proxy gets its old port.
      [infos[19_001], infos[19_007]] = [proxy("c"), proxy("b")];
      return Promise.resolve({ status: answers.shift() ?? 0, body: "" });
    },
  });
  await clock.advance(2_000);
  assert.deepEqual(await waiting, {
    kind: "ready",
    proxy: "the proxy at 127.0.0.1:19007 (-proxy-id b)",
    warnings: [],
  });
  assert.deepEqual(ports, [19_001, 19_007, 19_007]);
});
