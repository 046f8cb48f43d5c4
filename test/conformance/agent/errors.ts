/**
 * What an agent says to calls that it refuses: status, text, and headers that must not be taken for an
 * index.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { AgentClient } from "./client.ts";
import { REFUSED_BALANCERS } from "./load_balancers.ts";

interface Refused {
  readonly call: readonly [method: string, path: string, body?: unknown];
  readonly status: number;
  readonly text: string | RegExp;
  /** `X-Consul-Index` of the refusal; absent: none is sent. */
  readonly index?: string;
}

const SIDECAR = (upstreams: readonly unknown[]) => ({
  Name: "refused",
  Port: 1,
  Connect: { SidecarService: { Proxy: { Upstreams: upstreams } } },
});
const REGISTER = "/v1/agent/service/register";
const AUTHORIZE = "/v1/agent/connect/authorize";
const WEB_URI = "spiffe://x/ns/default/dc/dc1/svc/web";
const NO_ROUTING =
  'discovery chain "rr" uses a protocol "tcp" that does not permit advanced routing or splitting behavior';
const NO_FILTER =
  'Failed to create boolean expression evaluator: 1:6 (5): no match found, expected: "!=", ".", "==", "[", [ \\t\\r\\n] or [a-zA-Z0-9_]';
const ONE = (text: string) => `1 error occurred:\n\t* ${text}\n\n`;

const COMMON: readonly Refused[] = [
  {
    call: ["GET", "/v1/nosuch"],
    status: 404,
    text: "Invalid URL path: not a recognized HTTP API endpoint\n",
  },
  { call: ["POST", "/v1/health/connect/x"], status: 405, text: "method POST not allowed" },
  { call: ["GET", REGISTER], status: 405, text: "method GET not allowed" },
  {
    call: ["GET", "/v1/health/connect/x?index=1&wait=2000"],
    status: 400,
    text: "Invalid wait time",
  },
  { call: ["GET", "/v1/agent/service/x?wait=5"], status: 400, text: "Invalid wait time" },
  { call: ["GET", "/v1/agent/connect/ca/leaf/web?wait=5"], status: 400, text: "Invalid wait time" },
  { call: ["GET", "/v1/config/service-defaults/x?wait=1"], status: 400, text: "Invalid wait time" },
  { call: ["GET", "/v1/health/connect/x?index=abc"], status: 400, text: "Invalid index" },
  { call: ["GET", "/v1/health/connect/x?index=-1"], status: 400, text: "Invalid index" },
  { call: ["GET", "/v1/agent/connect/ca/roots?index=x"], status: 400, text: "Invalid index" },
  { call: ["GET", "/v1/discovery-chain/x?index=a"], status: 400, text: "Invalid index" },
  {
    call: ["GET", "/v1/health/connect/x?ns=default"],
    status: 400,
    text: 'Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature',
  },
  {
    call: ["GET", "/v1/health/connect/x?partition=default"],
    status: 400,
    text: 'Invalid query parameter: "partition" - Partitions are a Consul Enterprise feature',
  },
  {
    call: ["GET", "/v1/health/connect/x?stale&consistent"],
    status: 400,
    text: "Cannot specify ?stale with ?consistent, conflicting semantics.",
  },
  {
    call: ["GET", "/v1/health/connect/x?cached&consistent"],
    status: 400,
    text: "Cannot specify ?cached with ?consistent, conflicting semantics.",
  },
  { call: ["GET", "/v1/health/connect/x?dc=nope"], status: 500, text: "No path to datacenter" },
  { call: ["GET", "/v1/health/connect/x?filter=bogus"], status: 500, text: NO_FILTER },
  { call: ["GET", "/v1/agent/services?filter=bogus"], status: 500, text: NO_FILTER },
  {
    call: ["GET", "/v1/health/connect/web?filter=Service.Bogus==x"],
    status: 500,
    text: 'Failed to create boolean expression evaluator: Selector "Service.Bogus" is not valid',
  },
  { call: ["GET", "/v1/health/connect/"], status: 400, text: "Missing service name" },
  { call: ["GET", "/v1/agent/service/nope"], status: 404, text: "unknown service ID: nope" },
  {
    call: ["GET", "/v1/agent/service/nope?hash=abc&wait=5s"],
    status: 404,
    text: "unknown service ID: nope",
  },
];

