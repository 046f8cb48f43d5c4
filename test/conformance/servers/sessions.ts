/**
 * Sessions as signs of life: refused requests, and the state of checks that name a session.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient, unique, woken } from "../agent/client.ts";
import type { ServerUnderTest } from "./grpc_client.ts";

const CREATE = "/v1/session/create";
const UNKNOWN_SESSION = "11111111-2222-3333-4444-555555555555";

export function sessionContract(server: ServerUnderTest): void {
  const http = new AgentClient({ ...server, port: server.httpPort, mayAnswerEarly: true });
  const node = unique("virt");
  const name = unique("web");

  test("a node with a check of type session is set up", async () => {
    await http.put("/v1/catalog/register", {
      Node: node,
      Address: "10.0.0.1",
      Service: { Service: name, Port: 1 },
      Check: {
        CheckID: "alive",
        Name: "alive",
        ServiceID: name,
        Type: "session",
        Definition: { SessionName: name },
      },
    });
  });

  for (
    const [path, body, status, text] of [
      [
        CREATE,
        { Node: "nowhere", NodeChecks: [], TTL: "10s" },
        500,
        "apply failed: Missing node registration",
      ],
      [
        CREATE,
        { TTL: "5s" },
        500,
        "Invalid Session TTL '5000000000', must be between [10s=24h0m0s]",
      ],
      [CREATE, { TTL: "x" }, 500, `Session TTL 'x' invalid: time: invalid duration "x"`],
      [CREATE, { TTL: "10s" }, 500, "apply failed: Missing check 'serfHealth' registration"],
      [
        CREATE,
        { NodeChecks: ["no"], TTL: "10s" },
        500,
        "apply failed: Missing check 'no' registration",
      ],
      [
        `/v1/session/renew/${UNKNOWN_SESSION}`,
        {},
        404,
        `Session id '${UNKNOWN_SESSION}' not found`,
      ],
      [`/v1/session/destroy/${UNKNOWN_SESSION}`, {}, 200, "true"],
    ] as const
  ) {
    test(`PUT ${path} ${JSON.stringify(body)} is answered with ${status}`, async () => {
      const reply = await http.call("PUT", path, { body: { Node: node, ...body } });
      assert.deepEqual([reply.status, reply.error.trim()], [status, text]);
    });
  }

  test("a check is passing while the session that it names is in force, and critical from its end on", async () => {
    const read = async () => {
      const [check] = await http.json<readonly Readonly<Record<string, unknown>>[]>(
        `/v1/health/node/${node}`,
      );
      return [check?.["Status"], check?.["Output"]];
    };
    assert.deepEqual(await read(), ["critical", ""]);
    const created = await http.put(CREATE, {
      Name: name,
      Node: node,
      NodeChecks: [],
      TTL: "10s",
      LockDelay: "0s",
    });
    const { ID } = JSON.parse(created.text) as { readonly ID: string };
    assert.deepEqual(await read(), ["passing", `Session '${ID}' in force`]);
    const renewed = await http.put(`/v1/session/renew/${ID}`);
    const [{ CreateIndex: _c, ModifyIndex: _m, ...session }] = JSON.parse(renewed.text);
    assert.deepEqual(session, {
      ID,
      Name: name,
      Node: node,
      LockDelay: 0,
      Behavior: "release",
      TTL: "10s",
      NodeChecks: [],
      ServiceChecks: null,
    });
    const path = `/v1/health/service/${name}`;
    const { index } = await http.get(path);
    const waits = woken(http, (at) => http.get(`${path}?index=${at}&wait=20s`), {
      index,
      wanted: (reply) => reply.text.includes("critical"),
    });
    await http.settle();
    await http.put(`/v1/session/destroy/${ID}`);
    await waits;
    assert.deepEqual(await read(), ["critical", `Session '${ID}' is invalid`]);
    assert.equal((await http.call("PUT", `/v1/session/renew/${ID}`)).status, 404);
  });
}
