/**
 * Upstream and target parts of a snapshot. An upstream changes over to a new plan only when everything
 * the plan needs has been answered, or has been awaited long enough: a redirect must not pass through a
 * moment without endpoints.
 *
 * @module
 */

import { outlierPolicy } from "../../balance/mod.ts";
import type { Registration, UpstreamDeclaration } from "../../consul/mod.ts";
import { type AbsenceTimer, LastResort } from "./last_resort.ts";
import type { ConsulState } from "./consul_state.ts";
import type { CredentialPlans } from "../parts/credential_plans.ts";
import {
  isOpen,
  keyInForce,
  type OwnCredentials,
  type PartContext,
} from "../parts/own_credentials.ts";
import { protocolOf, unjudgedHttp, unknownProtocol } from "../parts/http_rules.ts";
import {
  type ChainPart,
  type Content,
  type HttpRules,
  keepPart,
  oneWay,
  type Refusal,
  type Snapshot,
  targetKeysOf,
  type TargetPart,
  type UpstreamPart,
} from "../../snapshot/mod.ts";
import { healthKey, type UpstreamPlan } from "./plan.ts";
import type { PluginCode } from "../plugins/read_plugins.ts";
import {
  NO_PLUGINS,
  pluginsInForce,
  pluginsLack,
  type RegisteredLists,
} from "./registered_plugins.ts";
import { queryTargetOf, type TargetContent, targetOf } from "./targets.ts";

/** Envoy's circuit breaker defaults. */
const DEFAULT_LIMIT = 1_024;

interface UpstreamContext extends Pick<PartContext, "previous" | "version"> {
  readonly registration: Registration;
  readonly plans: CredentialPlans;
  readonly own: OwnCredentials;
  readonly lists: RegisteredLists;
  readonly trustDomains: readonly string[];
  readonly lastResortUntilMs: ReadonlyMap<string, number>;
  readonly grace: AbsenceTimer;
  readonly options: UpstreamOptions;
}

export interface UpstreamOptions {
  readonly monotonicMs: number;
  readonly lastResortMs: number;
  /** For upstreams without a value of their own. */
  readonly idleTimeoutMs: number;
  readonly lifetimeMs: number;
}

interface AssembledUpstreams extends Pick<Snapshot, "upstreams" | "chains" | "targets"> {
  readonly refused: readonly Refusal[];
  /** How many stay closed for want of credentials or plugins. */
  readonly closed: number;
  /** The plugins that closed upstreams wait for, a line each. */
  readonly lacking: readonly string[];
  /** Code of the plugins of all upstreams. */
  readonly code: PluginCode;
  /** Without all of their data. */
  readonly pending: readonly string[];
  /** The part of {@link pending} that the first snapshot waits for. */
  readonly awaited: readonly string[];
  readonly lastResortUntilMs: ReadonlyMap<string, number>;
  /** When (monotonic) a last resort ends. */
  readonly dueMs: number | undefined;
}

export function assembleUpstreams(
  known: ConsulState,
  context: UpstreamContext,
): AssembledUpstreams {
  const { previous, version } = context;
  const upstreams: Record<string, UpstreamPart> = {};
  const chains: Record<string, ChainPart> = {};
  const targets: Record<string, TargetPart> = {};
  const refused: Refusal[] = [];
  const pending: string[] = [];
  const awaited: string[] = [];
  const lacking: string[] = [];
  let code: PluginCode = {};
  let closed = 0;
  const lastResort = new LastResort(context.lastResortUntilMs, context.options);
  for (const declaration of context.registration.upstreams) {
    const { id } = declaration;
    const plan = known.plans.get(id) ?? PENDING;
    if (plan.kind === "refused") {
      const { name, bind } = declaration;
      refused.push({ what: `upstream ${id}`, reason: plan.reason, upstream: { id, name, bind } });
      continue;
    }
    const old = previous?.upstreams[id];
    const wanted = context.plans.upstreams.get(id) ?? null;
    const credentials = keyInForce(wanted, old, context.own);
    // The reason is in the refusals of the plans, or its secrets are awaited.
    const listener = context.plans.listeners.get(id) ?? null;
    // Callers do not go on in clear where TLS is wanted.
    if (credentials === undefined || listener === "refused" || !isOpen(listener, context.own)) {
      closed++;
      continue;
    }
    const listed = context.lists.get(id) ?? NO_PLUGINS;
    const plugins = pluginsInForce(listed, {
      plugins: old?.plugins,
      pluginCode: previous?.pluginCode ?? {},
    });
    // One of them may decide which requests leave.
    if (!plugins) {
      closed++;
      lacking.push(`upstream ${declaration.name}: ${pluginsLack(listed)}`);
      continue;
    }
    code = { ...code, ...plugins.code };
    const missing = missingFor(id, plan, known);
    if (missing.length > 0) pending.push(id);
    // Each has its own time: a failover target that never answers must not spoil a later change.
    const isAwaited = missing.map((what) => context.grace.missing(`${id} ${what}`)).includes(true);
    if (isAwaited) awaited.push(id);
    if (isAwaited && !old) continue;
    const oldChain = previous?.chains[id];
    const keepsOld = oldChain !== undefined && (isAwaited || plan.kind === "pending");
    const contents = keepsOld
      ? [...targetKeysOf(oldChain)].flatMap((key) => {
        const target = previous?.targets[key];
        return target ? lastResort.ofUnanswered(target) : [];
      })
      : targetContents(declaration, plan, { known, context, lastResort });
    for (const content of contents) {
      targets[content.key] = keepPart<TargetPart>(previous?.targets[content.key], content, version);
    }
    upstreams[id] = keepPart<UpstreamPart>(old, {
      ...declared(declaration, context.options),
      plugins: plugins.uses,
      http: keepsOld
        ? old?.http ?? null
        : rulesOf(declaration, plan, { registration: context.registration, refused }),
      credentials,
      listener: listener === null
        ? null
        : { credentials: listener, handshakeTimeoutMs: context.registration.handshakeTimeoutMs },
      chain: id,
    }, version);
    chains[id] = keepPart<ChainPart>(
      oldChain,
      chainContent(declaration, keepsOld ? oldChain : plan, contents),
      version,
    );
  }
  return {
    upstreams,
    chains,
    targets,
    refused,
    closed,
    lacking,
    code,
    pending,
    awaited,
    lastResortUntilMs: lastResort.untilMs,
    dueMs: lastResort.dueMs,
  };
}