const AGENT: readonly Refused[] = [
  {
    call: ["PUT", "/v1/agent/service/deregister/nope"],
    status: 404,
    text: 'Unknown service ID "nope". Ensure that the service ID is passed, not the service name.',
  },
  {
    call: ["PUT", "/v1/agent/service/maintenance/nope?enable=true"],
    status: 404,
    text: 'Unknown service ID "nope". Ensure that the service ID is passed, not the service name.',
  },
  {
    call: ["PUT", "/v1/agent/service/maintenance/x"],
    status: 400,
    text: "Missing value for enable",
  },
  {
    call: ["PUT", "/v1/agent/check/pass/nope"],
    status: 404,
    text: 'Unknown check ID "nope". Ensure that the check ID is passed, not the check name.',
  },
  { call: ["PUT", REGISTER, { ID: "x" }], status: 400, text: "Missing service name" },
  {
    call: ["PUT", REGISTER, { Name: "q", Bogus: 1 }],
    status: 400,
    text: 'Request decode failed: json: unknown field "Bogus"',
  },
  {
    call: ["PUT", REGISTER, { Name: "b", Port: "80" }],
    status: 400,
    text: /^Request decode failed: json: cannot unmarshal string into .*Port of type /,
  },
  { call: ["PUT", REGISTER], status: 400, text: "Request decode failed: EOF" },
  {
    call: ["PUT", REGISTER, { Name: "p", Kind: "connect-proxy", Port: 1 }],
    status: 400,
    text: "Validation failed: " +
      ONE("Proxy.DestinationServiceName must be non-empty for Connect proxy services"),
  },
  {
    call: ["PUT", REGISTER, {
      Name: "p",
      Kind: "connect-proxy",
      Proxy: { DestinationServiceName: "x" },
    }],
    status: 400,
    text: "Validation failed: " + ONE("Port or SocketPath must be set for a connect-proxy"),
  },
  {
    call: ["PUT", REGISTER, { Name: "d", Port: 1, Check: { Name: "q" } }],
    status: 400,
    text: "Invalid check: TTL must be > 0 for TTL checks",
  },
  {
    call: ["PUT", REGISTER, {
      Name: "d",
      Port: 1,
      Connect: { SidecarService: { Connect: { SidecarService: {} } } },
    }],
    status: 400,
    text: "Validation failed: " + ONE("A SidecarService cannot have a nested SidecarService"),
  },
  ...([
    [
      [{ DestinationName: "a" }],
      "upstream local bind port or local socket path must be defined and nonzero",
    ],
    [[{ LocalBindPort: 1 }], "upstream destination name cannot be empty"],
    [
      [{ DestinationName: "*", LocalBindPort: 1 }],
      "upstream destination name cannot be a wildcard",
    ],
    [
      [{ DestinationName: "a", LocalBindPort: 1, LocalBindSocketPath: "/p" }],
      "only one of upstream local bind port or local socket path can be defined and nonzero",
    ],
    [
      [{ DestinationName: "a", LocalBindPort: 1, DestinationPeer: "p", Datacenter: "dc2" }],
      "upstream cannot specify both destination peer and datacenter",
    ],
    [
      [{ DestinationName: "a", LocalBindPort: 1 }, { DestinationName: "b", LocalBindPort: 1 }],
      'upstreams cannot contain duplicates by local bind address and port or unix path; "127.0.0.1:1" is specified twice',
    ],
    [
      [{ DestinationName: "a", LocalBindPort: 1 }, { DestinationName: "a", LocalBindPort: 2 }],
      'upstreams cannot contain duplicates of [type="service", name="a", partition="", namespace="", peer="", datacenter=""]',
    ],
  ] as const).map(([upstreams, text]): Refused => ({
    call: ["PUT", REGISTER, SIDECAR(upstreams)],
    status: 400,
    text: `Failed Validation: ${ONE(text)}`,
  })),
];

