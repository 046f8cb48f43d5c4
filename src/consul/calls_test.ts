/** Single calls, and questions that are sent at intervals. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ProxyError } from "../base/mod.ts";
import { AgentClient, Seen } from "../../test/kit/consul/agent_client.ts";
import { type Answer, eventually, fixture, inTurn } from "../../test/kit/consul/scripted_agent.ts";
import { readRegistration } from "./replies/registration.ts";
import type { QueryResult, Roots } from "./model/values.ts";

function failsWith(code: string, pattern: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ProxyError);
    assert.equal(error.code, code);
    assert.match(error.message, pattern);
    return true;
  };
}

test("findSidecar() finds the sidecar of a service id in any case", async () => {
  await using client = await AgentClient.start(inTurn({ json: fixture("agent_services") }));
  assert.equal(await client.agent.findSidecar("Web-1"), "web-1-sidecar-proxy");
  assert.equal(client.script.requests[0]?.query.get("filter"), 'Kind == "connect-proxy"');
});

test("findSidecar() says that no sidecar is registered, and how to fix it", async () => {
  await using client = await AgentClient.start(inTurn({ json: {} }, { status: 404 }));
  await assert.rejects(
    client.agent.findSidecar("nope"),
    failsWith("agent_not_found", /^No sidecar proxy registered for nope: register .* token/),
  );
});

test("findSidecar() names the right that is missing where the token may not see the sidecar", async () => {
  const text =
    "Permission denied: anonymous token lacks permission 'service:read' on \"web-sidecar-proxy\"";
  await using client = await AgentClient.start(inTurn({ json: {} }, { status: 403, text }));
  await assert.rejects(
    client.agent.findSidecar("web"),
    failsWith("agent_forbidden", /'service:read' on "web-sidecar-proxy"/),
  );
  assert.equal(client.script.requests[1]?.path, "/v1/agent/service/web-sidecar-proxy");
});

test("findSidecar() lists the sidecars where a service has several", async () => {
  const sidecar = (id: string) => ({
    Kind: "connect-proxy",
    ID: id,
    Proxy: { DestinationServiceID: "web" },
  });
  await using client = await AgentClient.start(
    inTurn({ json: { b: sidecar("b"), a: sidecar("a") } }),
  );
  await assert.rejects(
    client.agent.findSidecar("web"),
    failsWith("usage", /a, b with -proxy-id/),
  );
});

test("findSidecar() lists the service ids with a sidecar where the given id has none", async () => {
  await using client = await AgentClient.start(
    inTurn({ json: fixture("agent_services") }),
    { agent: { token: "t" } },
  );
  await assert.rejects(
    client.agent.findSidecar("web"),
    failsWith("agent_not_found", /not its name; ids with a sidecar here: .*\bweb-1\b/),
  );
});

for (
  const [status, text, code, pattern] of [
    [
      500,
      "Connect must be enabled in order to use this endpoint",
      "agent_failed",
      /answered 500: Connect must .* endpoint; set connect \{ enabled = true \}/,
    ],
    [
      400,
      'Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature',
      "config_invalid",
      /Enterprise feature; leave out -namespace \(CONSUL_NAMESPACE\)/,
    ],
    [
      400,
      "Client sent an HTTP request to an HTTPS server.",
      "agent_failed",
      /HTTPS server\.; write https:\/\/ in -http-addr/,
    ],
    [
      404,
      "<!DOCTYPE html><html>",
      "agent_not_found",
      /web": nothing answers to \/v1\/agent\/services at http:\/\/127.*: it is no Consul agent/,
    ],
    [404, "404 page not found", "agent_not_found", /it is no Consul agent, or one that is too old/],
    [
      403,
      "Permission denied: anonymous token lacks permission 'service:read' on \"web\"",
      "agent_forbidden",
      /on "web" \(give one with -token-file or CONSUL_HTTP_TOKEN\)/,
    ],
  ] as const
) {
  test(`a refused call names the fix: ${text}`, async () => {
    await using client = await AgentClient.start(inTurn({ status, text }));
    await assert.rejects(client.agent.findSidecar("web"), failsWith(code, pattern));
  });
}

test("an unknown datacenter is named in the error", async () => {
  await using client = await AgentClient.start(
    inTurn({ status: 500, text: "No path to datacenter" }),
    { agent: { datacenter: "dc9" } },
  );
  const seen = new Seen<Roots>();
  client.agent.watchRoots(seen);
  await eventually(() => seen.errors.length === 1, "the failure");
  assert.match(seen.errors[0]?.message ?? "", /No path to datacenter "dc9"; is that its name/);
});

test("findProxy() returns the id of a proxy that can be run", async () => {
  await using client = await AgentClient.start(inTurn({ json: fixture("agent_service_merged") }));
  assert.equal(await client.agent.findProxy("web-1-sidecar-proxy"), "web-1-sidecar-proxy");
  assert.equal(client.script.requests[0]?.path, "/v1/agent/service/web-1-sidecar-proxy");
});

for (
  const [name, reply, code, pattern] of [
    ["a service", { Kind: "", ID: "web-1" }, "usage", /it is a service, not a proxy; use -sidecar/],
    [
      "a gateway of another kind",
      { Kind: "mesh-gateway", ID: "web-1", Proxy: {} },
      "unsupported",
      /proxies of kind mesh-gateway are not supported/,
    ],
  ] as const
) {
  test(`findProxy() refuses ${name}`, async () => {
    await using client = await AgentClient.start(inTurn({ json: reply }));
    await assert.rejects(client.agent.findProxy("web-1"), failsWith(code, pattern));
  });
}

test("findProxy() lists the registered proxies where the given id is unknown", async () => {
  const services = Object.fromEntries(
    ["a\n[ERROR] b", ...Array.from({ length: 12 }, (_, at) => `p${10 + at}`)]
      .map((ID) => [ID, { ID }]),
  );
  await using client = await AgentClient.start(
    inTurn({ status: 404, text: "unknown service ID: nix" }, { json: services }),
  );
  await assert.rejects(
    client.agent.findProxy("nix"),
    failsWith(
      "agent_not_found",
      /^No proxy is registered as nix: register .*; ids of proxies here: "a\\n\[ERROR\] b", p10, .*, p18 and 3 more$/,
    ),
  );
});

test("checkRights() names each missing right, its resource and its purpose", async () => {
  const allowed = (right: { Resource: string; Segment: string }) =>
    right.Resource === "service" && right.Segment !== "cache";
  await using client = await AgentClient.start((asked) => ({
    json: (JSON.parse(asked.body) as { Resource: string; Segment: string }[])
      .map((right) => ({ ...right, Allow: allowed(right) })),
  }));
  const registration = readRegistration(fixture("agent_service_merged"), "web-1-sidecar-proxy");
  const check = await client.agent.checkRights(registration);
  assert.ok(check.kind === "checked");
  assert.deepEqual(check.missing, [
    {
      right: "service:read",
      on: "cache",
      neededFor: "the discovery chain and the instances of upstream cache",
    },
    { right: "node:read", on: "any node", neededFor: "the instances of every upstream" },
  ]);
  const [asked] = client.script.requests;
  assert.equal(asked?.path, "/v1/internal/acl/authorize");
  const rights = (JSON.parse(asked?.body ?? "") as Record<string, string>[])
    .map((right) => `${right["Resource"]}:${right["Access"]} ${right["Segment"]}`);
  assert.deepEqual(rights, [
    "service:write web",
    "service:read web-sidecar-proxy",
    "service:read cache",
    "service:read db",
    "service:read sock",
    "node:read postern-probe",
  ]);
});

for (
  const [name, answer, result, kind] of [
    ["does not exist", { status: 404, text: "" }, "agent_not_found", "unknown"],
    ["is refused", { status: 403, text: "Permission denied" }, "agent_forbidden", "unknown"],
    [
      "fails because ACLs are disabled",
      { status: 401, text: "ACL support disabled" },
      "ok",
      "acls_off",
    ],
    ["fails with another 401", { status: 401, text: "who are you" }, "agent_failed", "unknown"],
    // The fault is the agent's, so the request counts as ok.
    ["gets an unreadable reply", { json: { a: 1 } }, "ok", "unknown"],
  ] as const
) {
  test(`checkRights() answers ${kind} where the call ${name}, and counts ${result}`, async () => {
    let active = 0;
    await using client = await AgentClient.start(() => {
      active = client.count("agent_requests_active", {});
      return answer;
    });
    const registration = readRegistration(fixture("agent_service"), "web-1-sidecar-proxy");
    assert.equal((await client.agent.checkRights(registration)).kind, kind);
    assert.equal(client.count("agent_requests_total", { resource: "preflight", result }), 1);
    assert.deepEqual([active, client.count("agent_requests_active", {})], [1, 0]);
  });
}

test("authorize() sends the serial and returns the reason", async () => {
  await using client = await AgentClient.start(inTurn({ json: fixture("authorize_deny_l4") }));
  const request = {
    target: "db",
    uri: "spiffe://x.consul/ns/default/dc/dc1/svc/web",
    serial: "0a",
  };
  const answer = await client.agent.authorize(request, { timeoutMs: 100 });
  assert.equal(answer.allowed, false);
  assert.match(answer.reason, /Matched L4 intention/);
  assert.deepEqual(JSON.parse(client.script.requests[0]?.body ?? ""), {
    Target: "db",
    ClientCertURI: request.uri,
    ClientCertSerial: "0a",
  });
});

for (const reaction of ["hang", "drop", { status: 500 }, { json: {} }] as const) {
  test(`authorize() rejects when the agent answers ${JSON.stringify(reaction)}`, async () => {
    await using client = await AgentClient.start(inTurn(reaction));
    const request = { target: "db", uri: "spiffe://x", serial: "1" };
    const answer = client.agent.authorize(request, { timeoutMs: 100 });
    answer.catch(() => {}); // Looked at below.
    await client.asked(1);
    await client.clock.advance(100);
    await assert.rejects(answer, ProxyError);
  });
}

test("authorize() times out while it waits for a connection", async () => {
  await using client = await AgentClient.start(() => "hang", { connections: 1 });
  const request = { target: "db", uri: "spiffe://x", serial: "1" };
  const ask = (timeoutMs: number) => {
    const answer = client.agent.authorize(request, { timeoutMs });
    answer.catch(() => {}); // Looked at below.
    return answer;
  };
  const [first, second] = [ask(10_000), ask(100)];
  await client.asked(1);
  await client.clock.advance(100);
  await assert.rejects(second, ProxyError);
  assert.equal(client.script.requests.length, 1);
  client.agent.close();
  await assert.rejects(first, ProxyError);
});

test("watchQuery() executes at its interval, keeps the last answer through a failure, and bounds each call", async () => {
  let answer: Answer | "hang" = { json: fixture("prepared_query_execute") };
  await using client = await AgentClient.start(() => answer);
  const seen = new Seen<QueryResult>();
  client.agent.watchQuery({ name: "geo-db", datacenter: "dc2", intervalMs: 10_000 }, seen);
  await eventually(() => seen.values.length === 1, "the first answer");
  const [first] = client.script.requests;
  assert.equal(first?.path, "/v1/query/geo-db/execute");
  assert.deepEqual([first?.query.get("connect"), first?.query.get("dc")], ["true", "dc2"]);
  await client.clock.advance(8_900);
  assert.equal(client.script.requests.length, 1);
  answer = "hang";
  await client.clock.advance(2_200);
  await client.asked(2);
  answer = { json: fixture("prepared_query_failover") };
  await client.clock.advance(60_000);
  assert.deepEqual(seen.codes, ["agent_unreachable"]);
  await client.passUntil(() => seen.values.length === 2, { what: "recovery", limitMs: 3_000 });
  assert.equal(seen.last?.datacenter, "dc2");
});

test("watchQuery() reports a filtered answer as forbidden and delivers an empty one", async () => {
  const none = { Service: "db", Datacenter: "dc1", Nodes: [] };
  await using client = await AgentClient.start(
    inTurn({ json: none, filtered: true }, { json: none }),
  );
  const seen = new Seen<QueryResult>();
  client.agent.watchQuery({ name: "q", datacenter: "", intervalMs: 10_000 }, seen);
  await eventually(() => seen.errors.length === 1, "the refusal");
  assert.deepEqual(seen.codes, ["agent_forbidden"]);
  await client.passUntil(() => seen.values.length === 1, { what: "the answer" });
  assert.deepEqual(seen.last?.instances, []);
});

test("watchDefaultPolicy() reads again every few minutes and soon after an agent restart", async () => {
  let reason = "Default behavior configured by ACLs";
  await using client = await AgentClient.start((asked) => {
    if (asked.path.includes("authorize")) return { json: { Authorized: true, Reason: reason } };
    return asked.query.has("index") ? "hang" : { index: 3, json: fixture("roots") };
  });
  const seen = new Seen<"allow" | "deny">();
  const request = { service: "web", trustDomain: "x.consul", datacenter: "dc1" };
  client.agent.watchRoots(new Seen());
  client.agent.watchDefaultPolicy(request, seen);
  await eventually(() => seen.values.length === 1 && client.script.waiting === 1, "the first");
  reason = "Matched L4 intention: */* => */*";
  client.script.breakAll();
  await client.passUntil(() => seen.values.length === 2, {
    what: "after the loss",
    limitMs: 4_000,
  });
  assert.deepEqual(seen.values, ["allow", "deny"]);
  const count = () =>
    client.script.requests.filter(({ path }) => path.includes("authorize")).length;
  const before = count();
  await client.passUntil(() => count() > before, { what: "once more", limitMs: 200_000 });
  assert.equal(seen.values.length, 2, "an equal answer is not delivered");
});

test("watchMesh() waits for an entry that does not exist yet", async () => {
  const absent = { status: 404, index: 9, text: 'Config entry not found for "mesh" / "mesh"' };
  const entry = { index: 10, json: fixture("config_mesh") };
  await using client = await AgentClient.start(inTurn(absent, entry));
  const seen = new Seen();
  client.agent.watchMesh(seen);
  await client.quiet();
  assert.equal(client.script.requests[1]?.query.get("index"), "9");
  assert.equal(seen.values[0], null);
  assert.ok(seen.values[1]);
  assert.deepEqual(seen.errors, []);
});

test("watchDefaults() delivers extensions and rate limits, and null for an absent entry", async () => {
  const path = { RequestsPerSecond: 2, PathRegex: "/a.*" };
  const limits = { InstanceLevel: { RequestsPerSecond: 9, RequestsMaxBurst: 20, Routes: [path] } };
  await using client = await AgentClient.start(inTurn(
    { index: 3, json: fixture("config_service_defaults") },
    { index: 4, json: { Kind: "service-defaults", Name: "web", RateLimits: limits } },
    { index: 5, status: 404, text: "none" },
  ));
  const seen = new Seen();
  client.agent.watchDefaults({ kind: "service-defaults", name: "web" }, seen);
  await eventually(() => seen.values.length === 3, "three answers");
  assert.equal(client.script.requests[0]?.path, "/v1/config/service-defaults/web");
  const routes = [{ requestsPerSecond: 2, burst: 0, exact: "", prefix: "", regex: "/a.*" }];
  assert.deepEqual(seen.values, [
    {
      extensions: [{
        name: "builtin/lua",
        required: false,
        arguments: {
          Listener: "outbound",
          ProxyType: "connect-proxy",
          Script: "function envoy_on_response(h) end",
        },
      }],
    },
    { extensions: [], rateLimits: { requestsPerSecond: 9, burst: 20, routes } },
    null,
  ]);
});

test("-datacenter and -stale are sent with the calls that Consul's own commands send them with", async () => {
  const agent = { datacenter: "dc9", stale: true };
  await using client = await AgentClient.start(() => "hang", { agent });
  client.agent.watchHealth({ service: "a", datacenter: "", filter: "" }, new Seen());
  client.agent.watchHealth({ service: "b", datacenter: "dc2", filter: 'a == "b&c"' }, new Seen());
  client.agent.watchLeaf("web", new Seen());
  await client.asked(3);
  const of = (path: string) =>
    client.script.requests.find((asked) => asked.path.endsWith(path))?.query;
  assert.deepEqual([of("/a")?.get("dc"), of("/a")?.has("stale")], ["dc9", true]);
  assert.deepEqual([of("/b")?.get("dc"), of("/b")?.get("filter")], ["dc2", 'a == "b&c"']);
  assert.deepEqual([of("/web")?.get("dc"), of("/web")?.has("stale")], ["dc9", false]);
});

test("a refused POST for a chain names allow_write_http_from", async () => {
  const text = "Access is restricted";
  await using client = await AgentClient.start(inTurn({ status: 403, text }));
  const seen = new Seen();
  client.agent.watchChain({ service: "db", datacenter: "" }, seen);
  await eventually(() => seen.errors.length === 1, "the refusal");
  assert.match(seen.errors[0]?.message ?? "", /allow_write_http_from/);
});

test("a changed token file is used without a restart, and a bad one is ignored", async () => {
  const directory = mkdtempSync(join(tmpdir(), "postern-token-"));
  const tokenFile = join(directory, "token");
  let age = 0;
  // A change is seen by size and time. The time is set, because two writes may fall into one tick.
  const write = (token: string) => {
    writeFileSync(tokenFile, token);
    utimesSync(tokenFile, 1_000 + ++age, 1_000 + age);
  };
  try {
    write("first\n");
    await using client = await AgentClient.start(() => ({ json: fixture("agent_services") }), {
      agent: { tokenFile },
    });
    const sent = async () => {
      await client.agent.findSidecar("web-1");
      return client.script.requests.at(-1)?.headers["x-consul-token"];
    };
    assert.equal(await sent(), "first");
    write("other");
    assert.equal(await sent(), "first", "the file is read at most once a second");
    await client.clock.advance(1_000);
    assert.equal(await sent(), "other");
    for (const bad of ["", "a b"]) {
      write(bad);
      await client.clock.advance(1_000);
      assert.equal(await sent(), "other");
    }
    write("third");
    client.agent.reloadFiles();
    assert.equal(await sent(), "third", "reloadFiles() reads it at once");
    rmSync(tokenFile);
    await client.clock.advance(1_000);
    assert.equal(await sent(), "third");
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("close() ends calls and watches", async () => {
  await using client = await AgentClient.start(() => "hang");
  const seen = new Seen();
  client.agent.watchRoots(seen);
  const call = client.agent.findSidecar("x");
  call.catch(() => {}); // Looked at below.
  await client.asked(2);
  client.agent.close();
  await assert.rejects(call, ProxyError);
  await eventually(() => client.script.open === 0, "every connection ends");
  assert.deepEqual([seen.values.length, seen.errors.length], [0, 0]);
  assert.equal(client.clock.pending, 0);
});
