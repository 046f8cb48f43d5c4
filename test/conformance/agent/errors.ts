/**
 * Refusals that a client acts on: their status, the texts that it matches, and no header that could be taken
 * for an index. The texts of other refusals are each agent's own.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type AgentClient, unique } from "./client.ts";

interface Refused {
  readonly call: readonly [method: string, path: string, body?: unknown];
  readonly status: number;
  /** Absent: any text. */
  readonly text?: RegExp;
}

const REGISTER = "/v1/agent/service/register";
const AUTHORIZE = "/v1/agent/connect/authorize";
const WEB_URI = "spiffe://x/ns/default/dc/dc1/svc/web";

const REFUSED: readonly Refused[] = [
  {
    call: ["GET", "/v1/nosuch"],
    status: 404,
    text: /^Invalid URL path: not a recognized HTTP API endpoint\n$/,
  },
  { call: ["POST", "/v1/health/connect/x"], status: 405, text: /^method POST not allowed$/ },
  { call: ["GET", "/v1/health/connect/x?index=1&wait=2000"], status: 400 },
  { call: ["GET", "/v1/config/service-defaults/x?wait=1"], status: 400 },
  { call: ["GET", "/v1/health/connect/x?index=abc"], status: 400 },
  { call: ["GET", "/v1/health/connect/x?index=-1"], status: 400 },
  { call: ["GET", "/v1/agent/connect/ca/roots?index=x"], status: 400 },
  { call: ["GET", "/v1/discovery-chain/x?index=a"], status: 400 },
  {
    call: ["GET", "/v1/health/connect/x?ns=default"],
    status: 400,
    text: /is a Consul Enterprise feature|are a Consul Enterprise feature/,
  },
  {
    call: ["GET", "/v1/health/connect/x?dc=nope"],
    status: 500,
    text: /^No path to datacenter$/,
  },
  {
    call: ["GET", "/v1/agent/service/nope"],
    status: 404,
    text: /^unknown service ID: nope$/,
  },
  {
    call: ["GET", "/v1/agent/service/nope?hash=abc&wait=5s"],
    status: 404,
    text: /^unknown service ID: nope$/,
  },
  { call: ["PUT", "/v1/agent/service/deregister/nope"], status: 404 },
  { call: ["PUT", "/v1/agent/service/maintenance/nope?enable=true"], status: 404 },
  { call: ["PUT", "/v1/agent/check/pass/nope"], status: 404 },
  { call: ["PUT", REGISTER, { ID: "x" }], status: 400 },
  { call: ["PUT", REGISTER, { Name: "q", Bogus: 1 }], status: 400 },
  { call: ["PUT", REGISTER, { Name: "b", Port: "80" }], status: 400 },
  { call: ["PUT", REGISTER], status: 400 },
  { call: ["PUT", REGISTER, { Name: "p", Kind: "connect-proxy", Port: 1 }], status: 400 },
  { call: ["PUT", REGISTER, { Name: "d", Port: 1, Check: { Name: "q" } }], status: 400 },
  ...[{ DestinationName: "a" }, { LocalBindPort: 1 }].map((upstream): Refused => ({
    call: ["PUT", REGISTER, {
      Name: "refused",
      Port: 1,
      Connect: { SidecarService: { Proxy: { Upstreams: [upstream] } } },
    }],
    status: 400,
  })),
  { call: ["POST", AUTHORIZE, { ClientCertURI: WEB_URI }], status: 400 },
  { call: ["POST", AUTHORIZE, { Target: "x", ClientCertURI: "https://x/" }], status: 400 },
  {
    call: ["POST", AUTHORIZE, { Target: "x", ClientCertURI: "spiffe://x/gateway/mesh/dc/dc1" }],
    status: 400,
  },
  {
    call: ["GET", "/v1/connect/intentions/exact?source=x&destination=nosuch"],
    status: 404,
  },
  { call: ["PUT", "/v1/config", { Kind: "bogus", Name: "x" }], status: 400 },
  { call: ["PUT", "/v1/config", { Name: "x" }], status: 400 },
  { call: ["PUT", "/v1/config", { Kind: "service-defaults", Name: "x", Bogus: 1 }], status: 400 },
  {
    call: ["POST", "/v1/discovery-chain/x", { OverrideConnectTimeout: "bogus" }],
    status: 400,
  },
];

