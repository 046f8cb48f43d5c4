/** Credentials of listeners' own after a restart without the agent. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  certificateSecret,
  FakeProviders,
  type FakeWatch,
  validationSecret,
} from "../../../test/kit/secrets/secret_peers.ts";
import { ScriptedAgent } from "../../../test/kit/consul/scripted_agent_watches.ts";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import { CA, MemoryStateStore, SourceRig } from "../../../test/kit/consul/snapshot_source.ts";
import { seededRandom, silentLog } from "../../base/mod.ts";
import type { Registration } from "../../consul/mod.ts";
import { type CertificateSecret, SecretStore } from "../../secrets/mod.ts";
import { NO_PLANS } from "../parts/credential_plans.ts";
import { planRegistration, storedCredentials } from "./plan_registration.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { StoredState } from "../state/stored_credentials.ts";
import { formatStored, parseStored } from "../state/store.ts";

const SDS = { source: "sds", cluster: "sds_cluster" };
const TLS = {
  certificate: { ...SDS, name: "web" },
  validation: { ...SDS, name: "roots" },
  sds_clusters: { sds_cluster: { address: "unix:///run/sds.sock" } },
};
const DB = "service:default/default/db";
const DAY_MS = 86_400_000;
/** More than anybody waits for a first value. */
const PATIENCE_MS = 60_000;

/** Good from the start of the rigs' clocks on. */
function certificate(serial: string, days = 90): CertificateSecret {
  const notBeforeMs = facts.NOW_MS - DAY_MS;
  return certificateSecret(serial, { notBeforeMs, notAfterMs: facts.NOW_MS + days * DAY_MS });
}

/** One run of the proxy, with sources that say what the test tells them to. */
class Run implements AsyncDisposable {
  readonly providers = new FakeProviders();
  readonly agent: ScriptedAgent;
  readonly store: MemoryStateStore;
  readonly rig: SourceRig;

  private constructor(agent: ScriptedAgent, saved?: StoredState) {
    this.agent = agent;
    this.store = new MemoryStateStore(saved);
    this.rig = new SourceRig(agent, {
      store: this.store,
      createSecretStore: () => {
        const { clock, stats } = this.rig;
        const providers = this.providers.factory;
        return new SecretStore({
          clock,
          stats,
          providers,
          log: silentLog,
          random: seededRandom(1),
        });
      },
    });
  }

  static async start(agent: ScriptedAgent, saved?: StoredState): Promise<Run> {
    const run = new Run(agent, saved);
    await run.rig.start();
    return run;
  }

  /** Restarted from what is stored, as text, with no agent. */
  static async alone(saved: StoredState | undefined): Promise<Run> {
    assert.ok(saved, "nothing was stored");
    const parsed = parseStored(formatStored(saved));
    assert.ok(parsed.kind === "valid", JSON.stringify(parsed));
    const run = await Run.start(new ScriptedAgent(), parsed.state);
    run.agent.fail("registration", "agent_unreachable");
    await run.rig.settle();
    return run;
  }

  async gives(name: string, value: Parameters<FakeWatch["events"]["onSecret"]>[0]): Promise<void> {
    this.providers.of(name).events.onSecret(value, "");
    await this.rig.clock.advance(1_000);
  }

  /** The agent comes back with that. */
  async back(tls: unknown = TLS): Promise<void> {
    answers(this.agent, { tls });
    await this.rig.settle();
    assert.equal(this.rig.source.status().restored, false);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.rig[Symbol.asyncDispose]();
  }
}

function answers(agent: ScriptedAgent, registered: Partial<Registration>): ScriptedAgent {
  return agent.answer("registration", facts.registration(registered))
    .answer("roots", facts.rootsOf(CA)).answer("leaf", facts.leafOf(CA)).answer("intentions", [])
    .answer("default policy", "deny").answer("mesh entry", null)
    .chain("db", facts.chain(facts.target("db"))).health("db", [facts.instance("db")]);
}

/** What a run with an agent leaves: certificate 01 and root A, for as many days. */
async function storedState(days?: number, tls: unknown = TLS): Promise<StoredState> {
  await using run = await Run.start(answers(new ScriptedAgent(), { tls }));
  await run.gives("web", certificate("01", days));
  await run.gives("roots", validationSecret("A"));
  assert.deepEqual(shown(run.rig.last), { serials: ["01"], roots: ["A"], missing: [] });
  assert.ok(run.store.saved);
  return run.store.saved;
}

