/** Checks of `postern doctor` that ask Consul: rights, registration, upstreams, callees. @module */

import { messageOf } from "../../../base/mod.ts";
import { upstreamTroubles } from "../../../admin/mod.ts";
import type { Consul, Registration, ServiceRef } from "../../../consul/mod.ts";
import { parseServiceId, type ServiceId } from "../../../identity/mod.ts";
import { covers } from "../../../policy/mod.ts";
import {
  localAddressOf,
  type Protocol,
  type Refusal,
  type Snapshot,
  upstreamLabel,
  type UpstreamPart,
} from "../../../snapshot/mod.ts";
import type { SnapshotSource } from "../../../source/mod.ts";
import { type DoctorFinding, findingsOf, orOk } from "./finding.ts";

export interface MeshFacts {
  readonly snapshot: Snapshot;
  readonly source: SnapshotSource;
  readonly agent: Consul;
  /** `undefined`: it could not be read again. */
  readonly registration: Registration | undefined;
  readonly proxyId: string;
  /** The proxy is registered with Consul, and its process answers. */
  readonly runs: boolean;
}

export async function checkRights(
  { agent, registration }: Pick<MeshFacts, "agent" | "registration">,
): Promise<readonly DoctorFinding[]> {
  const { failure, ok } = findingsOf("rights");
  if (!registration) return [];
  try {
    const check = await agent.checkRights(registration);
    if (check.kind === "acls_off") {
      return [ok(
        "ACLs are off: every process that reaches the agent can register and write intentions",
      )];
    }
    if (check.kind === "unknown") return [unknownRights(check.reason)];
    const found = check.missing.map(({ right, on, neededFor }) => {
      const [resource = "", policy = ""] = right.split(":");
      const isPrefix = on === "any node";
      const rule = `${resource}${isPrefix ? "_prefix" : ""} "${isPrefix ? "" : on}"`;
      return failure({
        what: `the token lacks ${right} on ${on}`,
        why: `it is needed for ${neededFor}`,
        fix: `add ${rule} { policy = "${policy}" } to a policy of the token`,
      });
    });
    return orOk(found, ok("no right that the proxy needs is missing"));
  } catch (error) {
    return [unknownRights(messageOf(error))];
  }
}

function unknownRights(reason: string): DoctorFinding {
  return findingsOf("rights").warning({
    what: `the rights of the token could not be checked: ${reason}`,
    why: "a missing right shows as empty lists of instances",
    fix: 'look at the log of the proxy for "the token lacks a right"',
  });
}

/** Configuration that Postern refuses, or ignores by name. */
export function checkConfiguration(
  { refused, warnings }: Pick<SnapshotSource, "refused" | "warnings">,
): readonly DoctorFinding[] {
  const { failure, warning, ok } = findingsOf("configuration");
  const found = [
    ...refused.map(({ what, reason, upstream }: Refusal) => {
      const at = upstream && localAddressOf(upstream);
      return failure({
        what: `${what} is refused: ${reason}`,
        why: at ? `nothing listens on ${at}` : "this part of the configuration is not in force",
        fix: "change it as the reason says; docs/configuration-keys.md has every key",
      });
    }),
    ...warnings.map((text) =>
      warning({
        what: text,
        why: "Consul's configuration asks for it, and Postern does not do it",
        fix: "remove it, or see docs/configuration-keys.md for what replaces it",
      })
    ),
  ];
  return orOk(found, ok("everything that this mesh configures for the proxy is followed"));
}

