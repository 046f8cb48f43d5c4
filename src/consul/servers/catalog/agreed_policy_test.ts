import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../../base/mod.ts";
import { CatalogRig } from "../../../../test/kit/consul/node_catalog.ts";
import { inTurn, type Reaction } from "../../../../test/kit/consul/scripted_agent.ts";
import type { Server } from "../types.ts";
import { agreedPolicyQuestion } from "./agreed_policy.ts";

const ALLOW = { json: { Authorized: true, Reason: "Default intention policy" } };
const DENY = { json: { Authorized: false, Reason: "Default behavior configured by ACLs" } };
const ACLS = { json: { Authorized: true, Reason: "Default behavior configured by ACLs" } };
const ACLS_OFF = { ...ACLS, aclDefault: "deny" } as const;
const UNKNOWN = { ...ACLS, aclDefault: "" } as const;
const RULE = { json: { Authorized: true, Reason: "Matched L4 intention: */* => */*" } };

const [A, B]: readonly Server[] = [{ host: "10.0.0.1" }, { host: "10.0.0.2" }];

async function startAsking(...reactions: Reaction[]) {
  const rig = await CatalogRig.start(inTurn(...reactions));
  const servers: { current: Server | undefined } = { current: A };
  const logged: string[] = [];
  const note = (message: string) => void logged.push(message);
  const log = { ...rig.deps.log, warn: note, info: note };
  const question = agreedPolicyQuestion(rig.catalog.client, {
    servers,
    log,
    clock: rig.clock,
    service: "web",
    trustDomain: "td.consul",
    datacenter: "dc1",
  });
  const ask = (server: Server | undefined) => {
    servers.current = server;
    return question.ask(new AbortController().signal);
  };
  return { rig, servers, ask, logged, [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose]() };
}

for (
  const [want, name, reaction] of [
    ["allow", "an allowing default_intention_policy", ALLOW],
    ["allow", "an allowing acl.default_policy", ACLS],
    ["deny", "a denying acl.default_policy", DENY],
    ["deny", "a denying acl.default_policy without ACLs", ACLS_OFF],
    ["deny", "a server that does not send acl.default_policy", UNKNOWN],
    ["deny", "an intention that covers every source", RULE],
  ] as const
) {
  test(`agreedPolicyQuestion() with ${name}: ${want}`, async () => {
    await using asking = await startAsking(reaction);
    assert.equal(await asking.ask(A), want);
    const body = JSON.parse(asking.rig.script.requests[0]?.body ?? "");
    assert.equal(body.Target, "web");
    assert.equal(body.ClientCertURI, "spiffe://td.consul/ns/postern-probe/dc/dc1/svc/x");
  });
}

test("a contradiction between default policy and authorize is logged once until it ends", async () => {
  await using asking = await startAsking(ACLS_OFF, ACLS_OFF, ACLS, ACLS_OFF);
  for (let times = 0; times < 4; times++) await asking.ask(A);
  const line = "callers that no intention covers are denied";
  assert.deepEqual(asking.logged, [line, line]);
});

test("servers that disagree about the default policy allow nothing, until they agree", async () => {
  await using asking = await startAsking(ALLOW, DENY, ALLOW, ALLOW, ALLOW);
  assert.equal(await asking.ask(A), "allow");
  assert.equal(await asking.ask(B), "deny");
  assert.equal(await asking.ask(A), "deny", "although this server allows");
  assert.equal(asking.logged.length, 1, "logged once");
  assert.equal(await asking.ask(B), "allow");
});

test("a server's answer about the default policy expires after 15 minutes", async () => {
  await using asking = await startAsking(DENY, ALLOW, ALLOW, ALLOW);
  await asking.ask(A);
  assert.equal(await asking.ask(B), "deny");
  await asking.rig.clock.advance(900_000);
  assert.equal(await asking.ask(B), "deny");
  await asking.rig.clock.advance(1);
  assert.equal(await asking.ask(B), "allow");
});

test("the default policy depends on the answers of the last sixteen servers", async () => {
  const others = Array.from({ length: 15 }, () => ALLOW);
  await using asking = await startAsking(DENY, ...others, DENY, ...others, ALLOW);
  const answers: string[] = [await asking.ask(A)];
  for (let at = 0; at < 15; at++) answers.push(await asking.ask({ host: `10.0.1.${at}` }));
  answers.push(await asking.ask(A));
  for (let at = 0; at < 16; at++) answers.push(await asking.ask({ host: `10.0.2.${at}` }));
  assert.deepEqual(answers, [...Array.from({ length: 32 }, () => "deny"), "allow"]);
});

test("an answer about the default policy is discarded where the server in use has changed or is unknown", async () => {
  await using asking = await startAsking(ALLOW, ALLOW);
  const answer = asking.ask(A);
  asking.servers.current = B;
  await assert.rejects(answer, ProxyError);
  await assert.rejects(asking.ask(undefined), ProxyError);
});
