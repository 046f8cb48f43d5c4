/**
 * One whole snapshot from everything known at the moment, or what it still lacks. Pure: time, the last
 * snapshot and what must be remembered between calls are arguments. A part that is new but unusable is
 * refused by name and the old part stays.
 *
 * @module
 */

import type { Leaf, Registration, Roots } from "../../consul/mod.ts";
import type { HeldSecrets } from "../../secrets/mod.ts";
import { closedByRefusal } from "./plan_registration.ts";
import { type CredentialPlans, NO_PLANS } from "../parts/credential_plans.ts";
import { edgeParts, exposedParts, inboundParts } from "./listener_parts.ts";
import { refusedMutualTls } from "./entry_keys.ts";
import { entryPlugins } from "./entry_plugins.ts";
import { AbsenceTimer, earliest } from "./last_resort.ts";
import { accessLogPart, accessLogSampling } from "../parts/access_logs.ts";
import { intentionsFor, judgeTokens, refusedIntentions } from "./token_providers.ts";
import type { CredentialsVerdict, JudgeCredentials } from "../parts/judge_credentials.ts";
import type { ConsulState } from "./consul_state.ts";
import { DEFAULT_TLS_DIRECTION, judgeMeshTls } from "./mesh_entry.ts";
import { telemetryPart, tracingPart } from "../parts/tracing.ts";
import { protocolOf } from "../parts/http_rules.ts";
import {
  NOTHING_HELD,
  ownCredentials,
  type PartContext,
  warmingShown,
} from "../parts/own_credentials.ts";
import {
  type CredentialsPart,
  INBOUND_KEY,
  keepPart,
  keepSnapshot,
  type PolicyPart,
  type Refusal,
  type Snapshot,
  type TelemetryChoice,
  type TlsPart,
  type TracingChoice,
} from "../../snapshot/mod.ts";
import { keepCode } from "../plugins/read_plugins.ts";
import {
  joinPlugins,
  NO_PLUGINS,
  pluginsInForce,
  pluginsLack,
  type RegisteredLists,
} from "./registered_plugins.ts";
import { type MadeSnapshot, waiting } from "../shell/facts_reader.ts";
import { assembleUpstreams, type UpstreamOptions } from "./upstreams.ts";

/** State from one call to the next. */
export interface AssembleMemory {
  /** The last snapshot, also a restored one. */
  readonly snapshot: Snapshot | undefined;
  /** Since when (monotonic) something wished for, but not demanded, has been missing. */
  readonly missingSinceMs: ReadonlyMap<string, number>;
  /** Until when (monotonic) a target keeps its last resort. */
  readonly lastResortUntilMs: ReadonlyMap<string, number>;
  /** The credentials judged last, so that signatures are not checked again for every endpoint change. */
  readonly judged: Judged | undefined;
}

interface Judged {
  readonly leaf: Leaf;
  readonly roots: Roots;
  readonly service: string;
  readonly verdict: CredentialsVerdict;
}

export const NO_MEMORY: AssembleMemory = {
  snapshot: undefined,
  missingSinceMs: new Map(),
  lastResortUntilMs: new Map(),
  judged: undefined,
};

/** Credentials that are not valid yet become so without any news. */
const REJUDGE_MS = 10_000;

export interface AssembleOptions extends UpstreamOptions {
  readonly proxyId: string;
  readonly authorize: "match" | "both";
  readonly strictSpiffeChain: boolean;
  readonly judge: JudgeCredentials;
  readonly nowMs: number;
  /** How long the first snapshot, or a changed upstream, waits for the data of its upstreams. */
  readonly graceMs: number;
  readonly plans?: CredentialPlans;
  readonly held?: HeldSecrets;
  /** Absent: the registration lists none. */
  readonly plugins?: RegisteredLists;
  readonly tracing?: TracingChoice | undefined;
  readonly telemetry?: TelemetryChoice | undefined;
}

export interface Assembled extends MadeSnapshot {
  /** Settings of config entries that are left out, a sentence each. */
  readonly ignored?: readonly string[];
  readonly memory: AssembleMemory;
}