/** Whether callers would choose this proxy. */
export async function checkCatalog(
  { agent, snapshot, source, proxyId, runs }: MeshFacts,
): Promise<readonly DoctorFinding[]> {
  const { failure, warning, ok } = findingsOf("catalog");
  if (source.status().isGateway || Object.keys(snapshot.inbound).length === 0) return [];
  const { service, datacenter } = snapshot;
  const fixOf = (what: string): string => {
    if (what.includes("maintenance mode")) {
      const [, id] = /, set on service ([^:]+)/.exec(what) ?? [];
      const isOfNode = what.includes(", set on its node");
      const service = id ?? proxyId.replace(/-sidecar-proxy$/, "");
      return `end it: consul maint -disable${isOfNode ? "" : ` -service=${service}`}`;
    }
    return runs
      ? "make the check pass; the agent must reach the application and the proxy's port"
      : "start the proxy, then ask again";
  };
  const described = (what: string) => ({
    what,
    why: "callers in the mesh choose no instance that Consul does not show as passing",
    fix: fixOf(what),
  });
  try {
    const failing = await agent.askFailingChecks({ service, proxyId, datacenter });
    const found = failing.map((why) => (runs ? failure : warning)(described(why)));
    return orOk(found, ok(`callers find ${proxyId} in the catalog`));
  } catch (error) {
    return [warning(described(messageOf(error)))];
  }
}

/** Upstreams without instances, and those about which Consul has not answered. */
export function checkUpstreams(
  { snapshot, source }: Pick<MeshFacts, "snapshot" | "source">,
): readonly DoctorFinding[] {
  const { failure, ok } = findingsOf("upstreams");
  const view = { snapshot: () => snapshot, source: () => source.status(), refused: () => [] };
  const found = upstreamTroubles(view, []).map(({ text }) =>
    failure({
      what: text,
      why: "these requests are answered 503, these connections are closed",
      fix: text.includes("maintenance mode")
        ? "end it, on the host of the instance: consul maint -disable -service=ID"
        : "register a sidecar for the service, or make its checks pass in Consul",
    })
  );
  const { length } = Object.keys(snapshot.upstreams);
  const all = length === 1 ? "the only one has" : `each of ${length} has`;
  return length === 0 ? found : orOk(found, ok(`${all} a healthy instance`));
}

interface Callee {
  readonly upstream: UpstreamPart;
  readonly id: ServiceId;
  /** It has no instance in use: another check says so, and why nothing else is known about it. */
  readonly isLacking: boolean;
}

/** The services behind the upstreams, in clusters that our Consul knows. */
function calleesOf({ snapshot }: Pick<MeshFacts, "snapshot">): readonly Callee[] {
  const { upstreams, chains, targets, credentials } = snapshot;
  const found = new Map<string, Callee>();
  for (const upstream of Object.values(upstreams)) {
    const resolvers = Object.values(chains[upstream.chain]?.resolvers ?? {});
    for (const key of resolvers.flatMap((resolver) => resolver.targets)) {
      const { spiffeUris: uris = [], lack = "" } = targets[key] ?? {};
      for (const uri of uris) {
        const parsed = parseServiceId(uri);
        if (parsed.kind !== "service") continue;
        const { id } = parsed;
        if (!credentials?.trustDomains.includes(id.trustDomain)) continue;
        const isLacking = lack !== "" && found.get(`${upstream.id} ${uri}`)?.isLacking !== false;
        found.set(`${upstream.id} ${uri}`, { upstream, id, isLacking });
      }
    }
  }
  return [...found.values()];
}

/** Callees at once: each is a request to Consul. */
const CALLEES_LIMIT = 100;

async function ofCallees(
  facts: MeshFacts,
  check: (callee: Callee) => Promise<readonly DoctorFinding[]>,
): Promise<readonly DoctorFinding[]> {
  const callees = calleesOf(facts).slice(0, CALLEES_LIMIT);
  return (await Promise.all(callees.map(check))).flat();
}

