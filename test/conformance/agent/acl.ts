/**
 * ACL rights with ACLs on and default deny: six kinds of token against the calls that a proxy makes, the
 * words of each refusal, and the reads that return an empty result where the token hides everything.
 *
 * @module
 */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import {
  AgentClient,
  type AgentUnderTest,
  type CallOptions,
  type Reply,
  unique,
  until,
} from "./client.ts";

/** Token kinds of the table: no policy; service:write on the sidecar, the service, both; identity; read. */
const KINDS = ["none", "sidecar", "service", "both", "identity", "reader"] as const;
type Kind = (typeof KINDS)[number];

/** A status, `e` for 200 but emptied, or `-` where nothing is asserted. */
type Want = number | "e";

interface Row {
  readonly call: readonly [method: string, path: string, body?: unknown];
  readonly want: readonly [Want, Want, Want, Want, Want, Want];
}

export function aclContract(agent: AgentUnderTest): void {
  const client = new AgentClient(agent);
  const web = unique("web");
  const db = unique("db");
  const tokens = new Map<Kind, string>();

  const newToken = async (body: Record<string, unknown>) => {
    const reply = await client.put("/v1/acl/token", { Description: "contract", ...body });
    return (JSON.parse(reply.text) as { SecretID: string }).SecretID;
  };
  const withRules = async (Rules: string) => {
    const Name = unique("policy");
    await client.put("/v1/acl/policy", { Name, Rules });
    return await newToken({ Policies: [{ Name }] });
  };
  const rule = (name: string, policy: string) => `service "${name}" { policy = "${policy}" }`;
  const as = (kind: Kind, more: CallOptions = {}): CallOptions => ({
    ...more,
    token: tokens.get(kind) ?? "",
  });

  test("tokens and services for the permission table are set up", async () => {
    const sidecar = `${web}-sidecar-proxy`;
    tokens.set("none", await newToken({}));
    tokens.set("sidecar", await withRules(rule(sidecar, "write")));
    tokens.set("service", await withRules(rule(web, "write")));
    tokens.set("both", await withRules(`${rule(web, "write")}\n${rule(sidecar, "write")}`));
    tokens.set("identity", await newToken({ ServiceIdentities: [{ ServiceName: web }] }));
    tokens.set("reader", await withRules(rule(web, "read")));
    for (const name of [web, db]) {
      await client.register({
        Name: name,
        ID: `${name}-1`,
        Port: 18080,
        Connect: {
          SidecarService: {
            Checks: [{ CheckID: name, TTL: "10m", Status: "passing" }],
          },
        },
      });
      await client.configEntry({ Kind: "service-defaults", Name: name, Protocol: "tcp" });
    }
    await client.configEntry({ Kind: "proxy-defaults", Name: "global" });
    await client.configEntry({
      Kind: "service-intentions",
      Name: web,
      Sources: [{ Name: db, Action: "allow" }],
    });
    await client.call("POST", "/v1/query", {
      body: { Name: db, Service: { Service: db, Connect: true } },
    });
    // The agent brings them to the catalog one after the other, in any order.
    for (const name of [web, db]) {
      await until(
        () => client.json<readonly unknown[]>(`/v1/health/connect/${name}`),
        (entries) => entries.length === 1,
      );
    }
  });

  const authorize = { Target: web, ClientCertURI: "spiffe://x/ns/default/dc/dc1/svc/db" };
  const cold = unique("cold");
  const rows: readonly Row[] = [
    { call: ["GET", `/v1/agent/service/${web}-1`], want: [403, 403, 200, 200, 200, 200] },
    {
      call: ["GET", `/v1/agent/service/${web}-1-sidecar-proxy`],
      want: [403, 200, 403, 200, 200, 403],
    },
    { call: ["GET", "/v1/agent/service/nope"], want: [404, 404, 404, 404, 404, 404] },
    { call: ["GET", "/v1/agent/connect/ca/roots"], want: [200, 200, 200, 200, 200, 200] },
    { call: ["GET", "/v1/connect/ca/roots"], want: [200, 200, 200, 200, 200, 200] },
    { call: ["GET", `/v1/agent/connect/ca/leaf/${cold}`], want: [403, 403, 403, 403, 403, 403] },
    {
      call: ["POST", "/v1/agent/connect/authorize", authorize],
      want: [403, 403, 200, 200, 200, 403],
    },
    {
      call: ["GET", `/v1/connect/intentions/match?by=destination&name=${web}`],
      want: [403, 403, 200, 200, 200, 200],
    },
    {
      call: ["GET", `/v1/connect/intentions/match?by=destination&name=${db}`],
      want: [403, 403, 403, 403, 200, 403],
    },
    {
      call: ["GET", "/v1/connect/intentions/match?by=destination&name=*"],
      want: [403, 200, 200, 200, 200, 200],
    },
    {
      call: ["GET", `/v1/connect/intentions/check?source=x&destination=${web}`],
      want: [403, 403, 200, 200, 200, 200],
    },
    {
      call: ["GET", `/v1/connect/intentions/exact?source=${db}&destination=${web}`],
      want: [403, 403, 200, 200, 200, 200],
    },
    { call: ["GET", `/v1/discovery-chain/${web}`], want: [403, 403, 200, 200, 200, 200] },
    { call: ["GET", `/v1/discovery-chain/${db}`], want: [403, 403, 403, 403, 200, 403] },
    { call: ["POST", `/v1/discovery-chain/${db}`, {}], want: [403, 403, 403, 403, 200, 403] },
    { call: ["GET", `/v1/health/connect/${db}`], want: [403, 403, 403, 403, 200, 403] },
    { call: ["GET", `/v1/health/connect/${db}?index=1`], want: ["e", "e", "e", "e", 200, "e"] },
    { call: ["GET", `/v1/health/connect/${db}?cached`], want: ["e", "e", "e", "e", 200, "e"] },
    { call: ["GET", `/v1/health/connect/${web}`], want: [403, 403, "e", "e", 200, "e"] },
    { call: ["GET", `/v1/health/service/${db}`], want: ["e", "e", "e", "e", 200, "e"] },
    { call: ["GET", `/v1/catalog/connect/${db}`], want: ["e", "e", "e", "e", 200, "e"] },
    { call: ["GET", `/v1/query/${db}/execute`], want: ["e", "e", "e", "e", 200, "e"] },
    { call: ["GET", "/v1/config/proxy-defaults/global"], want: [200, 200, 200, 200, 200, 200] },
    { call: ["GET", "/v1/config/mesh/mesh"], want: [404, 404, 404, 404, 404, 404] },
    { call: ["GET", `/v1/config/service-defaults/${web}`], want: [403, 403, 200, 200, 200, 200] },
    { call: ["GET", `/v1/config/service-intentions/${web}`], want: [403, 403, 200, 200, 200, 200] },
    { call: ["GET", `/v1/config/service-defaults/${db}`], want: [403, 403, 403, 403, 200, 403] },
    {
      call: ["GET", `/v1/config/service-defaults/absent-of-all`],
      want: [403, 403, 403, 403, 404, 403],
    },
    { call: ["GET", "/v1/config/jwt-provider/absent"], want: [403, 404, 404, 404, 404, 403] },
    { call: ["GET", "/v1/agent/self"], want: [403, 403, 403, 403, 403, 403] },
    { call: ["GET", "/v1/connect/ca/configuration"], want: [403, 403, 403, 403, 403, 403] },
    { call: ["GET", "/v1/acl/token/self"], want: [200, 200, 200, 200, 200, 200] },
    { call: ["GET", "/v1/agent/version"], want: [200, 200, 200, 200, 200, 200] },
    { call: ["GET", "/v1/status/leader"], want: [200, 200, 200, 200, 200, 200] },
    { call: ["GET", "/v1/catalog/datacenters"], want: [200, 200, 200, 200, 200, 200] },
    {
      call: ["PUT", `/v1/agent/service/maintenance/${web}-1?enable=false`],
      want: [403, 403, 200, 200, 200, 403],
    },
  ];
  for (const { call: [method, path, body], want } of rows) {
    test(`${method} ${path.replace(web, "web").replace(db, "db")} by kind of token`, async () => {
      const got: Want[] = [];
      for (const kind of KINDS) {
        const reply = await client.call(method, path, as(kind, body === undefined ? {} : { body }));
        got.push(reply.status === 200 && isEmptied(reply) ? "e" : reply.status);
      }
      assert.deepEqual(got, want);
    });
  }

  test("a leaf that the agent holds is handed to any token and to none", async () => {
    await client.get(`/v1/agent/connect/ca/leaf/${web}`);
    for (const token of [tokens.get("none") ?? "", tokens.get("reader") ?? "", randomUUID(), ""]) {
      const reply = await client.call("GET", `/v1/agent/connect/ca/leaf/${web}`, {
        token,
        // The client would send its own for an empty one.
        headers: {},
      });
      assert.equal(reply.status, 200, reply.text);
      assert.match(reply.text, /PRIVATE KEY/);
    }
  });

  test("a refusal names the missing right, and the token that lacks it", async () => {
    const self = await client.json<{ AccessorID: string }>("/v1/acl/token/self", as("none"));
    const accessor = `token with AccessorID '${self.AccessorID}'`;
    const anonymous =
      "The anonymous token is used implicitly when a request does not specify a token.";
    const cases = [
      [`/v1/agent/service/${web}-1-sidecar-proxy`, "service:read", `${web}-sidecar-proxy`],
      [`/v1/agent/connect/ca/leaf/${unique("cold")}`, "service:write", undefined],
      [`/v1/connect/intentions/match?by=destination&name=${web}`, "intention:read", web],
      [`/v1/discovery-chain/${db}`, "service:read", db],
      [`/v1/config/service-defaults/${db}`, "service:read", db],
    ] as const;
    for (const [path, right, on] of cases) {
      const segment = on ?? path.split("/").at(-1);
      const named = await client.call("GET", path, as("none"));
      assert.equal(
        named.error,
        `Permission denied: ${accessor} lacks permission '${right}' on "${segment}"`,
      );
      const withoutToken = await client.call("GET", path, { token: "" });
      assert.equal(
        withoutToken.error,
        `Permission denied: anonymous token lacks permission '${right}' on "${segment}". ${anonymous}`,
      );
      const unknown = await client.call("GET", path, { token: randomUUID() });
      assert.equal(unknown.status, 403);
      assert.equal(unknown.error, "ACL not found");
    }
    const health = await client.call("GET", `/v1/health/connect/${db}`, as("none"));
    assert.equal(health.error, "Permission denied");
  });

  test("refusals of match and chain carry index 1, those of health and config none", async () => {
    const indexOf = async (path: string) =>
      (await client.call("GET", path, as("none"))).headers.get("X-Consul-Index");
    assert.equal(await indexOf(`/v1/connect/intentions/match?by=destination&name=${web}`), "1");
    assert.equal(await indexOf(`/v1/discovery-chain/${db}`), "1");
    assert.equal(await indexOf(`/v1/health/connect/${db}`), undefined);
    assert.equal(await indexOf(`/v1/config/service-defaults/${db}`), undefined);
  });

  test("hidden results are announced without an index, and never by the streaming backend", async () => {
    const header = async (path: string, kind: Kind) =>
      (await client.get(path, as(kind))).headers.get("X-Consul-Results-Filtered-By-Acls");
    assert.equal(await header(`/v1/health/connect/${web}`, "service"), "true");
    assert.equal(await header(`/v1/health/connect/${web}?index=1`, "service"), undefined);
    assert.equal(await header(`/v1/query/${db}/execute`, "none"), "true");
    assert.equal(await header("/v1/agent/services", "none"), "true");
    const anonymous = await client.get("/v1/agent/services", { token: "" });
    assert.equal(anonymous.text.trim(), "{}");
    assert.equal(anonymous.headers.has("X-Consul-Results-Filtered-By-Acls"), false);
    assert.equal(anonymous.headers.get("X-Consul-Default-Acl-Policy"), "deny");
  });

  test("an unknown token gets an empty list with index 1 from the streaming backend", async () => {
    const reply = await client.get(`/v1/health/connect/${db}?index=1&wait=1s`, {
      token: randomUUID(),
    });
    assert.equal(reply.text.trim(), "[]");
    assert.equal(reply.index, 1);
  });

  test("a token can read its own rights, and be sent in three forms", async () => {
    const body = [
      { Resource: "service", Access: "write", Segment: web },
      { Resource: "service", Access: "read", Segment: db },
      { Resource: "node", Access: "read", Segment: "x" },
      { Resource: "intention", Access: "read", Segment: web },
      { Resource: "mesh", Access: "read" },
    ];
    const allowed = async (kind: Kind) => {
      const reply = await client.call("POST", "/v1/internal/acl/authorize", as(kind, { body }));
      return (JSON.parse(reply.text) as { Allow: boolean }[]).map((answer) => answer.Allow);
    };
    assert.deepEqual(await allowed("service"), [true, false, false, true, false]);
    assert.deepEqual(await allowed("identity"), [true, true, true, true, false]);
    const secret = tokens.get("identity") ?? "";
    const path = `/v1/agent/service/${web}-1`;
    const bearer = { token: "", headers: { Authorization: `Bearer ${secret}` } };
    assert.equal((await client.call("GET", path, bearer)).status, 200);
    assert.equal((await client.call("GET", `${path}?token=${secret}`, { token: "" })).status, 200);
    // The parameter wins over the header.
    assert.equal(
      (await client.call("GET", `${path}?token=${secret}`, { token: randomUUID() })).status,
      200,
    );
  });

  test("the default is false for check and authorize", async () => {
    const check = `/v1/connect/intentions/check?source=x&destination=${unique("none")}`;
    assert.deepEqual(await client.json(check), { Allowed: false });
    const reply = await client.call("POST", "/v1/agent/connect/authorize", {
      body: { Target: web, ClientCertURI: "spiffe://x/ns/postern-probe/dc/dc1/svc/x" },
    });
    assert.deepEqual(JSON.parse(reply.text), {
      Authorized: false,
      Reason: "Default behavior configured by ACLs",
    });
  });
}

function isEmptied(reply: Reply): boolean {
  if (reply.text.trim() === "") return false;
  const body = JSON.parse(reply.text) as unknown;
  if (Array.isArray(body)) return body.length === 0;
  return typeof body === "object" && body !== null && "Nodes" in body &&
    Array.isArray(body.Nodes) && body.Nodes.length === 0;
}