export function assemble(
  known: ConsulState,
  memory: AssembleMemory,
  options: AssembleOptions,
): Assembled {
  const { registration } = known;
  const { plans = NO_PLANS, held = NOTHING_HELD, plugins: lists = new Map() } = options;
  if (!registration) {
    return { ...waiting(["registration"], [...known.refused, ...plans.refused]), memory };
  }
  // Parts of another service are no fallback: its policy must not guard this one's application.
  const previous = memory.snapshot?.service === registration.service ? memory.snapshot : undefined;
  const version = (memory.snapshot?.version ?? 0) + 1;
  const refused: Refusal[] = [...known.refused, ...plans.refused];
  for (const held of lists.values()) refused.push(...held.refused);
  const grace = new AbsenceTimer(memory.missingSinceMs, options);

  const judged = judgeOnce(known, memory.judged, registration, options);
  let rejudgeDueMs: number | undefined;
  if (judged?.verdict.kind === "invalid") {
    refused.push({ what: "credentials", reason: judged.verdict.reason });
    rejudgeDueMs = options.monotonicMs + REJUDGE_MS;
  }
  const credentials = judged?.verdict.kind === "valid"
    ? keepPart<CredentialsPart>(previous?.credentials, judged.verdict.credentials, version)
    : previous?.credentials;
  const http = (protocolOf(registration.protocol) ?? "tcp") !== "tcp";
  const judgedTokens = known.intentions &&
    judgeTokens(intentionsFor(registration, known.intentions), known.jwtProviders, { http });
  const intentions = judgedTokens?.intentions ?? previous?.policy.intentions;
  const remembered: AssembleMemory = { ...memory, judged };

  const lacking: string[] = [];
  if (!credentials) {
    if (!known.roots) lacking.push("roots");
    if (!known.leaf) lacking.push("leaf");
    if (known.roots && known.leaf) lacking.push("valid credentials");
  }
  if (!intentions) lacking.push("intentions");
  if (!credentials || !intentions) {
    return { ...waiting(lacking, refused), memory: remembered, dueMs: rejudgeDueMs };
  }

  const { unread = [] } = judgedTokens ?? {};
  const entries = unread.map((name) => `jwt-provider ${name}`);
  const awaited = entries.filter((entry) => grace.missing(entry));
  refused.push(...refusedIntentions(intentions, { http, isAwaited: awaited.length > 0 }));
  const hasInbound = registration.bind.port !== 0;
  if (hasInbound) refused.push(...refusedMutualTls(known, registration.service));

  // Unknown is deny, but at the start the answer is worth waiting for a little.
  const defaultAction = known.defaultAction ?? previous?.policy.defaultAction;
  if (!defaultAction && grace.missing("default policy")) lacking.push("default policy");
  const context = { previous, version, refused };
  const tls = tlsPart(known, context, options.strictSpiffeChain);
  if (!previous) {
    lacking.push(...unreadEntries(known).filter((entry) => grace.missing(entry)), ...awaited);
  }

  const { trustDomains } = credentials;
  const wanted = Object.keys(plans.plans);
  const own = ownCredentials({ ...context, held, wanted, trustDomains });
  const upstreams = assembleUpstreams(known, {
    ...context,
    registration,
    lists,
    plans,
    own,
    trustDomains,
    lastResortUntilMs: memory.lastResortUntilMs,
    grace,
    options,
  });
  refused.push(...upstreams.refused);
  if (!previous) lacking.push(...upstreams.awaited.map((id) => `upstream ${id}`));
  const kept: AssembleMemory = {
    ...remembered,
    missingSinceMs: grace.since,
    lastResortUntilMs: upstreams.lastResortUntilMs,
  };
  const given = lists.get(INBOUND_KEY) ?? NO_PLUGINS;
  const plugins = pluginsInForce(given, {
    plugins: previous?.inbound[INBOUND_KEY]?.plugins,
    pluginCode: previous?.pluginCode ?? {},
  });
  const { service } = registration;
  const entryResult = entryPlugins(known, {
    service,
    http,
    isOpen: previous?.inbound[INBOUND_KEY] !== undefined,
    upstreams: Object.values(upstreams.upstreams),
  });
  const { ignored } = entryResult;
  refused.push(...entryResult.refused);
  const blocked = [
    ...entryResult.blocked,
    ...entries.map((entry) => `${entry} has not been read`),
  ].join("; ");
  const inbound = inboundParts(known, registration, {
    ...context,
    own,
    plugins: plugins && joinPlugins(entryResult.uses, plugins.uses),
    blocked: blocked !== "",
    tokens: judgedTokens ? judgedTokens.use : previous?.inbound[INBOUND_KEY]?.tokens,
    wanted: plans.inbound,
    authorize: options.authorize,
  });
  const dueMs = earliest(rejudgeDueMs, earliest(grace.dueMs, upstreams.dueMs));
  if (lacking.length > 0) {
    const { pending } = upstreams;
    return { ...waiting(lacking, refused), ignored, pending, memory: kept, dueMs };
  }
  const policy = { intentions, defaultAction: defaultAction ?? "deny" } as const;
  const sampling = accessLogSampling(registration.accessLogSampling, refused);
  const snapshot: Snapshot = {
    version,
    service,
    proxyId: options.proxyId,
    datacenter: registration.datacenter,
    credentials,
    certificates: own.certificates,
    validations: own.validations,
    ownCredentials: own.ownCredentials,
    policy: keepPart<PolicyPart>(previous?.policy, policy, version),
    tls,
    accessLog: accessLogPart(registration.accessLogs, { ...context, sampling }),
    tracing: tracingPart(options.tracing, registration.tracing, {
      previous,
      version,
      service: registration.service,
    }),
    telemetry: telemetryPart(options.telemetry, sampling && { logs: { sampling } }, {
      previous,
      version,
      service: registration.service,
    }),
    inbound,
    pluginCode: keepCode(previous, { ...upstreams.code, ...plugins?.code }, version),
    edges: edgeParts(registration, { plans, own, previous, version }),
    exposed: exposedParts(registration, context),
    upstreams: upstreams.upstreams,
    chains: upstreams.chains,
    targets: upstreams.targets,
  };
  const published = keepSnapshot(previous, snapshot);
  const lack = plugins ? blocked : pluginsLack(given);
  return {
    outcome: { kind: "ready", snapshot: published },
    refused,
    ignored,
    pending: upstreams.pending,
    warming: [
      ...warmingShown(own),
      ...closedByRefusal(plans, registration, published),
      ...upstreams.lacking,
      ...(lack !== "" && hasInbound && !published.inbound[INBOUND_KEY] ? [`inbound: ${lack}`] : []),
    ],
    warmingUpstreams: upstreams.closed,
    memory: { ...kept, snapshot: published },
    dueMs,
  };
}

