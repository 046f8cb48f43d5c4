import assert from "node:assert/strict";
import { test } from "node:test";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import type { EdgeDeclaration } from "../../consul/mod.ts";
import { NOTHING_HELD, ownCredentials } from "../parts/own_credentials.ts";
import { NO_PLANS } from "../parts/credential_plans.ts";
import { listenerKey, planRegistration } from "./plan_registration.ts";
import { edgeParts } from "./listener_parts.ts";

const EDGE: EdgeDeclaration = {
  id: "ingress:8080",
  bind: { kind: "tcp", host: "10.0.0.9", port: 8_080 },
  protocol: "http2",
  hosts: [{ names: ["db.ingress.*"], upstream: "ingress:8080/db" }],
  tls: { enabled: false, index: 0, path: ["entry"], entry: { Listeners: [{ Port: 8_080 }] } },
};

function partsOf(tls: EdgeDeclaration["tls"]) {
  const registration = facts.registration({
    ingress: { clusters: [], meshGatewayMode: "", edges: [{ ...EDGE, tls }], refused: [] },
  });
  const plans = planRegistration(registration, NO_PLANS, {});
  const before = { previous: undefined, version: 1 };
  const wanted = Object.keys(plans.plans);
  const own = ownCredentials({ ...before, held: NOTHING_HELD, wanted, trustDomains: [] });
  return { plans, parts: edgeParts(registration, { ...before, plans, own }) };
}

test("edgeParts() opens a listener for requests, with its hosts", () => {
  const { http, ...part } = partsOf(EDGE.tls).parts["ingress:8080"] ?? {};
  const { id, bind, hosts } = EDGE;
  assert.deepEqual(part, { version: 1, id, bind, plugins: [], listener: null, hosts });
  assert.deepEqual([http?.protocol, http?.path.normalize], ["http2", false]);
});

test("edgeParts() leaves an edge closed whose certificate has no source", () => {
  const { parts, plans } = partsOf({ ...EDGE.tls, enabled: true });
  assert.deepEqual(parts, {});
  assert.equal(plans.listeners.get("ingress:8080"), "refused");
  assert.match(plans.refused[0]?.reason ?? "", /no certificate for the gateway's host names/);
});

test("edgeParts() waits for the certificate that the entry names", () => {
  const cluster = {
    name: "sds",
    load_assignment: {
      endpoints: [{
        lb_endpoints: [{
          endpoint: { address: { socket_address: { address: "127.0.0.1", port_value: 1 } } },
        }],
      }],
    },
  };
  const entry = {
    Listeners: [{ Port: 8_080, TLS: { SDS: { ClusterName: "sds", CertResource: "shop" } } }],
  };
  const registration = facts.registration({
    ingress: {
      clusters: [cluster],
      meshGatewayMode: "",
      edges: [{ ...EDGE, tls: { ...EDGE.tls, entry } }],
      refused: [],
    },
  });
  const plans = planRegistration(registration, NO_PLANS, {});
  const key = listenerKey(EDGE.id);
  const before = { previous: undefined, version: 1 };
  const wanted = Object.keys(plans.plans);
  assert.deepEqual(wanted, [key]);
  const at = (kind: "warming" | "open") =>
    ownCredentials({
      ...before,
      wanted,
      trustDomains: [],
      held: kind === "warming" ? NOTHING_HELD : {
        ...NOTHING_HELD,
        credentials: {
          [key]: {
            kind: "open",
            certificates: ["c"],
            validation: null,
            missing: [],
            requireClientCertificate: false,
            onDemand: null,
          },
        },
      },
    });
  assert.deepEqual(edgeParts(registration, { ...before, plans, own: at("warming") }), {});
  const parts = edgeParts(registration, { ...before, plans, own: at("open") });
  assert.equal(parts[EDGE.id]?.listener?.credentials, key);
});
