/**
 * Explains a request: the data paths decide, Consul adds what it alone knows. Refused upstreams as well.
 *
 * @module
 */

import type { ExplainQuery } from "../../proxy/mod.ts";
import type { ExplanationView } from "./verdict.ts";
import { type AskMesh, mergeExplained, type NotExplained } from "./merge_explained.ts";
import { calleeAsker, sourceNote } from "./mesh_questions.ts";
import type { AdminView } from "../view.ts";
import {
  localAddressOf,
  type NamedUpstream,
  type Refusal,
  upstreamLabel,
  upstreamsNamed,
} from "../../snapshot/mod.ts";

/** `undefined`: there is no state yet. */
export async function explainFor(
  view: AdminView,
  question: ExplainQuery,
): Promise<ExplanationView | NotExplained | undefined> {
  const snapshot = view.snapshot();
  if (!snapshot) return undefined;
  const mesh: AskMesh = {
    callee: calleeAsker(snapshot, view.mesh()),
    hasConsul: view.mesh() !== undefined,
    ownUri: snapshot.credentials?.uri ?? "",
    sourceNote: (uri) => sourceNote(uri, snapshot, view.mesh()),
    unfollowed: (upstream) => view.unfollowed(upstream),
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

/** The answer about an upstream that is refused: nothing listens for it. */
export function explainRefused(
  { what, reason, upstream }: Refusal,
  { hasConsul, unfollowed }: Pick<AskMesh, "hasConsul" | "unfollowed">,
): ExplanationView {
  const id = upstream?.id ?? what;
  const at = upstream ? localAddressOf(upstream) : "";
  return {
    listener: id,
    direction: "outbound",
    protocol: null,
    source: null,
    request: null,
    upstream: id,
    verdict: "fail",
    status: 0,
    answer: {
      status: 0,
      grpcStatus: null,
      code: "listen_failed",
      reason: `nothing listens${at && ` on ${at}`}: the upstream is refused: ${reason}`,
    },
    rule: "",
    permissions: [],
    tokens: [],
    route: null,
    plugins: [],
    splits: [],
    local: null,
    requestTimeoutMs: 0,
    idleTimeoutMs: 0,
    limits: null,
    unknown: [],
    workers: 0,
    hasConsul,
    sourceNote: "",
    unfollowed: unfollowed(id).filter((sentence) => !sentence.includes(reason)),
    next: [],
  };
}