function unreadEntries({ mesh, proxyDefaults, serviceDefaults }: ConsulState): readonly string[] {
  const entries = {
    "mesh entry": mesh,
    "proxy-defaults": proxyDefaults,
    "service-defaults": serviceDefaults,
  };
  return Object.entries(entries).flatMap(([name, value]) => value === undefined ? name : []);
}

function judgeOnce(
  known: ConsulState,
  judged: Judged | undefined,
  registration: Registration,
  options: AssembleOptions,
): Judged | undefined {
  const { leaf, roots } = known;
  if (!leaf || !roots) return undefined;
  const { service } = registration;
  const { nowMs, strictSpiffeChain } = options;
  // A refusal is judged again each time: "not yet valid" heals by waiting.
  if (
    judged?.verdict.kind === "valid" && judged.leaf === leaf && judged.roots === roots &&
    judged.service === service
  ) return judged;
  const verdict = options.judge({ leaf, roots, service, nowMs, strictSpiffeChain });
  return { leaf, roots, service, verdict };
}

function tlsPart(
  { mesh }: ConsulState,
  { previous, version, refused }: PartContext,
  strictSpiffeChain: boolean,
): TlsPart {
  let incoming = previous?.tls.incoming ?? DEFAULT_TLS_DIRECTION;
  let outgoing = previous?.tls.outgoing ?? DEFAULT_TLS_DIRECTION;
  if (mesh !== undefined) {
    const judgement = judgeMeshTls(mesh?.tls);
    const isTaken = judgement.kind === "taken";
    if (isTaken) ({ incoming, outgoing } = judgement);
    const reasons = isTaken ? judgement.warnings : [judgement.reason];
    for (const reason of reasons) refused.push({ what: "mesh TLS", reason });
  }
  return keepPart<TlsPart>(previous?.tls, { incoming, outgoing, strictSpiffeChain }, version);
}