const PENDING: UpstreamPlan = { kind: "pending" };

/** Parts that the plan needs and the agent has not answered yet. */
function missingFor(id: string, plan: UpstreamPlan, known: ConsulState): readonly string[] {
  switch (plan.kind) {
    case "pending":
      return ["chain"];
    case "query":
      return known.queries.has(id) ? [] : ["query"];
    case "targets":
      return plan.targets.map(({ health }) => healthKey(health))
        .filter((key) => !known.instances.has(key));
    case "refused":
      return [];
  }
}

interface From {
  readonly known: ConsulState;
  readonly context: UpstreamContext;
  readonly lastResort: LastResort;
}

function targetContents(
  declaration: UpstreamDeclaration,
  plan: UpstreamPlan,
  from: From,
): readonly TargetContent[] {
  const { known, context } = from;
  const { trustDomains, registration } = context;
  switch (plan.kind) {
    case "pending":
    case "refused":
      return [];
    case "query": {
      const { id, name, datacenter } = declaration;
      const query = { key: `${id}#query`, name, datacenter };
      const { connectTimeoutMs } = plan;
      const options = { trustDomains, place: registration, connectTimeoutMs };
      const result = known.queries.get(id);
      const answer = { value: result, failing: known.unheard.get(id) };
      return [settled(queryTargetOf(query, answer, options), result?.instances, from)];
    }
    case "targets":
      return plan.targets.map((planned) => {
        const key = healthKey(planned.health);
        const instances = known.instances.get(key);
        const answer = { value: instances, failing: known.unheard.get(key) };
        return settled(targetOf(planned, answer, trustDomains), instances, from);
      });
  }
}

/** `content` with what its list's history adds: an unanswered one keeps its endpoints, an empty one its last resort. */
function settled(
  content: TargetContent,
  instances: readonly unknown[] | undefined,
  { context, lastResort }: From,
): TargetContent {
  const previous = context.previous?.targets[content.key];
  if (!instances && previous) {
    const kept = lastResort.ofUnanswered(previous);
    const { spiffeUris } = content.spiffeUris.length > 0 ? content : kept;
    const lack = kept.endpoints.length > 0 ? "" : content.lack;
    const { endpoints, unhealthy } = kept;
    return { ...content, endpoints, unhealthy, spiffeUris, lastResort: kept.lastResort, lack };
  }
  return instances?.length === 0 ? lastResort.ofEmpty(content, previous) : content;
}

/** From the plan, or from the chain that stays. A plan without routes has one route to all its targets. */
function chainContent(
  { name, outlier: written }: UpstreamDeclaration,
  from: UpstreamPlan | ChainPart,
  contents: readonly TargetContent[],
): Content<ChainPart> {
  const outlier = outlierPolicy(written);
  if (!("routes" in from)) {
    const targets = contents.map(({ key }) => key);
    return oneWay({ targets, balancing: { kind: "round_robin" }, outlier }, name);
  }
  const resolvers = Object.entries(from.resolvers)
    .map(([key, resolver]) => [key, { ...resolver, outlier }] as const);
  return { routes: from.routes, resolvers: Object.fromEntries(resolvers) };
}

/** The protocol is that of the chain, where there is one. */
function rulesOf(
  declaration: UpstreamDeclaration,
  plan: UpstreamPlan,
  { registration: { headBytes, showDenials }, refused }: {
    readonly registration: Pick<Registration, "headBytes" | "showDenials">;
    readonly refused: Refusal[];
  },
): HttpRules | null {
  const isChain = plan.kind === "targets";
  const written = isChain ? plan.protocol : declaration.protocol || "tcp";
  const protocol = protocolOf(written);
  if (!protocol) {
    const what = `protocol of upstream ${declaration.id}`;
    refused.push({ what, reason: unknownProtocol(written) });
  }
  const requestTimeoutMs = isChain ? plan.requestTimeoutMs : undefined;
  return unjudgedHttp(protocol ?? "tcp", { headBytes, requestTimeoutMs, showDenials });
}

/** Fields of a part that come from the declaration alone. */
function declared(
  declaration: UpstreamDeclaration,
  options: UpstreamOptions,
): Omit<UpstreamPart, "version" | "chain" | "http" | "plugins" | "credentials" | "listener"> {
  const { id, name, bind } = declaration;
  return {
    id,
    name,
    bind,
    maxConnections: declaration.maxConnections ?? DEFAULT_LIMIT,
    ...(declaration.maxClientConnections !== undefined && {
      maxClientConnections: declaration.maxClientConnections,
    }),
    maxPending: declaration.maxPending ?? DEFAULT_LIMIT,
    maxRequests: declaration.maxRequests ?? DEFAULT_LIMIT,
    idleTimeoutMs: declaration.idleTimeoutMs ?? options.idleTimeoutMs,
    lifetimeMs: declaration.lifetimeMs ?? options.lifetimeMs,
  };
}
