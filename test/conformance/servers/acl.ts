/** ACL rights at a server, with ACLs on and default deny. @module */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { generateKey } from "../../kit/certs/mint.ts";
import { mintRequest } from "../../kit/certs/mint_csr.ts";
import { AgentClient, unique, until } from "../agent/client.ts";
import { GrpcClient, type ServerUnderTest } from "./grpc_client.ts";

/** No token, a valid one without rights, service identity, node:write, an unknown one. */
const KINDS = ["anonymous", "none", "identity", "node", "unknown"] as const;
type Kind = (typeof KINDS)[number];

const NEEDS_TOKEN =
  "An ACL token must be provided (via the `x-consul-token` metadata field) to call this endpoint";

/** For a server with ACLs. */
export function serverAclContract(server: ServerUnderTest): void {
  const http = new AgentClient({ ...server, port: server.httpPort });
  const grpc = new GrpcClient(server);
  const node = unique("virt");
  const web = unique("web");
  const tokens = new Map<Kind, string>([["anonymous", ""], ["unknown", randomUUID()]]);
  const accessors = new Map<Kind, string>();

  const newToken = async (kind: Kind, body: Readonly<Record<string, unknown>>) => {
    const { text } = await http.put("/v1/acl/token", { Description: "contract", ...body });
    const { SecretID, AccessorID } = JSON.parse(text) as Readonly<Record<string, string>>;
    tokens.set(kind, SecretID ?? "");
    accessors.set(kind, AccessorID ?? "");
  };
  const lacks = (kind: Kind, right: string, on: string) =>
    kind === "unknown"
      ? "ACL not found"
      : kind === "anonymous"
      ? `Permission denied: anonymous token lacks permission '${right}' on "${on}". The anonymous token is used implicitly when a request does not specify a token.`
      : `Permission denied: token with AccessorID '${
        accessors.get(kind)
      }' lacks permission '${right}' on "${on}"`;

  test("tokens, a node and a service for the table are set up", async () => {
    await newToken("none", {});
    await newToken("identity", { ServiceIdentities: [{ ServiceName: web }] });
    const Name = unique("policy");
    await http.put("/v1/acl/policy", { Name, Rules: `node "${node}" { policy = "write" }` });
    await newToken("node", { Policies: [{ Name }] });
    await http.put("/v1/catalog/register", { Node: node, Address: "10.0.0.1" });
    // A new token may take a moment.
    for (const kind of KINDS) {
      if (kind === "unknown" || kind === "anonymous") continue;
      const token = tokens.get(kind) ?? "";
      await until(
        () => http.call("GET", "/v1/acl/token/self", { token }),
        ({ status }) => status === 200,
      );
    }
  });

  const service = { ID: `${web}-1`, Service: web, Port: 1 };
  const check = { CheckID: `${web}-up`, Name: "up", Status: "passing", ServiceID: `${web}-1` };
  const skip = { Node: node, SkipNodeUpdate: true };
  /**
   * The name of the call, its body, and for each kind of token the right that it lacks; undefined: none.
   */
  const rows: readonly (readonly [
    what: string,
    path: "register" | "deregister",
    body: unknown,
    lacking: (kind: Kind) => readonly [right: string, on: string] | undefined,
  ])[] = [
    [
      "a service on a node that stays as it is",
      "register",
      { ...skip, Service: service },
      (kind) => kind === "identity" ? undefined : ["service:write", web],
    ],
    [
      "the same with the node repeated as it is",
      "register",
      { Node: node, Address: "10.0.0.1", Service: service },
      (kind) => kind === "identity" ? undefined : ["service:write", web],
    ],
    [
      "a service and another address of its node",
      "register",
      { Node: node, Address: "10.0.0.2", Service: service },
      (kind) => kind === "identity" ? ["node:write", node] : ["service:write", web],
    ],
    [
      "a check of a service",
      "register",
      { ...skip, Check: check },
      (kind) => kind === "identity" ? undefined : ["service:write", web],
    ],
    [
      "a check of the node",
      "register",
      { ...skip, Check: { CheckID: "n", Name: "n" } },
      (kind) => kind === "node" ? undefined : ["node:write", node],
    ],
    [
      "a service on a node that is not there",
      "register",
      { Node: `${node}-no`, SkipNodeUpdate: true, Service: service },
      (kind) => kind === "identity" ? ["node:write", `${node}-no`] : ["service:write", web],
    ],
    [
      "a node",
      "deregister",
      { Node: `${node}-no` },
      () => ["node:write", `${node}-no`],
    ],
  ];
  for (const [what, path, body, lacking] of rows) {
    test(`only tokens with the right may ${path} ${what}`, async () => {
      for (const kind of KINDS) {
        const reply = await http.call("PUT", `/v1/catalog/${path}`, {
          body,
          token: tokens.get(kind) ?? "",
        });
        const missing = lacking(kind);
        assert.equal(reply.status, missing ? 403 : 200, `${kind}: ${reply.text}`);
        assert.equal(reply.error, missing ? lacks(kind, ...missing) : "true", kind);
      }
    });
  }

  test("a token that may write the service or its node may deregister the service", async () => {
    for (const kind of ["identity", "node"] as const) {
      await http.put("/v1/catalog/register", { ...skip, Service: service });
      const body = { Node: node, ServiceID: service.ID };
      const call = (token: string) => http.call("PUT", "/v1/catalog/deregister", { body, token });
      assert.equal((await call(tokens.get("none") ?? "")).status, 403);
      assert.equal((await call(tokens.get(kind) ?? "")).status, 200);
    }
  });

  test("deregistering something unknown is an error for a token that may not write the node", async () => {
    for (
      const [what, text] of [
        [{ ServiceID: "nope" }, "Unknown service ID 'nope'"],
        [{ CheckID: "nope" }, "Unknown check ID 'nope'"],
      ] as const
    ) {
      for (const kind of ["anonymous", "none", "identity", "node"] as const) {
        const reply = await http.call("PUT", "/v1/catalog/deregister", {
          body: { Node: node, ...what },
          token: tokens.get(kind) ?? "",
        });
        const want = kind === "node" ? [200, "true"] : [500, text];
        assert.deepEqual([reply.status, reply.error], want, kind);
      }
    }
  });

  test("without node:read a node looks as if it were not there", async () => {
    await http.put("/v1/catalog/register", { ...skip, Service: service });
    const path = `/v1/catalog/node-services/${node}?merge-central-config`;
    const read = (kind: Kind) => http.call("GET", path, { token: tokens.get(kind) ?? "" });
    const hidden = await read("none");
    assert.equal(hidden.status, 200);
    assert.equal(hidden.text.replace(/\s/g, ""), '{"Node":null,"Services":null}');
    assert.equal(hidden.headers.get("X-Consul-Results-Filtered-By-Acls"), "true");
    assert.match((await read("identity")).text, new RegExp(`"${web}"`));
    const nodeOnly = JSON.parse((await read("node")).text) as { Node: unknown; Services: unknown };
    assert.notEqual(nodeOnly.Node, null);
    assert.deepEqual(nodeOnly.Services, []);
  });

  for (const method of ["features", "servers", "roots"] as const) {
    test(`${method}: any token will do, none will not`, async () => {
      for (const kind of KINDS) {
        const answer = await grpc.ask(method, {}, tokens.get(kind) ?? "");
        const want = kind === "anonymous"
          ? [16, NEEDS_TOKEN]
          : kind === "unknown"
          ? [16, "ACL not found"]
          : [0, ""];
        assert.deepEqual([answer.code, answer.details], want, kind);
      }
    });
  }

  test("Sign needs service:write on the name, bootstrap parameters service:read", async () => {
    const { TrustDomain } = await http.json<{ TrustDomain: string }>("/v1/agent/connect/ca/roots");
    const uris = [`spiffe://${TrustDomain}/ns/default/dc/dc1/svc/${web}`];
    const csr = mintRequest(generateKey(), { uris });
    for (const kind of KINDS) {
      const may = kind === "identity";
      const token = tokens.get(kind) ?? "";
      const code = may ? 0 : kind === "unknown" ? 16 : 7;
      const signed = await grpc.ask("sign", { csr }, token);
      const text = may ? "" : lacks(kind, "service:write", web);
      assert.deepEqual([signed.code, signed.details], [code, text], kind);
      const asked = { node_name: node, proxy_id: service.ID };
      const params = await grpc.ask("bootstrap", asked, token);
      const reading = may ? "" : lacks(kind, "service:read", web);
      assert.deepEqual([params.code, params.details], [code, reading], kind);
    }
  });

  for (const method of ["servers", "roots"] as const) {
    test(`${method}: a stream ends when its token is no more`, async () => {
      await newToken("none", {});
      const token = tokens.get("none") ?? "";
      await until(() => grpc.ask(method, {}, token), ({ code }) => code === 0);
      const stream = grpc.follow(method, {}, token);
      assert.equal((await stream.next()).code, 0);
      await http.call("DELETE", `/v1/acl/token/${accessors.get("none")}`);
      const { code, details } = await stream.next();
      stream.close();
      assert.deepEqual([code, details], [16, "ACL not found"]);
    });
  }

  test("login by an unknown method fails, and so does logout of a token that did not log in", async () => {
    for (
      const [method, request, code, details] of [
        ["login", { auth_method: "nope" }, 3, 'auth method "nope" not found'],
        ["logout", {}, 3, "token is required"],
        ["logout", { token: randomUUID() }, 0, ""],
        [
          "logout",
          { token: tokens.get("identity") ?? "" },
          7,
          "Permission denied: token wasn't created via login",
        ],
      ] as const
    ) {
      const answer = await grpc.ask(method, request, "");
      assert.deepEqual([answer.code, answer.details], [code, details]);
    }
  });
}