/** What the public listener goes by. */
function shown(snapshot: Snapshot) {
  const { inbound, certificates, validations } = snapshot;
  const own = snapshot.ownCredentials[inbound["inbound"]?.credentials ?? "none"];
  assert.ok(own, "the listener has no credentials of its own");
  const validation = validations[own.validation ?? ""]?.validation;
  return {
    serials: own.certificates.map((key) => certificates[key]?.serial),
    roots: validation?.kind === "ca" ? validation.rootPems : undefined,
    missing: own.missing,
  };
}

test("ConsulSource follows the credentials of a restored snapshot", async () => {
  const state = await storedState();
  await using run = await Run.alone(state);
  const { rig, providers } = run;
  assert.equal(rig.source.status().restored, true);
  assert.deepEqual(shown(rig.last), { serials: ["01"], roots: ["A"], missing: [] });
  assert.deepEqual(providers.names, ["web", "roots"]);

  // Each on its own.
  await run.gives("web", certificate("02"));
  assert.deepEqual(shown(rig.last), { serials: ["02"], roots: ["A"], missing: [] });
  await run.gives("roots", validationSecret("B"));
  assert.deepEqual(shown(rig.last), { serials: ["02"], roots: ["B"], missing: [] });
  assert.ok(rig.last.version > state.snapshot.version);
  assert.equal(rig.source.status().restored, true);
  assert.deepEqual(rig.last.policy, state.snapshot.policy);
  const logged = rig.warnings().filter((line) => line.includes("stored snapshot in use"));
  assert.equal(logged.length, 1, "said once, not for each change");

  // The same registration: nothing is asked for again, and nothing changes.
  const { ownCredentials, certificates, validations } = rig.last;
  await run.back();
  assert.equal(providers.begun, 2);
  assert.deepEqual(rig.last.ownCredentials, ownCredentials);
  assert.deepEqual(rig.last.certificates, certificates);
  assert.deepEqual(rig.last.validations, validations);
  for (const snapshot of rig.snapshots) assert.deepEqual(shown(snapshot).missing, []);
});

test("ConsulSource stores secrets that came after a restore", async () => {
  await using run = await Run.alone(await storedState());
  await run.gives("web", certificate("02"));
  await using again = await Run.alone(run.store.saved);
  assert.deepEqual(shown(again.rig.last), { serials: ["02"], roots: ["A"], missing: [] });
  assert.deepEqual(again.providers.names, ["web", "roots"]);
  await again.gives("roots", validationSecret("B"));
  assert.deepEqual(shown(again.rig.last), { serials: ["02"], roots: ["B"], missing: [] });
});

test("ConsulSource replaces stored credentials by those of a changed registration", async () => {
  await using run = await Run.alone(await storedState());
  await run.back({ ...TLS, certificate: { ...TLS.certificate, name: "web-2" } });
  assert.deepEqual([...run.providers.names].sort(), ["roots", "web", "web-2"]);
  assert.deepEqual(shown(run.rig.last).serials, ["01"], "until the new one is there");
  await run.gives("web-2", certificate("21"));
  assert.deepEqual(shown(run.rig.last), { serials: ["21"], roots: ["A"], missing: [] });
  assert.deepEqual([...run.providers.names].sort(), ["roots", "web-2"]);
  await using again = await Run.alone(run.store.saved);
  assert.deepEqual([...again.providers.names].sort(), ["roots", "web-2"]);
});

test("ConsulSource serves stored credentials while their sources are silent, too", async () => {
  await using run = await Run.alone(await storedState());
  await run.rig.clock.advance(PATIENCE_MS);
  assert.deepEqual(shown(run.rig.last), { serials: ["01"], roots: ["A"], missing: [] });
  await run.back();
  await run.rig.clock.advance(PATIENCE_MS);
  assert.deepEqual(shown(run.rig.last), { serials: ["01"], roots: ["A"], missing: [] });
});

test("ConsulSource puts no stored certificate back that has expired", async () => {
  const second = 1 / 86_400;
  const state = await storedState(second);
  await using run = await Run.start(new ScriptedAgent(), state);
  await run.rig.clock.advance(PATIENCE_MS);
  assert.equal(run.rig.source.status().restored, true);
  // It is there to be refused, as it would be without a restart; what it shows is the source's affair.
  assert.deepEqual(run.rig.last.certificates, state.snapshot.certificates);
  const { statuses } = run.rig.source.secrets();
  assert.deepEqual(statuses.map(({ name, state }) => `${name} ${state}`), [
    "web warming",
    "roots active",
  ]);
  await run.gives("web", certificate("02"));
  assert.deepEqual(shown(run.rig.last), { serials: ["02"], roots: ["A"], missing: [] });
});

