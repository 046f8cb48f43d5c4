/** Explains a request: the data paths decide, Consul adds the intentions of the callee. @module */

import {
  type ExplainQuery,
  NO_FINDINGS,
  type SplitView,
  takeForm,
  type TargetView,
} from "../../proxy/mod.ts";
import type { CalleeVerdict, ExplanationView } from "./verdict.ts";
import {
  type AskCallee,
  type AskMesh,
  mergeExplained,
  type NotExplained,
} from "./merge_explained.ts";
import { mergeRefusing } from "../merge.ts";
import { recentTexts } from "../upstream_troubles.ts";
import type { AdminView, MeshQuestions } from "../view.ts";
import {
  localAddressOf,
  type NamedUpstream,
  type Refusal,
  type Snapshot,
  upstreamLabel,
  upstreamsNamed,
} from "../../snapshot/mod.ts";
import { messageOf, replyOf } from "../../base/mod.ts";
import type { ServiceRef } from "../../consul/mod.ts";
import { DEFAULT_PATH_RULES, namedCallerElement, REDIRECT, RequestIds } from "../../http/mod.ts";
import { parseServiceId, type ServiceId } from "../../identity/mod.ts";
import { authorize, compilePolicy, type Source } from "../../policy/mod.ts";

/** `undefined`: there is no state yet. */
export async function explainFor(
  view: AdminView,
  question: ExplainQuery,
): Promise<ExplanationView | NotExplained | undefined> {
  const snapshot = view.snapshot();
  if (!snapshot) return undefined;
  const { config } = view.info.options;
  const asked: Omit<AskMesh, "refusing"> = {
    proxy: {
      id: snapshot.proxyId || (typeof config === "string" ? config : ""),
      service: snapshot.service,
    },
    callee: calleeAsker(snapshot, view.mesh()),
    hasConsul: view.mesh() !== undefined,
    ownUri: snapshot.credentials?.uri ?? "",
    sourceNote: (uri) => sourceNote(uri, snapshot, view.mesh()),
    unfollowed: (upstream) => view.unfollowed(upstream),
  };
  const refusing = question.to.kind === "inbound" ? [] : mergeRefusing(await view.endpoints());
  const mesh: AskMesh = {
    ...asked,
    refusing: (id) => {
      const part = snapshot.upstreams[id ?? ""];
      return recentTexts(
        part ? refusing.filter(({ upstream }) => upstream === upstreamLabel(part)) : [],
      );
    },
  };
  const explained = await mergeExplained(await view.explain(question), mesh);
  const { to } = question;
  if (!explained || !("reason" in explained) || explained.kind === "invalid") return explained;
  if (to.kind === "inbound") return explained;
  const refused = view.refused();
  const meant = refusedUpstream(refused, to.name);
  if (meant) return explainRefused(meant, mesh);
  return { ...explained, reason: explained.reason + refusedText(refused) };
}

/** `/explain?upstream=db&method=GET&path=/a`. */
export function questionOf(
  query: (name: string) => string | undefined,
  headers: readonly string[],
): ExplainQuery {
  const listener = query("listener");
  const upstream = query("upstream");
  return {
    to: listener !== undefined
      ? { kind: "listener", name: listener }
      : upstream !== undefined
      ? { kind: "upstream", name: upstream }
      : { kind: "inbound" },
    source: query("source") ?? "",
    method: query("method") ?? "GET",
    host: query("host"),
    path: query("path") ?? "/",
    headers,
    connects: query("connect") !== "no",
  };
}

/** The refused upstream that `name` means; `undefined`: none, or several. */
export function refusedUpstream(refused: readonly Refusal[], name: string): Refusal | undefined {
  const [first, second] = upstreamsNamed(
    refusedUpstreams(refused),
    name,
    ({ upstream }) => upstream,
  );
  return second ? undefined : first;
}

type UpstreamRefusal = Refusal & { readonly upstream: NamedUpstream };

function refusedUpstreams(refused: readonly Refusal[]): readonly UpstreamRefusal[] {
  return refused.filter((refusal): refusal is UpstreamRefusal => refusal.upstream !== undefined);
}

/** A list to append to that of the served upstreams; `""`: none is refused. */
export function refusedText(refused: readonly Refusal[]): string {
  const labels = refusedUpstreams(refused).map(({ upstream }) => {
    const at = localAddressOf(upstream);
    return upstreamLabel(upstream) + (at && ` (${at})`);
  });
  return labels.length === 0 ? "" : `; refused: ${labels.join(" ")}`;
}

export function explainRefused(
  { what, reason, upstream }: Refusal,
  { proxy, hasConsul, unfollowed }: Pick<AskMesh, "proxy" | "hasConsul" | "unfollowed">,
): ExplanationView {
  const id = upstream?.id ?? what;
  const at = upstream ? localAddressOf(upstream) : "";
  return {
    ...NO_FINDINGS,
    proxy,
    listener: id,
    direction: "outbound",
    protocol: null,
    source: null,
    upstream: id,
    verdict: "fail",
    status: 0,
    answer: {
      status: 0,
      grpcStatus: null,
      code: "listen_failed",
      reason: `nothing listens${at && ` on ${at}`}: the upstream is refused: ${reason}`,
    },
    requestTimeoutMs: 0,
    idleTimeoutMs: 0,
    workers: 0,
    hasConsul,
    sourceNote: "",
    refusing: [],
    unfollowed: unfollowed(id).filter((sentence) => !sentence.includes(reason)),
    next: [],
  };
}