/** Whether each callee lets us in. */
export async function checkCalls(facts: MeshFacts): Promise<readonly DoctorFinding[]> {
  const { failure, warning, ok } = findingsOf("calls");
  const { snapshot, agent } = facts;
  const own = parseServiceId(snapshot.credentials?.uri ?? "");
  if (own.kind !== "service") return [];
  const source = { id: own.id, uri: snapshot.credentials?.uri ?? "" };
  const from = own.id.service;
  /** Callees that let some requests in and deny others. */
  const judging = new Set<string>();
  const found = await ofCallees(facts, async ({ upstream, id, isLacking }) => {
    const name = upstreamLabel(upstream);
    try {
      const intentions = await agent.askIntentions(id satisfies ServiceRef);
      const rule = intentions.find((intention) => covers(intention, source));
      // The default also denies a service that does not exist.
      if (!rule && isLacking) return [];
      const action = rule?.action ?? snapshot.policy.defaultAction;
      const by = rule?.rule ?? `the default, ${action}`;
      if (action === "allow") return [];
      if (action === "permissions") {
        if (upstream.http) {
          judging.add(id.service);
          return [];
        }
        return [failure({
          what: `${id.service} denies ${from}: ${by} has permissions, and upstream ${name} is tcp`,
          why: "permissions judge HTTP requests only: a connection of bytes is refused",
          fix: `give ${id.service} the protocol http in service-defaults, or use a plain allow`,
        })];
      }
      return [failure({
        what: `${id.service} denies ${from}: by ${by}`,
        why: `everything that is sent to upstream ${name} is refused`,
        fix: `allow it: consul intention create -replace -allow ${from} ${id.service}`,
      })];
    } catch (error) {
      if (isLacking) return [];
      return [warning({
        what: `whether ${id.service} lets ${from} in is not known: ${messageOf(error)}`,
        why: "a denial would refuse everything that is sent to it",
        fix: `give the token intentions = "read" on ${id.service}`,
      })];
    }
  });
  const callees = calleesOf(facts);
  if (callees.every(({ isLacking }) => isLacking)) return found;
  const isPart = callees.some(({ isLacking }) => isLacking);
  return orOk(found, ok(callsText(from, [...judging].sort(), isPart)));
}

/** `isPart`: upstreams without an instance are left out. */
function callsText(from: string, judging: readonly string[], isPart: boolean): string {
  const text = `the intentions of every upstream${
    isPart ? " with an instance" : ""
  } let ${from} in`;
  if (judging.length === 0) return text;
  return `${text}; permissions decide about each request to ${
    judging.join(", ")
  } (postern explain)`;
}

/** The protocol of the caller's side against that of the instances. */
export async function checkProtocols(facts: MeshFacts): Promise<readonly DoctorFinding[]> {
  const { warning, ok } = findingsOf("protocols");
  const { agent } = facts;
  if (!agent.askProtocols) return [];
  const found = await ofCallees(facts, async ({ upstream, id, isLacking }) => {
    if (isLacking) return [];
    const name = upstreamLabel(upstream);
    const mine = upstream.http?.protocol ?? "tcp";
    try {
      const instances = await agent.askProtocols?.(id satisfies ServiceRef) ?? [];
      const others = [...new Set(instances.map(({ protocol }) => protocol || "tcp"))]
        .filter((theirs) => isMismatch(mine, theirs));
      return others.map((theirs) => mismatch({ name, service: id.service, mine, theirs }));
    } catch (error) {
      return [warning({
        what: `the protocol of ${id.service} is not known: ${messageOf(error)}`,
        why: "a caller that speaks another protocol gets errors",
        fix: `give the token service:read on ${id.service} and its sidecars`,
      })];
    }
  });
  return calleesOf(facts).every(({ isLacking }) => isLacking)
    ? []
    : orOk(found, ok("each upstream speaks the protocol of its instances"));
}

/** gRPC is HTTP/2. */
function isMismatch(mine: string, theirs: string): boolean {
  const version = (protocol: string) => protocol === "grpc" ? "http2" : protocol;
  return version(mine) !== version(theirs);
}

function mismatch({ name, service, mine, theirs }: {
  readonly name: string;
  readonly service: string;
  readonly mine: Protocol;
  readonly theirs: string;
}): DoctorFinding {
  const { failure, warning } = findingsOf("protocols");
  const described = (why: string) => ({
    what: `upstream ${name} speaks ${mine}, and instances of ${service} ${theirs}`,
    why,
    fix: `give both the same: Protocol in the service-defaults of ${service}, and no protocol of ` +
      "its own in the upstream's Config or in the registration of the instance",
  });
  if (theirs === "tcp") {
    return warning(described(
      `routes and retries work here; ${service} sees bytes: its HTTP intentions deny, its log has ` +
        "no requests",
    ));
  }
  if (mine === "tcp") {
    return warning(described("routes, splits and retries of this upstream are not in force"));
  }
  return failure(described("one side speaks HTTP/1.1 and the other HTTP/2: requests fail"));
}
