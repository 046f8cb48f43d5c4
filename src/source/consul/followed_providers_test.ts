import assert from "node:assert/strict";
import { test } from "node:test";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import { answeringAgent, SourceRig } from "../../../test/kit/consul/snapshot_source.ts";
import type { Intentions, JwtProvider } from "../../consul/mod.ts";

const demanding = (...names: readonly string[]): Intentions =>
  names.map((provider) => ({
    rule: provider,
    action: "allow",
    precedence: 9,
    source: { name: provider, namespace: "default", partition: "default", peer: "" },
    tokens: [{ provider, claims: [] }],
  }));
const OKTA: JwtProvider = {
  kind: "usable",
  issuer: "a",
  audiences: [],
  locations: [],
  clockSkewSeconds: 30,
  keys: { kind: "text", jwks: "e30=" },
};

const followed = (rig: SourceRig) =>
  rig.agent.running.filter((key) => key.startsWith("jwt-provider "));
const used = (rig: SourceRig) => rig.last.inbound["inbound"]?.tokens?.plugin;
const refused = (rig: SourceRig) => rig.last.policy.intentions[0]?.refused;

test("ConsulSource follows a jwt-provider for as long as an intention names it", async () => {
  const agent = answeringAgent()
    .answer("registration", facts.registration({ protocol: "http" }))
    .answer("intentions", demanding("okta"));
  await using rig = await new SourceRig(agent).start();
  assert.deepEqual(followed(rig), ["jwt-provider okta"]);
  assert.deepEqual(rig.source.status().waitingFor, ["jwt-provider okta"]);
  await rig.clock.advance(6_000);
  assert.match(refused(rig) ?? "", /"okta": it has not been read$/);
  // Its callers could say what the tokens of `okta` say.
  assert.deepEqual(rig.last.inbound, {});
  assert.deepEqual(rig.source.status().warming, ["inbound: jwt-provider okta has not been read"]);
  agent.jwtProvider("okta", OKTA);
  await rig.settle();
  assert.deepEqual([used(rig), refused(rig)], ["jwt_auth", undefined]);
  // What was known of it goes on while it cannot be asked for.
  agent.fail("jwt-provider okta", "agent_failed");
  await rig.settle();
  assert.equal(used(rig), "jwt_auth");
  agent.jwtProvider("okta", null);
  await rig.settle();
  assert.deepEqual([used(rig), /there is none$/.test(refused(rig) ?? "")], [undefined, true]);
  agent.answer("intentions", []);
  await rig.settle();
  assert.deepEqual(followed(rig), []);
});

test("ConsulSource does not warn of a jwt-provider that is read in time", async () => {
  const agent = answeringAgent()
    .answer("registration", facts.registration({ protocol: "http" }))
    .answer("intentions", demanding("okta"));
  await using rig = await new SourceRig(agent).start();
  await rig.clock.advance(4_000);
  assert.deepEqual(rig.warnings(), []);
  await rig.clock.advance(2_000);
  assert.deepEqual(rig.warnings(), ["configuration refused"], "it is late");
});

test("ConsulSource follows no jwt-provider of a tcp service, and no more than 16", async () => {
  const names = Array.from({ length: 20 }, (_, index) => `p${index}`);
  const agent = answeringAgent().answer("intentions", demanding(...names));
  await using rig = await new SourceRig(agent).start();
  assert.deepEqual(followed(rig), []);
  agent.answer("registration", facts.registration({ protocol: "grpc" }));
  await rig.settle();
  assert.equal(followed(rig).length, 16);
});