/** Entries that no agent keeps, whatever it answers to their write. */
const UNKEPT: readonly (readonly [what: string, entry: Readonly<Record<string, unknown>>])[] = [
  ["no name", { Kind: "service-defaults" }],
  ["an unknown protocol", { Kind: "service-defaults", Name: "rr", Protocol: "http3" }],
  ["another name than global", { Kind: "proxy-defaults", Name: "x" }],
  ["routes over TCP", { Kind: "service-router", Name: "rr", Routes: [] }],
  ["splits over TCP", { Kind: "service-splitter", Name: "rr", Splits: [{ Weight: 100 }] }],
  [
    "weights that are not 100",
    {
      Kind: "service-splitter",
      Name: "rr",
      Splits: [{ Weight: 50 }, { Weight: 10, Service: "x" }],
    },
  ],
  [
    "a redirect to a subset that is not there",
    {
      Kind: "service-resolver",
      Name: "rr",
      Redirect: { Service: "r2", ServiceSubset: "zz" },
    },
  ],
  [
    "a filter that cannot be read",
    { Kind: "service-resolver", Name: "rr", Subsets: { a: { Filter: "bogus" } } },
  ],
  ["no sources", { Kind: "service-intentions", Name: "rr", Sources: [] }],
  [
    "a source without an action",
    { Kind: "service-intentions", Name: "rr", Sources: [{ Name: "x" }] },
  ],
  [
    "a source twice",
    {
      Kind: "service-intentions",
      Name: "rr",
      Sources: [{ Name: "x", Action: "allow" }, { Name: "x", Action: "deny" }],
    },
  ],
  [
    "permissions over TCP",
    {
      Kind: "service-intentions",
      Name: "rr",
      Sources: [{ Name: "x", Permissions: [{ Action: "allow", HTTP: { PathExact: "/" } }] }],
    },
  ],
  [
    "tokens of a provider that is not there",
    {
      Kind: "service-intentions",
      Name: "rr",
      JWT: { Providers: [{ Name: "nobody" }] },
      Sources: [{ Name: "web", Action: "allow" }],
    },
  ],
  ["no keys", { Kind: "jwt-provider", Name: "p", Issuer: "a" }],
  ["empty keys", { Kind: "jwt-provider", Name: "p", Issuer: "a", JSONWebKeySet: {} }],
];

/** Permissions that could not be judged. */
const UNJUDGED: readonly (readonly [what: string, permission: unknown])[] = [
  ["no action", { HTTP: { PathExact: "/" } }],
  ["nothing about HTTP", { Action: "allow" }],
  ["no condition", { Action: "allow", HTTP: {} }],
  ["two paths", { Action: "allow", HTTP: { PathExact: "/a", PathRegex: "b" } }],
  ["a header without a name", { Action: "allow", HTTP: { Header: [{ Exact: "a" }] } }],
  [
    "a header without a match",
    { Action: "allow", HTTP: { Header: [{ Name: "a", Invert: true }] } },
  ],
];

export function errorContract(agent: AgentClient): void {
  for (const { call: [method, path, body], status, text = /./ } of REFUSED) {
    const what = body === undefined ? "" : ` ${JSON.stringify(body).slice(0, 120)}`;
    test(`${method} ${path}${what} is refused with ${status}`, async () => {
      const reply = await agent.call(method, path, body === undefined ? {} : { body });
      assert.equal(reply.status, status, reply.text);
      assert.match(reply.error, text);
      assert.match(reply.headers.get("Content-Type") ?? "", /^text\/plain/);
      assert.equal(reply.headers.get("X-Consul-Index"), undefined);
    });
  }

  for (const [what, entry] of UNKEPT) {
    test(`a ${entry["Kind"]} entry with ${what} is refused`, async () => {
      const reply = await agent.call("PUT", "/v1/config", { body: entry });
      assert.ok(reply.status >= 400, `${reply.status} ${reply.text}`);
    });
  }

  for (const [what, permission] of UNJUDGED) {
    test(`a permission with ${what} is refused`, async () => {
      const Name = unique("odd");
      await agent.configEntry({ Kind: "service-defaults", Name, Protocol: "http" });
      const Sources = [{ Name: "web", Permissions: [permission] }];
      const reply = await agent.call("PUT", "/v1/config", {
        body: { Kind: "service-intentions", Name, Sources },
      });
      assert.ok(reply.status >= 400, `${reply.status} ${reply.text}`);
    });
  }

  test("a prepared query that is not there is 404", async () => {
    assert.equal((await agent.call("GET", "/v1/query/nope/execute")).status, 404);
  });

  test("an empty namespace is accepted", async () => {
    await agent.get("/v1/health/connect/x?ns=");
  });
}