test("ConsulSource uses no stored identity that the Workload API has withdrawn", async () => {
  const workload = { source: "workload", socket: "unix:///run/spire.sock" };
  await using before = await Run.start(
    answers(new ScriptedAgent(), { tls: { certificate: workload } }),
  );
  const [name = ""] = before.providers.names;
  await before.gives(name, certificate("01"));
  await using run = await Run.alone(before.store.saved);
  assert.deepEqual(shown(run.rig.last).serials, ["01"]);
  run.providers.of(name).events.onRemoved();
  await run.rig.clock.advance(1_000);
  assert.deepEqual(shown(run.rig.last).serials, []);
  assert.equal(shown(run.rig.last).missing.length, 1);
});

test("ConsulSource follows no stored secret where the agent refuses", async () => {
  const state = await storedState();
  await using run = await Run.start(new ScriptedAgent(), state);
  run.agent.fail("registration", "agent_forbidden");
  await run.rig.clock.advance(PATIENCE_MS);
  assert.deepEqual([run.rig.snapshots.length, run.providers.begun], [0, 0]);
});

test("ConsulSource serves a stored state without sources of credentials", async () => {
  const { snapshot } = await storedState();
  await using run = await Run.alone({ snapshot });
  assert.equal(run.providers.begun, 0);
  await run.rig.clock.advance(PATIENCE_MS);
  assert.deepEqual(shown(run.rig.last), { serials: ["01"], roots: ["A"], missing: [] });
  await run.back();
  assert.deepEqual(shown(run.rig.last), { serials: ["01"], roots: ["A"], missing: [] });
  await run.gives("web", certificate("02"));
  await run.gives("roots", validationSecret("B"));
  assert.deepEqual(shown(run.rig.last), { serials: ["02"], roots: ["B"], missing: [] });
  assert.ok(run.store.saved?.credentials, "and stores it from now on");
});

test("ConsulSource keeps the stored credentials of a registration that it cannot read", async () => {
  const state = await storedState();
  assert.ok(state.credentials);
  const registration = { ...state.credentials.registration, tls: { certificate: { source: "?" } } };
  await using run = await Run.alone({
    ...state,
    credentials: { ...state.credentials, registration },
  });
  assert.deepEqual(shown(run.rig.last), { serials: ["01"], roots: ["A"], missing: [] });
  assert.equal(run.providers.begun, 0);
  assert.ok(run.rig.warnings().includes("configuration refused"));
});

test("ConsulSource restores credentials when only Consul's servers are away", async () => {
  const agent = new ScriptedAgent().answer("registration", facts.registration({ tls: TLS }))
    .answer("leaf", facts.leafOf(CA)).answer("roots", facts.rootsOf(CA));
  await using run = await Run.start(agent, await storedState());
  agent.fail("intentions", "agent_failed", "No known Consul servers");
  await run.rig.clock.advance(PATIENCE_MS);
  assert.deepEqual(shown(run.rig.last), { serials: ["01"], roots: ["A"], missing: [] });
  await run.gives("web", certificate("02"));
  assert.deepEqual(shown(run.rig.last), { serials: ["02"], roots: ["A"], missing: [] });
});

test("storedCredentials() keeps what planRegistration() reads, and no more", () => {
  assert.equal(storedCredentials(facts.registration()), undefined);
  const file = (name: string) => ({ source: "file", cert: `/${name}.pem`, key: `/${name}.key` });
  const registration = facts.registration({
    tls: { upstreams: { certificate: file("all") }, certificate: file("in") },
    upstreams: [
      facts.declaration("db"),
      facts.declaration("cache", { tls: { certificate: file("cache") } }),
      facts.declaration("geo", {
        listenerTls: { certificate: file("listener"), validation: { source: "none" } },
      }),
    ],
  });
  const stored = storedCredentials(registration);
  assert.ok(stored);
  const { plans, refused } = planRegistration(registration, NO_PLANS, {});
  assert.deepEqual(refused, []);
  assert.equal(Object.keys(plans).length, 5);
  const read = JSON.parse(JSON.stringify(stored.registration));
  assert.deepEqual(planRegistration(read, NO_PLANS, {}).plans, plans);
  assert.ok(plans[DB]);
  assert.deepEqual(Object.keys(stored.registration), ["id", "service", "tls", "upstreams"]);
});
