import assert from "node:assert/strict";
import { test } from "node:test";
import { fixture } from "../../test/kit/consul/scripted_agent.ts";
import { readMissing, rightsFor } from "./preflight.ts";
import { readRegistration } from "./replies/registration.ts";

const REGISTRATION = readRegistration(fixture("agent_service"), "web-1-sidecar-proxy");

test("rightsFor() includes node:read where the registration is read from the node", () => {
  const own = { resource: "node", access: "read", segment: "virt-1" };
  const needs = rightsFor(REGISTRATION, "virt-1");
  assert.equal(needs.length, rightsFor(REGISTRATION).length + 1);
  const answers = needs.map(({ resource, access, segment }) => ({
    Resource: resource,
    Access: access,
    Segment: segment,
    Allow: segment !== own.segment,
  }));
  assert.deepEqual(readMissing(answers, needs), [{
    right: "node:read",
    on: "virt-1",
    neededFor: "reading the proxy's own registration",
  }]);
});