const CONNECT: readonly Refused[] = [
  {
    call: ["GET", "/v1/agent/connect/ca/leaf/"],
    status: 500,
    text: "URI must be either service, agent, server, or kind",
  },
  {
    call: ["GET", "/v1/agent/connect/ca/leaf/a/b"],
    status: 500,
    text:
      /^SPIFFE ID is not in the expected format: spiffe:\/\/[0-9a-f-]+\.consul\/ns\/default\/dc\/dc1\/svc\/a\/b$/,
  },
  {
    call: ["POST", AUTHORIZE, { ClientCertURI: WEB_URI }],
    status: 400,
    text: "Target service must be specified",
  },
  {
    call: ["POST", AUTHORIZE, { Target: "x", ClientCertURI: "" }],
    status: 400,
    text: "ClientCertURI not a valid Connect identifier",
  },
  {
    call: ["POST", AUTHORIZE, { Target: "x", ClientCertURI: "https://x/" }],
    status: 400,
    text: "ClientCertURI not a valid Connect identifier",
  },
  {
    call: ["POST", AUTHORIZE, { Target: "x", ClientCertURI: "spiffe://x/gateway/mesh/dc/dc1" }],
    status: 400,
    text: "ClientCertURI not a valid Service identifier",
  },
  {
    call: ["POST", AUTHORIZE, {
      Target: "x",
      ClientCertURI: "spiffe://x/ap/foo/ns/default/dc/dc1/svc/web",
    }],
    status: 400,
    text: 'Mismatched partitions: "foo" != "default"',
  },
  {
    call: ["POST", AUTHORIZE, { Target: "x", Bogus: 1 }],
    status: 400,
    text: 'Request decode failed: json: unknown field "Bogus"',
  },
  {
    call: ["GET", "/v1/connect/intentions/match?name=x"],
    status: 500,
    text: "required query parameter 'by' not set",
  },
  {
    call: ["GET", "/v1/connect/intentions/match?by=destination"],
    status: 500,
    text: "required query parameter 'name' not set",
  },
  {
    call: ["GET", "/v1/connect/intentions/match?by=bogus&name=x"],
    status: 500,
    text: "'by' parameter must be one of 'source' or 'destination'",
  },
  {
    call: ["GET", "/v1/connect/intentions/check?source=x"],
    status: 500,
    text: "required query parameter 'destination' not set",
  },
  {
    call: ["GET", "/v1/connect/intentions/exact?source=x&destination=nosuch"],
    status: 404,
    text: "Intention not found",
  },
];

const CONFIG: readonly Refused[] = [
  { call: ["GET", "/v1/config/bogus/x"], status: 500, text: "invalid config entry kind: bogus" },
  { call: ["GET", "/v1/config/bogus"], status: 500, text: "invalid config entry kind: bogus" },
  ...([
    [
      { Kind: "bogus", Name: "x" },
      400,
      "Request decoding failed: invalid config entry kind: bogus",
    ],
    [
      { Name: "x" },
      400,
      "Request decoding failed: Payload does not contain a kind/Kind key at the top level",
    ],
    [{ Kind: "service-defaults" }, 500, "Name is required"],
    [
      { Kind: "service-defaults", Name: "x", Bogus: 1 },
      400,
      `Request decoding failed: ${ONE('invalid config key "Bogus"')}`,
    ],
    [
      { Kind: "service-defaults", Name: "x", Namespace: "default" },
      400,
      `Request decoding failed: ${
        ONE('invalid config key "Namespace", namespaces are a consul enterprise feature')
      }`,
    ],
    [
      { Kind: "service-defaults", Name: "x", Protocol: "http3" },
      500,
      ONE("invalid value for protocol: http3"),
    ],
    [
      {
        Kind: "service-defaults",
        Name: "p",
        RateLimits: { InstanceLevel: { RequestsPerSecond: 10 } },
      },
      500,
      ONE("invalid rate_limits config. Rate limiting is a consul enterprise feature"),
    ],
    [{ Kind: "proxy-defaults", Name: "x" }, 500, 'invalid name ("x"), only "global" is supported'],
    [
      { Kind: "mesh", Name: "q" },
      400,
      `Request decoding failed: ${ONE('invalid config key "Name"')}`,
    ],
    [{ Kind: "service-router", Name: "rr", Routes: [] }, 500, NO_ROUTING],
    [{ Kind: "service-splitter", Name: "rr", Splits: [{ Weight: 100 }] }, 500, NO_ROUTING],
    [
      {
        Kind: "service-splitter",
        Name: "rr",
        Splits: [{ Weight: 50 }, { Weight: 10, Service: "x" }],
      },
      500,
      "the sum of all split weights must be 100, not 60.000000",
    ],
    [
      { Kind: "service-resolver", Name: "rr", DefaultSubset: "v1" },
      500,
      'DefaultSubset "v1" is not a valid subset',
    ],
    [{ Kind: "service-resolver", Name: "rr", Redirect: {} }, 500, "Redirect is empty"],
    [
      { Kind: "service-resolver", Name: "rr", Redirect: { Service: "r2", ServiceSubset: "zz" } },
      500,
      'service "r2" does not have a subset named "zz"',
    ],
    [
      { Kind: "service-resolver", Name: "rr", Failover: { "*": {} } },
      500,
      'Bad Failover["*"]: one of Service, ServiceSubset, Namespace, Targets, SamenessGroup, or Datacenters is required',
    ],
    [
      { Kind: "service-resolver", Name: "rr", Failover: { zz: { Service: "x" } } },
      500,
      'Bad Failover["zz"]: not a valid subset subset',
    ],
    [
      { Kind: "service-resolver", Name: "rr", Subsets: { a: { Filter: "bogus" } } },
      500,
      /^Filter for subset "a" is not a valid expression: 1:6 \(5\): no match found/,
    ],
    [
      { Kind: "service-resolver", Name: "rr", LoadBalancer: { Policy: "bogus" } },
      500,
      'Bad LoadBalancer policy: "bogus" is not supported',
    ],
    ...REFUSED_BALANCERS.map(([LoadBalancer, text]) =>
      [
        { Kind: "service-resolver", Name: "rr", LoadBalancer },
        500,
        `Bad LoadBalancer${text}`,
      ] as const
    ),
    ...["service-resolver", "proxy-defaults"].map((Kind) =>
      [
        { Kind, Name: "global", PrioritizeByLocality: { Mode: "none" } },
        500,
        "Prioritize-by-locality requires Consul Enterprise ",
      ] as const
    ),
    [
      { Kind: "service-intentions", Name: "rr", Sources: [] },
      500,
      "At least one source is required",
    ],
    [
      { Kind: "service-intentions", Name: "rr", Sources: [{ Name: "x" }] },
      500,
      "Sources[0].Action must be set to 'allow' or 'deny'",
    ],
    [
      {
        Kind: "service-intentions",
        Name: "rr",
        Sources: [{ Name: "x", Action: "allow" }, { Name: "x", Action: "deny" }],
      },
      500,
      'Sources[1] defines "x" more than once',
    ],
    [
      {
        Kind: "service-intentions",
        Name: "rr",
        Sources: [{ Name: "x", Permissions: [{ Action: "allow", HTTP: { PathExact: "/" } }] }],
      },
      500,
      'service "rr" has protocol "tcp", which is incompatible with L7 intentions permissions',
    ],
  ] as const).map(([body, status, text]): Refused => ({
    call: ["PUT", "/v1/config", body],
    status,
    text,
  })),
];

