/** `lacks` of each question: whether a newer answer lacks something, which only the leader may confirm. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { TokenSource } from "../http/token.ts";
import { Client } from "../http/client.ts";
import { silentLog, Stats } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { fixture } from "../../../test/kit/consul/scripted_agent.ts";
import type { Carrier } from "../http/carrier.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import { defaultsQuestion, meshQuestion } from "./mesh_and_defaults.ts";
import { chainQuestion, readChain } from "./discovery_chain.ts";
import { healthQuestion, readInstances } from "./instances.ts";
import { ingressEntryQuestion, readIngressEntry } from "./ingress.ts";
import { intentionsQuestion, readIntentions } from "./intentions.ts";
import { jwtProviderQuestion } from "./jwt_provider.ts";

const options = {
  pathPrefix: "",
  basicAuth: "",
  datacenter: "",
  stale: false,
  namespace: "",
  partition: "",
};
const CLIENT = new Client(options, {
  carrier: {} as Carrier,
  token: new TokenSource({ token: "", tokenFile: "" }, { clock: new FakeClock(), log: silentLog }),
  stats: new Stats(),
});

const rule = (SourceName: string, Action = "allow", Permissions: unknown = null) => ({
  SourceName,
  DestinationName: "db",
  Action,
  Permissions,
  Precedence: 9,
});
const rules = (...list: readonly unknown[]) => readIntentions({ db: list }, "db");
const permission = (Action: string, PathPrefix: string) => ({ Action, HTTP: { PathPrefix } });
const instance = (ID: string, Status = "passing") => ({
  Node: { Node: "n", Address: "10.0.0.1", Datacenter: "dc1" },
  Service: {
    ID,
    Service: "db",
    Port: 1,
    Kind: "connect-proxy",
    Proxy: { DestinationServiceName: "db" },
  },
  Checks: [{ CheckID: "c", Status }],
});
const instances = (...list: readonly unknown[]) => readInstances(list, "db");
const chain = readChain(fixture("chain_rich"));
const plainChain = readChain(fixture("chain_default"));
const entry = readIngressEntry(fixture("config_ingress_gateway"), "ingress");
const [firstListener] = entry?.listeners ?? [];
const service = { id: "i", service: "ingress" };
const health = { service: "db", datacenter: "", filter: "" };
const defaults = { kind: "proxy-defaults", name: "global" } as const;

/** A question with the value before, the value after, and whether the latter lacks something. */
function row<T>(
  what: string,
  question: PollQuestion<T>,
  [before, after, lacks]: readonly [before: T, after: T, lacks: boolean],
): readonly [string, () => boolean | undefined, boolean] {
  return [what, () => question.lacks?.(after, before), lacks];
}

const rulesOf = intentionsQuestion(CLIENT, "db");
const healthOf = healthQuestion(CLIENT, health);
const chainOf = chainQuestion(CLIENT, { service: "web", datacenter: "" });
const entryOf = ingressEntryQuestion(CLIENT, service);

for (
  const [what, ask, lacks] of [
    row("one more rule", rulesOf, [rules(rule("a")), rules(rule("a"), rule("b")), false]),
    row("the same rules", rulesOf, [rules(rule("a")), rules(rule("a")), false]),
    row("no rules any more", rulesOf, [rules(rule("a")), rules(), true]),
    row("a deny that allows", rulesOf, [rules(rule("a", "deny")), rules(rule("a")), true]),
    row("a missing deny permission", rulesOf, [
      rules(rule("a", "", [permission("deny", "/x"), permission("allow", "/")])),
      rules(rule("a", "", [permission("allow", "/")])),
      true,
    ]),
    row("one more instance", healthOf, [
      instances(instance("1")),
      instances(instance("1"), instance("2")),
      false,
    ]),
    row("an instance that became critical", healthOf, [
      instances(instance("1")),
      instances(instance("1", "critical")),
      false,
    ]),
    row("an instance in place of another", healthOf, [
      instances(instance("1")),
      instances(instance("2")),
      true,
    ]),
    row("the same chain", chainOf, [chain, chain, false]),
    row("a chain with nothing configured", chainOf, [chain, plainChain, true]),
    row("an ingress entry without listeners", entryOf, [
      entry,
      { listeners: [] },
      true,
    ]),
    row("an ingress entry without a service", entryOf, [
      entry,
      entry && firstListener &&
      { ...entry, listeners: [{ ...firstListener, services: [] }, ...entry.listeners.slice(1)] },
      true,
    ]),
    row("no ingress entry", entryOf, [entry, null, true]),
    row("a new ingress entry", entryOf, [null, entry, false]),
    row("no mesh entry", meshQuestion(CLIENT), [{}, null, true]),
    row("no mesh entry, as before", meshQuestion(CLIENT), [null, null, false]),
    row("no JWT provider", jwtProviderQuestion(CLIENT, "a"), [{} as never, null, true]),
    row("no proxy-defaults", defaultsQuestion(CLIENT, defaults), [{} as never, null, true]),
  ]
) {
  test(`lacks() is ${lacks} for ${what}`, () => assert.equal(ask(), lacks));
}
