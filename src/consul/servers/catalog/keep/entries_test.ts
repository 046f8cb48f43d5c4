import assert from "node:assert/strict";
import { test } from "node:test";
import { registration } from "../../../../../test/kit/consul/snapshot_facts.ts";
import type { RegisterRequest } from "../../../model/consul.ts";
import type { Registration } from "../../../model/values.ts";
import {
  healthCheckOf,
  isWhole,
  lifeCheckOf,
  readKept,
  servicesOf,
  strangerIn,
} from "./entries.ts";

const REGISTRATION: Registration = {
  ...registration(),
  id: "web-proxy",
  service: "web",
  bind: { kind: "tcp", host: "0.0.0.0", port: 20000 },
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  upstreams: [{
    id: "service:default/default/db",
    kind: "service",
    name: "db",
    namespace: "default",
    partition: "default",
    peer: "",
    datacenter: "",
    bind: { kind: "tcp", host: "127.0.0.1", port: 9191 },
    meshGatewayMode: "",
    protocol: "tcp",
    outlier: {},
  }],
};

function request(change: Partial<Registration> = {}): RegisterRequest {
  return {
    registration: { ...REGISTRATION, ...change },
    applicationId: "web",
    nodeAddress: "10.0.0.1",
    httpCheckPath: "",
  };
}

/** The written entries as the catalog returns them. */
function kept(of: RegisterRequest, sessionName: string) {
  const checks = servicesOf(of).flatMap(({ ID }) => [
    healthCheckOf(String(ID), { status: "passing", output: "" }),
    ...(sessionName ? [lifeCheckOf(String(ID), sessionName)] : []),
  ]);
  const more = { Tags: [], Meta: null, Weights: { Passing: 1, Warning: 1 }, ModifyIndex: 7 };
  const services = servicesOf(of).map((service) => ({
    ...more,
    ...service,
    // An application's is there, too, and empty.
    Proxy: { Mode: "", MeshGateway: {}, Expose: {}, ...(service["Proxy"] as object ?? {}) },
  }));
  return { services, checks };
}

test("servicesOf() writes the application and a sidecar that a service identity may write", () => {
  assert.deepEqual(servicesOf(request()), [
    { ID: "web", Service: "web", Address: "10.0.0.1", Port: 8080 },
    {
      Kind: "connect-proxy",
      ID: "web-proxy",
      Service: "web-sidecar-proxy",
      Address: "10.0.0.1",
      Port: 20000,
      Proxy: {
        DestinationServiceName: "web",
        DestinationServiceID: "web",
        LocalServiceAddress: "127.0.0.1",
        LocalServicePort: 8080,
        Upstreams: [{
          DestinationType: "service",
          DestinationName: "db",
          LocalBindAddress: "127.0.0.1",
          LocalBindPort: 9191,
        }],
      },
    },
  ]);
});

test("servicesOf() writes the address of an application on another host", () => {
  const bind = { kind: "tcp", host: "10.0.0.7", port: 20000 } as const;
  const [remote, sidecar] = servicesOf(
    request({ bind, local: { kind: "tcp", host: "10.0.0.9", port: 8080 } }),
  );
  assert.equal(remote?.["Address"], "10.0.0.9");
  assert.equal(sidecar?.["Address"], "10.0.0.7");
  const [unix] = servicesOf(request({ local: { kind: "unix", path: "/run/app.sock" } }));
  assert.deepEqual(unix, {
    ID: "web",
    Service: "web",
    Address: "10.0.0.1",
    SocketPath: "/run/app.sock",
    Port: 0,
  });
});

test("isWhole() recognizes the written entries in the catalog's reply", () => {
  const of = request();
  const { services, checks } = kept(of, "mine");
  assert.equal(isWhole(readKept(services, checks), of, "mine"), true);
  assert.equal(isWhole(readKept(services, checks), of, ""), true, "without a session of our own");
});

for (
  const [what, change] of [
    ["a service", { services: kept(request(), "mine").services.slice(1) }],
    ["a port", {
      services: kept(request({ bind: { ...REGISTRATION.bind, port: 1 } }), "").services,
    }],
    ["an upstream", { services: kept(request({ upstreams: [] }), "").services }],
    ["the sidecar's name", { services: kept(request({ proxyService: "x" }), "").services }],
    ["a check", { checks: kept(request(), "mine").checks.slice(1) }],
    ["the session check", { checks: kept(request(), "").checks }],
    ["the session of the session check", { checks: kept(request(), "theirs").checks }],
    [
      "the status of the session check",
      { checks: kept(request(), "mine").checks.map((check) => ({ ...check, Status: "critical" })) },
    ],
  ] as const
) {
  test(`isWhole() is false where ${what} is missing or differs`, () => {
    const { services, checks } = { ...kept(request(), "mine"), ...change };
    assert.equal(isWhole(readKept(services, checks), request(), "mine"), false);
  });
}

for (
  const [session, sessions, want] of [
    ["theirs", ["mine"], "theirs"],
    ["mine", ["older", "mine"], undefined],
    ["older", ["older", "mine"], undefined],
    ["", ["mine"], undefined],
  ] as const
) {
  test(`strangerIn() finds ${want ?? "none"} where ${sessions} find ${session || "no session"}`, () => {
    const { services, checks } = kept(request(), session);
    const own = { ids: ["web", "web-proxy"], sessions: new Set(sessions) };
    assert.equal(strangerIn(readKept(services, checks), own), want);
    const dead = checks.map((check) => ({ ...check, Status: "critical" }));
    assert.equal(strangerIn(readKept(services, dead), own), undefined, "its session has ended");
  });
}