const UNKNOWN = { verdict: "unknown", path: null, permissions: [] } as const;

/** `mesh`: `undefined` where there is no Consul to ask. */
export function calleeAsker(snapshot: Snapshot, mesh: MeshQuestions | undefined): AskCallee {
  const byCallee = new Map<string, ReturnType<MeshQuestions["askIntentions"]>>();
  const intentionsOf = (callee: ServiceId, { askIntentions }: MeshQuestions) => {
    const key = JSON.stringify(callee);
    const known = byCallee.get(key) ?? askIntentions(callee);
    byCallee.set(key, known);
    return known;
  };
  return async (split, target) => {
    const callee = calleeOf(target);
    const { credentials } = snapshot;
    if (!callee) return null;
    const { service } = callee;
    const unknown = (reason: string) => ({ ...UNKNOWN, service, reason });
    if (!mesh || !credentials) return unknown("there is no Consul that could be asked");
    if (!credentials.trustDomains.includes(callee.trustDomain)) {
      return unknown("it is in another cluster, whose intentions are not known here");
    }
    try {
      const intentions = await intentionsOf(callee, mesh);
      const policy = { intentions, defaultAction: snapshot.policy.defaultAction };
      const { uri: ownUri } = credentials;
      const { spiffeUris: calleeUris } = target;
      return { service, ...judged(snapshot, { split, policy, ownUri, calleeUris }) };
    } catch (error) {
      return unknown(messageOf(error));
    }
  };
}

function judged(
  { inbound }: Snapshot,
  { split, policy, ownUri, calleeUris }: {
    readonly split: SplitView;
    readonly policy: Parameters<typeof compilePolicy>[0];
    readonly ownUri: string;
    readonly calleeUris: readonly string[];
  },
): Omit<CalleeVerdict, "service"> {
  const parsed = parseServiceId(ownUri);
  const source: Source = { id: parsed.kind === "service" ? parsed.id : undefined, uri: ownUri };
  const { head } = split;
  if (!head) {
    const { kind: verdict, rule: reason } = authorize(source, policy);
    const closed = verdict === "deny" && { status: 0 };
    return { verdict, ...closed, path: null, reason, permissions: [] };
  }
  const request = { ...head, fields: [...head.fields] };
  // The mesh entry applies to all proxies, so this one normalizes requests as the callee's does.
  const rules = Object.values(inbound)[0]?.http ?? DEFAULT_RULES;
  const clientCert = namedCallerElement({ by: calleeUris, uri: ownUri });
  const caller = { isSecure: true, clientCert };
  const fault = takeForm(request, { rules, caller, ids: new RequestIds(), isInbound: true });
  if (fault) {
    const isRedirect = "location" in fault;
    const { status } = isRedirect ? REDIRECT : replyOf("request_invalid");
    const reason = isRedirect ? `its proxy redirects to ${fault.location}` : fault.reason;
    return { verdict: "deny", status, path: null, reason, permissions: [] };
  }
  const judge = compilePolicy(policy).forSource(source);
  const { kind: verdict, rule: reason, lacks } = judge.decide(request);
  if (lacks) {
    return { ...UNKNOWN, path: request.path, reason: `its proxy verifies tokens: ${reason}` };
  }
  const { path } = request;
  const denied = verdict === "deny" && { status: replyOf("intention_denied").status };
  return { verdict, ...denied, path, reason, permissions: judge.tried(request) };
}

const DEFAULT_RULES = {
  path: DEFAULT_PATH_RULES,
  requestTimeoutMs: 0,
  sanitizeForwardedClientCert: false,
};

/** The service that must answer; `undefined`: no service of a mesh, or several. */
function calleeOf({ spiffeUris }: TargetView): ServiceId | undefined {
  const ids = spiffeUris.flatMap((uri) => {
    const parsed = parseServiceId(uri);
    return parsed.kind === "service" ? [parsed.id] : [];
  });
  const names = new Set(ids.map(({ trustDomain: _, ...id }) => JSON.stringify(id)));
  return names.size === 1 ? ids[0] : undefined;
}

/** A remark about the source beside the verdict; `""`: none. */
export async function sourceNote(
  uri: string | null,
  snapshot: Snapshot,
  mesh: MeshQuestions | undefined,
): Promise<string> {
  const parsed = parseServiceId(uri ?? "");
  if (!mesh || parsed.kind !== "service") return "";
  const { id } = parsed;
  if (!snapshot.credentials?.trustDomains.includes(id.trustDomain)) return "";
  const { service, datacenter } = id;
  const named = `${JSON.stringify(service)} is in the catalog of ${datacenter}`;
  try {
    const isThere = await mesh.askInCatalog(id satisfies ServiceRef);
    if (isThere === undefined) return `whether ${named} is not known: the token may not read it`;
    return isThere ? "" : `no service ${named}: is the name right?`;
  } catch (error) {
    return `whether ${named} is not known: ${messageOf(error)}`;
  }
}
