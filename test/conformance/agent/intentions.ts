/**
 * Intentions: the intentions of a match and those it leaves out, its order, the changes that wake it,
 * and the agent's verdicts.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type AgentClient, keys, type Reply, unique, unmoved, woken } from "./client.ts";

type Intention = Readonly<Record<string, unknown>>;

export function intentionContract(agent: AgentClient): void {
  const match = (name: string, more = "") =>
    agent.get(`/v1/connect/intentions/match?by=destination&name=${name}${more}`);
  const matched = async (name: string) =>
    (JSON.parse((await match(name)).text) as Record<string, Intention[] | null>)[name];

  test("match gives null, not an empty list, and an index to wait on", async () => {
    const name = unique("none");
    const reply = await match(name);
    assert.deepEqual(JSON.parse(reply.text), { [name]: null });
    assert.ok(reply.index > 0);
    assert.equal(reply.headers.get("X-Consul-Knownleader"), "true");
    assert.equal(reply.headers.get("X-Consul-Lastcontact"), "0");
  });

  test("a match on nothing waits for the first intention and for the last one's removal", async () => {
    const name = unique("first");
    const before = await match(name);
    const poll = (index: number) => match(name, `&index=${index}&wait=60s`);
    const isNothing = ({ text }: Reply) =>
      (JSON.parse(text) as Record<string, unknown>)[name] === null;
    const filled = woken(agent, poll, {
      index: before.index,
      wanted: (reply) => !isNothing(reply),
    });
    await agent.put(`/v1/connect/intentions/exact?source=web&destination=${name}`, {
      Action: "allow",
    });
    const reply = await filled;
    assert.ok((JSON.parse(reply.text) as Record<string, unknown>)[name]);
    const emptied = woken(agent, poll, { index: reply.index, wanted: isNothing });
    const removed = await agent.call(
      "DELETE",
      `/v1/connect/intentions/exact?source=web&destination=${name}`,
    );
    assert.equal(removed.text.trim(), "true");
    const last = await emptied;
    assert.deepEqual(JSON.parse(last.text), { [name]: null });
  });

  test("a waiting match is not woken by another destination's intention", async () => {
    const name = unique("quiet");
    const reply = await unmoved(agent, 400, async () => {
      const before = await match(name);
      const waiting = match(name, `&index=${before.index}&wait=400ms`);
      await agent.settle();
      await agent.put(`/v1/connect/intentions/exact?source=web&destination=${unique("other")}`, {
        Action: "allow",
      });
      return await waiting;
    });
    assert.deepEqual(JSON.parse(reply.text), { [name]: null });
  });

  test("an L4 intention has exactly these keys", async () => {
    const name = unique("keys");
    await agent.configEntry({
      Kind: "service-intentions",
      Name: name,
      Sources: [{ Name: "web", Action: "allow" }],
    });
    const [intention] = await matched(name) ?? [];
    const { CreateIndex, ModifyIndex, ...rest } = intention ?? {};
    assert.deepEqual(rest, {
      SourceNS: "default",
      SourceName: "web",
      DestinationNS: "default",
      DestinationName: name,
      SourceType: "consul",
      Action: "allow",
      Precedence: 9,
    });
    assert.equal(typeof CreateIndex, "number");
    assert.equal(CreateIndex, ModifyIndex);
  });

  test("order is by precedence, local sources before peers, then by name", async () => {
    const name = unique("order");
    await agent.configEntry({
      Kind: "service-intentions",
      Name: name,
      Meta: { m: "1" },
      Sources: [
        { Name: "*", Action: "deny", Peer: "east" },
        { Name: "web", Action: "allow", Description: "d" },
        { Name: "peered", Action: "allow", Peer: "east" },
        { Name: "*", Action: "deny" },
        { Name: "batch", Action: "allow" },
      ],
    });
    const list = await matched(name) ?? [];
    assert.deepEqual(
      list.map((item) => [item["SourceName"], item["SourcePeer"], item["Precedence"]]),
      [
        ["batch", undefined, 9],
        ["web", undefined, 9],
        ["peered", "east", 9],
        ["*", undefined, 8],
        ["*", "east", 8],
      ],
    );
    assert.ok(list.every((item) => JSON.stringify(item["Meta"]) === '{"m":"1"}'));
    assert.equal(list[1]?.["Description"], "d");
  });

  test("permissions replace the action", async () => {
    const name = unique("http");
    await agent.configEntry({ Kind: "service-defaults", Name: name, Protocol: "http" });
    await agent.configEntry({
      Kind: "service-intentions",
      Name: name,
      Sources: [{
        Name: "web",
        Permissions: [{ Action: "allow", HTTP: { PathRegex: "(", Methods: ["GET"] } }],
      }],
    });
    const [intention] = await matched(name) ?? [];
    assert.equal(intention?.["Action"], undefined);
    assert.deepEqual(intention?.["Permissions"], [
      { Action: "allow", HTTP: { PathRegex: "(", Methods: ["GET"] } },
    ]);
    const check = `/v1/connect/intentions/check?source=web&destination=${name}`;
    assert.deepEqual(await agent.json(check), { Allowed: false });
  });

  test("match finds names in any letter case and takes several, also with a namespace before", async () => {
    const name = unique("case");
    await agent.configEntry({
      Kind: "service-intentions",
      Name: name,
      Sources: [{ Name: "web", Action: "allow" }],
    });
    const upper = name.toUpperCase();
    const body = await agent.json<Record<string, unknown>>(
      `/v1/connect/intentions/match?by=destination&name=${upper}&name=default/${name}`,
    );
    assert.deepEqual(keys(body), [`default/${name}`, upper].sort());
    assert.ok(Array.isArray(body[upper]));
    assert.ok(Array.isArray(body[`default/${name}`]));
  });

  test("authorize names the intention that decided, and the default for a namespace that none can name", async () => {
    const name = unique("target");
    await agent.configEntry({
      Kind: "service-intentions",
      Name: name,
      Sources: [{ Name: "*", Action: "allow" }, { Name: "web", Action: "deny" }],
    });
    const ask = async (namespace: string, service: string) => {
      const reply = await agent.call("POST", "/v1/agent/connect/authorize", {
        body: { Target: name, ClientCertURI: `spiffe://x/ns/${namespace}/dc/dc9/svc/${service}` },
      });
      assert.equal(reply.status, 200, reply.text);
      assert.equal(reply.headers.has("X-Consul-Index"), false);
      return JSON.parse(reply.text) as { Authorized: boolean; Reason: string };
    };
    assert.deepEqual(await ask("default", "web"), {
      Authorized: false,
      Reason: `Matched L4 intention: default/web => default/${name} (Precedence: 9, Action: DENY)`,
    });
    assert.deepEqual(await ask("default", "WEB"), {
      Authorized: true,
      Reason: `Matched L4 intention: default/* => default/${name} (Precedence: 8, Action: ALLOW)`,
    });
    assert.deepEqual(await ask("postern-probe", "web"), {
      Authorized: true,
      Reason: "Default behavior configured by ACLs",
    });
  });

  test("match by source lists the intentions that cover that source", async () => {
    const source = unique("caller");
    const name = unique("callee");
    await agent.configEntry({
      Kind: "service-intentions",
      Name: name,
      Sources: [{ Name: source, Action: "allow" }],
    });
    const body = await agent.json<Record<string, Intention[]>>(
      `/v1/connect/intentions/match?by=source&name=${source}`,
    );
    assert.ok(body[source]?.some((item) => item["DestinationName"] === name));
  });
}