const CHAIN_AND_QUERY: readonly Refused[] = [
  { call: ["GET", "/v1/discovery-chain/"], status: 400, text: "Missing chain name" },
  { call: ["POST", "/v1/discovery-chain/x"], status: 400, text: "Request decoding failed: EOF" },
  {
    call: ["POST", "/v1/discovery-chain/x", { OverrideConnectTimeout: "bogus" }],
    status: 400,
    text:
      /^Request decoding failed: decoding failed due to the following error\(s\):\n\n'OverrideConnectTimeout' time: invalid duration/,
  },
  {
    call: ["POST", "/v1/discovery-chain/x", { OverrideMeshGateway: { Mode: "bogus" } }],
    status: 400,
    text: "Invalid OverrideMeshGateway.Mode parameter",
  },
  { call: ["GET", "/v1/query/nope/execute"], status: 404, text: "Query not found", index: "1" },
  {
    call: ["GET", "/v1/query/nope"],
    status: 500,
    text: "failed prepared query lookup: index error: UUID must be 36 characters",
    index: "1",
  },
  {
    call: ["POST", "/v1/query", { Name: "q2" }],
    status: 500,
    text: "Invalid prepared query: Must provide a Service name to query",
  },
  {
    call: ["POST", "/v1/query", {
      Name: "q3",
      Service: { Service: "web", Failover: { NearestN: 1, Targets: [{ Datacenter: "dc2" }] } },
    }],
    status: 500,
    text: "Invalid prepared query: Targets cannot be populated with NearestN or Datacenters",
  },
];

/** Every refusal of the table, and what all refusals have in common. */
export function errorContract(agent: AgentClient): void {
  for (const refused of [...COMMON, ...AGENT, ...CONNECT, ...CONFIG, ...CHAIN_AND_QUERY]) {
    const [method, path, body] = refused.call;
    const what = body === undefined ? "" : ` ${JSON.stringify(body).slice(0, 120)}`;
    test(`${method} ${path}${what} is refused with ${refused.status}`, async () => {
      const reply = await agent.call(method, path, body === undefined ? {} : { body });
      assert.equal(reply.status, refused.status, reply.text);
      if (typeof refused.text === "string") assert.equal(reply.error, refused.text);
      else assert.match(reply.error, refused.text);
      assert.match(reply.headers.get("Content-Type") ?? "", /^text\/plain/);
      assert.equal(reply.headers.get("X-Consul-Index"), refused.index);
    });
  }

  test("a wrong method names the right ones", async () => {
    const reply = await agent.call("POST", "/v1/health/connect/x");
    assert.equal(reply.headers.get("Allow"), "OPTIONS,GET");
  });

  test("an empty namespace is accepted, a namespace header is not", async () => {
    await agent.get("/v1/health/connect/x?ns=");
    const reply = await agent.call("GET", "/v1/health/connect/x", {
      headers: { "X-Consul-Namespace": "default" },
    });
    assert.equal(reply.status, 400);
    assert.equal(
      reply.error,
      'Invalid header: "X-Consul-Namespace" - Namespaces are a Consul Enterprise feature',
    );
  });
}
